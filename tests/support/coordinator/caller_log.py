"""A log that the caller of a coordinator keeps."""

from coterie import Batch


class Log:
    """Batches one behind the other, from offset 100 on; what may be strange is."""

    def __init__(self, later=False):
        self.batches, self.end, self.later = [], 100, later
        self.answers = []  # in place of what it would return, or raise

    def append(self, batch):
        assert batch.base_offset == -1
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer
        if self.later and not batch.control:
            self.batches.append(batch)
            return None
        return self.put(batch)

    def put(self, batch):
        placed = Batch(self.end, *(getattr(batch, name) for name in FIELDS))
        self.batches.append(placed)
        self.end += max(len(batch.records), 1)
        return placed.base_offset

    def read(self):
        yield from self.batches


FIELDS = ("producer_id", "producer_epoch", "transactional", "control", "records")
