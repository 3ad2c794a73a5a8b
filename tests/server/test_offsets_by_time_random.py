"""Offsets by time in random logs with markers and deleted records, against Kafka's rule.

The rule, of UnifiedLog.searchOffsetInLocalLog and FileRecords.searchForTimestamp: the first segment
whose largest time is the one asked for or later; in it the first record of such a time that is not
below the log's start. A marker is a record as any other, and no other segment is looked at. The
greatest time is asked of the whole log, deleted records too, until their segments go. What is
found must lie below the end that the asker sees (Partition.fetchOffsetForTimestamp).
"""

import random

import pytest

from support.server.asking import ask
from support.server.playing import START_MS, Server
from support.server.writing import batch, of_producer

EARLIEST, LATEST, LATEST_TIME = -2, -1, -3
NOTHING = (-1, -1)
TIMES = range(START_MS - 50, START_MS + 51)


class Life:
    """A partition and, record by record, its model: segments of (time, offset)."""

    def __init__(self, rng):
        self.rng = rng
        self.server = Server({"log.retention.ms": -1})
        self.segment_bytes = rng.choice([200, 400, 1 << 20])
        configs = {"segment.bytes": str(self.segment_bytes)}
        (self.log,) = self.server.cluster.topics.create("t", 1, configs).partitions
        self.segment = self.size = self.held = 0
        self.peer = self.server.connect()
        self.records, self.start = [], 0
        self.open, self.sequences = {}, {}  # first offset, next sequence of each producer

    def write(self):
        count, time_ms = self.rng.randint(1, 3), self.rng.choice(TIMES)
        self.log.produce(batch(*[b"v" * 20] * count, time_ms=time_ms))
        self.note([time_ms + n for n in range(count)])

    def write_in_transaction(self):
        producer, time_ms = self.rng.randint(1, 3), self.rng.choice(TIMES)
        sequence = self.sequences.get(producer, 0)
        self.log.produce(of_producer(
            sequence, producer_id=producer, transactional=True, time_ms=time_ms))  # fmt: skip
        self.sequences[producer] = sequence + 1
        self.open.setdefault(producer, len(self.records))
        self.note([time_ms])

    def end(self):
        if self.open:
            producer = self.rng.choice(list(self.open))
            time_ms = self.rng.choice(TIMES)
            assert not self.log.append_marker(producer, 0, 0, self.rng.random() < 0.5, time_ms)
            del self.open[producer]
            self.note([time_ms])

    def note(self, times):
        """Keep the records of one batch; one that is too much begins another segment."""
        size = self.log.size - self.size
        self.size += size
        self.held += size
        if self.held > self.segment_bytes and self.held > size:
            self.segment, self.held = self.segment + 1, size
        first = len(self.records)
        self.records += [(time, first + n, self.segment) for n, time in enumerate(times)]

    def delete(self):
        at = self.rng.randint(0, len(self.records))
        self.start = max(self.start, at)
        parts = [{"partitionIndex": 0, "offset": at}]
        ask(self.peer, "DeleteRecords", 2, {"topics": [{"name": "t", "partitions": parts}]})

    def asked(self, timestamp, isolation):
        part = {"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": timestamp}
        body = {"replicaId": -1, "isolationLevel": isolation,
                "topics": [{"name": "t", "partitions": [part]}]}  # fmt: skip
        (topic,) = ask(self.peer, "ListOffsets", 9, body)["topics"]
        (found,) = topic["partitions"]
        assert found["errorCode"] == 0
        return found["timestamp"], found["offset"]

    def wanted(self, timestamp, isolation):
        end = len(self.records)
        if isolation and self.open:
            end = max(min(self.open.values()), self.start)
        if timestamp == LATEST:
            return -1, end
        if timestamp == EARLIEST:
            return -1, self.start
        if timestamp == LATEST_TIME:
            greatest = max((time for time, _, _ in self.records), default=None)
            found = next(((t, o) for t, o, _ in self.records if t == greatest), NOTHING)
        else:
            segment = next((s for time, _, s in self.records if time >= timestamp), None)
            found = next(((time, offset) for time, offset, s in self.records
                          if s == segment and time >= timestamp and offset >= self.start),
                         NOTHING)  # fmt: skip
        return found if found[1] < end else NOTHING


@pytest.mark.parametrize("seed", range(30))
def test_an_offset_by_time_is_the_one_that_kafkas_search_finds(seed):
    rng = random.Random(seed)
    life = Life(rng)
    steps = [life.write, life.write, life.write_in_transaction, life.write_in_transaction,
             life.end, life.end]  # fmt: skip
    for number in range(40):
        rng.choice([*steps, life.delete] if number % 10 == 9 else steps)()
        for timestamp in (rng.choice(TIMES), EARLIEST, LATEST, LATEST_TIME):
            for isolation in (0, 1):
                response = life.asked(timestamp, isolation)
                assert response == life.wanted(timestamp, isolation), (timestamp, isolation)
