"""Fetch sessions against the shortest true model of KIP-227, in random lives of partitions.

A session's response has a partition if there are records or an error, or if the high watermark or
the start differs from the last response. Each batch has one record.
"""

import gc
import random

import pytest

from support.server.asking import ask, request
from support.server.playing import Server
from support.server.writing import batch, offsets

UNKNOWN, OUT_OF_RANGE = 3, 1
TOPICS = ("t", "u")
PARTITIONS = 3


class Model:
    """The responses of a session; ``ends`` are the start and the end of each partition's log."""

    def __init__(self):
        self.ends = {(topic, n): (0, 0) for topic in TOPICS for n in range(PARTITIONS)}
        self.session = {}  # in its order: key -> [offset, the (high watermark, start) sent last]

    def answer(self, asked):
        for key, offset in asked.items():
            self.session.setdefault(key, [offset, None])[0] = offset
        found = []
        for key, (offset, last) in list(self.session.items()):
            start, end = self.ends.get(key, (None, None))
            error = UNKNOWN if start is None else 0 if start <= offset <= end else OUT_OF_RANGE
            new = [] if error else list(range(offset, end))
            now = None if error else (end, start)
            if error or new or now != last:
                found.append((key, (error, new)))
            self.session[key][1] = now
            if new:
                self.session[key] = self.session.pop(key)
        # Partitions with an error because their topic is missing come after the others.
        return sorted(found, key=lambda each: each[1][0] == UNKNOWN)


class Fetching:
    """A server, a session of all partitions, and its model; each step is a method."""

    def __init__(self, rng):
        self.rng, self.model = rng, Model()
        self.server = Server({"log.retention.ms": -1})
        self.topics = self.server.cluster.topics
        for topic in TOPICS:
            self.topics.create(topic, PARTITIONS)
        self.peer = self.server.connect()
        self.epoch = self.session = 0
        self.positions = dict.fromkeys(self.model.ends, 0)
        self.fetch(dict(self.positions))

    def key(self):
        return self.rng.choice(list(self.positions))

    def produce(self):
        key = self.key()
        log = self.topics.partition(*key)
        if log is not None:
            log.produce(batch(b"v"))
            start, end = self.model.ends[key]
            self.model.ends[key] = start, end + 1

    def delete_records(self):
        key = self.key()
        if key in self.model.ends:
            start, end = self.model.ends[key]
            at = self.rng.randint(start, end)
            self.topics.partition(*key).delete_below(at)
            self.model.ends[key] = at, end

    def end_or_begin(self):
        topic = self.rng.choice(TOPICS)
        there = self.topics.get(topic) is not None
        if there:
            self.topics.delete(topic)
        else:
            self.topics.create(topic, PARTITIONS)
        for n in range(PARTITIONS):
            if there:
                del self.model.ends[topic, n]
            else:
                self.model.ends[topic, n] = 0, 0

    def go_on(self):
        """Fetch from behind what was read."""
        self.fetch({key: at for key, at in self.positions.items()
                    if at != self.model.session[key][0]})  # fmt: skip

    def seek(self):
        key = self.key()
        self.fetch({key: self.rng.randint(0, self.positions[key] + 1)})

    def fetch(self, asked):
        topics = [
            {"topic": topic, "partitions": [
                {"partition": n, "fetchOffset": at, "currentLeaderEpoch": -1,
                 "partitionMaxBytes": 1 << 20}]}
            for (topic, n), at in asked.items()
        ]  # fmt: skip
        body = {"maxWaitMs": 0, "minBytes": 1, "maxBytes": 1 << 20, "sessionId": self.session,
                "sessionEpoch": self.epoch, "topics": topics}  # fmt: skip
        said = ask(self.peer, "Fetch", 11, body)
        assert said["errorCode"] == 0
        self.session, self.epoch = said["sessionId"], self.epoch + 1
        response = [
            ((topic["topic"], each["partitionIndex"]),
             (each["errorCode"], offsets(each["records"])))
            for topic in said["responses"]
            for each in topic["partitions"]
        ]  # fmt: skip
        assert response == self.model.answer(asked)
        for key, (_, new) in response:
            self.positions[key] = new[-1] + 1 if new else self.model.session[key][0]


@pytest.mark.parametrize("seed", range(40))
def test_a_session_is_told_what_is_new_and_nothing_else(seed):
    rng = random.Random(seed)
    it = Fetching(rng)
    steps = [it.produce, it.produce, it.go_on, it.go_on, it.go_on, it.seek, it.delete_records,
             it.end_or_begin]  # fmt: skip
    for _ in range(120):
        rng.choice(steps)()
    it.go_on()


def test_a_fetch_that_waited_leaves_nothing_to_the_collector():
    server = Server({})
    server.cluster.topics.create("t", 1)
    part = {"partition": 0, "fetchOffset": 0, "currentLeaderEpoch": -1, "partitionMaxBytes": 100}
    body = {"minBytes": 1, "topics": [{"topic": "t", "partitions": [part]}]}

    def garbage(wait_ms, leave):
        gc.collect()
        peer = server.connect()
        peer.send(request("Fetch", 11, {**body, "maxWaitMs": wait_ms, "sessionEpoch": -1}))
        if leave:
            peer.leave()
        server.run(100)
        assert leave or peer.take()
        del peer
        return gc.collect()

    garbage(100, False)  # what the first one alone makes
    for leave in (True, False):
        assert garbage(100, leave) == garbage(0, leave)
