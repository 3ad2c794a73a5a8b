"""Stand-ins for the real client and the broker of a play, which write down what they are asked."""

from types import SimpleNamespace

from coterie.testing import ConsumerRecord, TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def record(number, offset):
    return ConsumerRecord("t", number, offset, 0, None, None)


class Client:
    """A real client: gives the records and results that it is told to give."""

    def __init__(self, settings=None):
        self.settings, self.calls, self.batches, self.failure = settings, [], [], None
        self.places, self.listener = {}, None

    def _called(self, *call):
        self.calls.append(call)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def subscribe(self, topics, listener):
        self._called("subscribe", topics)
        self.listener = listener

    def poll(self, wait_ms):
        self._called("poll", wait_ms)
        batch = self.batches.pop(0) if self.batches else []
        if callable(batch):
            batch(self.listener)
            return []
        return batch

    def position(self, place):
        self._called("position", place)
        return self.places.get(place)

    def commit(self, offsets):
        self._called("commit", offsets)

    def commit_async(self, offsets, callback):
        self._called("commit_async", offsets)
        self.batches.insert(0, lambda _: callback(None))

    def seek(self, place, offset):
        self._called("seek", place, offset)

    def pause(self, places):
        self._called("pause", places)

    def close(self):
        self._called("close")


class Broker:
    """Writes down what a play does to it, at the time of the play; its clock follows."""

    bootstrap_servers = "broker:9092"

    def __init__(self, groups=True):
        self.acts, self.groups, self.cancelled = [], groups, 0
        self.silent = []  # what is silent at each look
        self.now_ms = 0

    def _on_stage(self, act, *args):
        self.acts.append((act, *args))
        if act == "quicken":
            return self.groups
        if act == "silent":
            return self.silent.pop(0) if self.silent else []
        if act == "joins_of":
            return 0
        if act == "ask":  # for committed offsets: there are none
            return SimpleNamespace(partitions=())
        if act == "move":
            self.now_ms += args[0]
        return None

    def advance(self, ms):
        self.acts.append(("advance", ms))

    def fail(self, api, **fault):
        self.acts.append(("fail", api, fault))
        return SimpleNamespace(cancel=self._cancel)

    def _cancel(self):
        self.cancelled += 1

    def move_coordinator(self, group_id):
        self.acts.append(("move_coordinator", group_id))

    def take(self, *left_out):
        acts, self.acts = self.acts, []
        return [act for act in acts if act[0] not in left_out]
