"""Segments that are old while a topic is followed: which are, what is requested, why they stay."""

import asyncio
import contextlib
import os

import pytest

pytest.importorskip("aiokafka")

from coterie.live.client_config import ClientConfig
from coterie.live.cluster import TopicView
from coterie.live.cluster_errors import Unavailable
from coterie.live.copying import CopyObserver, CopyPlan, _Copying
from coterie.live.segments import CopyLock, PartitionCopy
from coterie.log.copy_state import CopyState, write_copy_state
from support.cluster.leader import batches

SEGMENTS, WRITTEN_MS, STAYS_MS = 5, 100_000, 1_000
OLD_MS = WRITTEN_MS + STAYS_MS + 1  # the first time at which all but the last segment are old
NUMBER = 3  # of the partition
LEADER_IS_7 = TopicView("t", "id-of-t", {NUMBER: 7})


class Brokers:
    """A cluster, and each of its brokers; ``answers``: the rows or the errors of requests.

    A request that has none gets one batch.
    """

    cluster_id = "c"
    config = ClientConfig({"max.partition.fetch.bytes": "9000"})

    def __init__(self, view, answers):
        self.view, self.answers, self.requests = view, list(answers), []

    async def topic(self, name):
        return self.view

    async def connection(self, node, lane=0):
        return connection_of(self, node, lane)

    def answer(self, part):
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        at = part["fetchOffset"]
        row = {"partitionIndex": NUMBER, "errorCode": 0, "records": batches(at, at + 1)} | answer
        return {"errorCode": 0, "responses": [{"topic": "t", "partitions": [row]}]}


def connection_of(brokers, node, lane):
    class Connection:
        async def ask(self, api, body):
            (topic,) = body["topics"]
            (part,) = topic["partitions"]
            brokers.requests.append((node, lane, api, body))
            return brokers.answer(part)

    return Connection()


def followed(folder, *, later=LEADER_IS_7, now_ms=OLD_MS, answers=(), log_start=0):
    """Look for old segments of a copy; return the requests, the notices and the other segments."""
    copy, notices = folder / f"t-{NUMBER}", []
    with PartitionCopy(copy, 1) as files:
        files.begin(0)
        for at in range(SEGMENTS):
            files.append(batches(at, at + 1), at + 1)
    for path in copy.glob("*.log"):
        os.utime(path, (WRITTEN_MS / 1000, WRITTEN_MS / 1000))
    write_copy_state(copy, CopyState("t", NUMBER, "c", "id-of-t", 0, 77, log_start))
    brokers, observer = Brokers(later, answers), CopyObserver()
    observer.notice = notices.append
    plan = CopyPlan(folder, "t", (NUMBER,), follow=True, segment_bytes=1, keep_ms=STAYS_MS)

    async def run():
        copying = _Copying(brokers, plan, lambda: now_ms, observer, CopyLock(folder))
        with contextlib.ExitStack() as open_files:
            copying._open(LEADER_IS_7, open_files)
            thinning = asyncio.ensure_future(copying._thin(LEADER_IS_7))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not thinning.done()
            thinning.cancel()
            await asyncio.gather(thinning, return_exceptions=True)

    asyncio.run(run())
    return brokers.requests, notices, [int(path.stem) for path in sorted(copy.glob("*.log"))]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr("coterie.live.copying.THIN_EVERY_S", 0)


@pytest.mark.parametrize(("now_ms", "left"), [(OLD_MS - 1, [0, 1, 2, 3, 4]), (OLD_MS, [0, 4])])
def test_segments_are_old_once_they_were_written_longer_ago_than_they_stay(tmp_path, now_ms, left):
    assert followed(tmp_path, now_ms=now_ms)[1:] == ([], left)


@pytest.mark.parametrize("log_start", [0, 2])
def test_the_leader_gives_what_is_left_of_old_segments_and_waits_for_nothing(tmp_path, log_start):
    gone = [{"errorCode": 1, "records": None}] if log_start else []
    requests, notices, left = followed(tmp_path, log_start=log_start, answers=gone)
    assert {(node, lane, api) for node, lane, api, _ in requests} == {(7, 0, "Fetch")}
    offsets = []
    for _, _, _, body in requests:
        (topic,) = body["topics"]
        (part,) = topic["partitions"]
        offsets.append(part.pop("fetchOffset"))
        assert part == {"partition": NUMBER, "partitionMaxBytes": 9_000}
        assert (topic["topic"], topic["topicId"]) == ("t", "id-of-t")
        assert (body["maxBytes"], body["maxWaitMs"], body["replicaId"]) == (9_000, 0, -1)
    assert (offsets, notices, left) == ([0, *range(log_start or 1, 4)], [], [0, 4])


@pytest.mark.parametrize("leaders", [{NUMBER: None}, {NUMBER - 1: 7}, {}])
def test_old_segments_stay_without_a_word_while_their_partition_has_no_leader(tmp_path, leaders):
    """A topic with fewer partitions than before was an error that ended the thinning."""
    later = TopicView("t", "id-of-t", leaders)
    assert followed(tmp_path, later=later) == ([], [], [0, 1, 2, 3, 4])


def test_why_old_segments_stay_is_shown_once_until_there_is_another_reason(tmp_path):
    moved, away = {"errorCode": 6, "records": None}, Unavailable("broker 7 is away")
    requests, notices, left = followed(tmp_path, answers=[moved, moved, moved, away, moved])
    stay = "t-3: old segments stay for now: "
    of_moved = f"{stay}t-3: the broker answers NOT_LEADER_OR_FOLLOWER"
    assert notices == [of_moved, f"{stay}broker 7 is away", of_moved]
    assert (len(requests), left) == (5 + 4, [0, 4])  # in the end they are replaced
