"""The history of commits, slowly: Python tuples, one after another."""

from coterie._core.codec.text import decode_utf8
from coterie._core.fold.partial import split_key


class HistoryModel:
    """What becomes of the commits of one partition of the topic, given in log order."""

    def __init__(self, number):
        self.number = number
        self.undecided = {}

    def feed(self, events):
        """``events``: ("commit", key, log offset, time, producer id or None, value or None) and
        ("marker", producer id, committed); returns rows of the table ``commits``."""
        return [self.row(*one) for one in self.feed_events(events)]

    def decided(self, events):
        """All of a log: (commit, outcome) each."""
        return [*self.feed_events(events), *self.left()]

    def feed_events(self, events):
        rows = []
        for event in events:
            if event[0] == "marker":
                outcome = "committed" if event[2] else "aborted"
                waited = self.undecided.pop(event[1], ())
                rows += [(commit, outcome) for commit in waited]
            elif event[4] is None:
                rows.append((event, "committed"))
            else:
                self.undecided.setdefault(event[4], []).append(event)
        return rows

    def finish(self):
        return [self.row(*one) for one in self.left()]

    def left(self):
        left = [commit for waited in self.undecided.values() for commit in waited]
        left.sort(key=lambda commit: commit[2])
        return [(commit, "pending") for commit in left]

    def row(self, commit, outcome):
        _, key, log_offset, time, producer_id, value = commit
        group, topic, partition = split_key(key)
        offset, epoch, metadata, committed, expires = value or (None,) * 5
        return (
            *(decode_utf8(group), self.number, log_offset, None if time == -1 else time),
            *(decode_utf8(topic), partition, offset, epoch),
            *(None if metadata is None else decode_utf8(metadata), committed),
            *(None if expires == -1 else expires, value is None, producer_id, outcome),
        )
