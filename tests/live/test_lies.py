"""A broker that lies, in each way, while a topic is copied, followed, and copied on.

Whatever it answers: the copy is the beginning of the broker's log, it is complete only if it has
all of it, and once the broker tells the truth again, it is that log.
"""

import asyncio
import itertools
from functools import partial

import pytest

pytest.importorskip("aiokafka")

from coterie.live import copying, lanes
from coterie.live.cluster_errors import ClusterError, NoTopic, Unavailable
from coterie.live.copying import CopyObserver
from coterie.log.copy_state import read_copy_state
from support.cluster.leader import batches, copied

END, PER_RESPONSE = 8, 3
SIZE = len(batches(0, 1))
LOG = batches(0, END)
LIES_MAX = lanes.FETCHES_OF_A_BATCH + 1


class Broker:
    """Leads a partition with one batch for each offset; ``lie`` changes some of its answers.

    As of a broker, a response ends within a batch.
    """

    def __init__(self, lie=None, api="Fetch", lies=0, begin_at=0):
        self.lie, self.api, self.left, self.begin_at = lie, api, lies, begin_at

    async def ask(self, api, body):
        (topic,) = body["topics"]
        (part,) = topic["partitions"]
        if api == "ListOffsets":
            offset = 0 if part["timestamp"] == -2 else END
            row = {"partitionIndex": 0, "errorCode": 0, "offset": offset}
            answer = {"topics": [{"name": "t", "partitions": [row]}]}
        else:
            at = part["fetchOffset"]
            row = {"partitionIndex": 0, "errorCode": 0, "highWatermark": END, "logStartOffset": 0}
            row["records"] = LOG[at * SIZE : (at + PER_RESPONSE) * SIZE + SIZE // 2]
            answer = {"errorCode": 0, "responses": [{"topic": "t", "partitions": [row]}]}
            if at < self.begin_at or at >= END:
                await asyncio.sleep(0)
                return answer
        if api == self.api and self.left:
            self.left -= 1
            self.lie(answer)
        return answer


def row_of(answer):
    (topic,) = answer.get("responses", answer.get("topics"))
    return topic["partitions"][0]


def sent(change, answer):
    row = row_of(answer)
    row["records"] = change(row["records"])


def with_the_batch_before(data):
    """Overlap the copy by one offset, as a broker may send a batch that reaches over its end."""
    base = int.from_bytes(data[:8], "big")
    return LOG[max(base - 1, 0) * SIZE : base * SIZE] + data


def flip(number, at, bit, data):
    """Flip a bit of a batch of a response; -1: of the last one, behind which one begins."""
    at += number % (len(data) // SIZE) * SIZE
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


def fields(answer, **values):
    row_of(answer).update(values)


def top(answer, **values):
    answer.update(values)


def about(answer, **values):
    (topic,) = answer.get("responses", answer.get("topics"))
    topic.update(values)


def twice(answer):
    (topic,) = answer.get("responses", answer.get("topics"))
    topic["partitions"] *= 2


def far(answer):
    row_of(answer)["offset"] *= 2**40


def started(answer, offset):
    """Let a log begin at an offset, and have nothing before it."""
    fields(answer, logStartOffset=offset, records=b"")


def broken(answer):
    raise Unavailable("the connection broke")


def unreadable(answer):
    raise ClusterError("a response to no request")


HEADER = {
    "base offset": (7, 4), "base offset, far": (5, 1), "length": (11, 1), "length, far": (8, 64),
    "magic": (16, 2), "magic, unknown": (16, 64), "checksum": (20, 1), "attributes": (22, 16),
    "last offset delta": (26, 1), "last offset delta, far": (24, 1), "count": (60, 1),
    "record": (70, 1),
}  # fmt: skip
FETCHED = {
    **{
        f"{name} of batch {number}": partial(sent, partial(flip, number, *place))
        for name, place in HEADER.items()
        for number in (0, 1, -1)
    },
    "nothing": partial(fields, records=b""),
    "null": partial(fields, records=None),
    "a part of a batch": partial(sent, lambda data: data[: SIZE // 2]),
    "the second part of a batch": partial(sent, lambda data: data[SIZE // 2 :]),
    "zeros": partial(sent, lambda data: bytes(len(data))),
    "batches backwards": partial(sent, lambda data: data[SIZE : 2 * SIZE] + data[:SIZE]),
    "a batch twice": partial(sent, lambda data: data[:SIZE] * 2),
    "offsets below": partial(fields, records=LOG[:SIZE]),
    "the batch before": partial(sent, with_the_batch_before),
    "offsets beyond": partial(fields, records=batches(END, END + 1)),
    "another partition": partial(fields, partitionIndex=5),
    "another topic": partial(about, topic="u"),
    "another topic's id": partial(about, topicId="id-of-u"),
    "a row twice": twice,
    "no row": partial(about, partitions=[]),
    "no topic": partial(top, responses=[]),
    "a high watermark of -1": partial(fields, highWatermark=-1),
    "a high watermark that went back": partial(fields, highWatermark=2, records=b""),
    "a far high watermark": partial(fields, highWatermark=2**62),
    "a log that begins beyond its end": partial(fields, logStartOffset=END + 1),
    "a log that begins at what was requested": lambda answer: started(answer, PER_RESPONSE),
    "a log that begins at its end": lambda answer: started(answer, END),
    "a log that begins before 0": partial(fields, logStartOffset=-(2**63)),
    "a diverging epoch": partial(fields, divergingEpoch={"epoch": 1, "endOffset": 0}),
    **{
        f"error {code}": partial(fields, errorCode=code, records=None, highWatermark=-1)
        for code in (-1, 1, 2, 3, 6, 9, 29, 56, 76, 100, 12_345)
    },
    **{f"error {code} of all": partial(top, errorCode=code, responses=[]) for code in (-1, 29, 70)},
    "a connection that breaks": broken,
    "a response to no request": unreadable,
}
LISTED = {
    "no topic": partial(top, topics=[]),
    "no row": partial(about, partitions=[]),
    "another topic": partial(about, name="u"),
    "another partition": partial(fields, partitionIndex=5),
    **{str(offset): partial(fields, offset=offset) for offset in (-1, -2, -(2**63))},
    "a far end": far,
    "the end before the start": lambda answer: fields(answer, offset=2 - row_of(answer)["offset"]),
    "a row twice": twice,
    **{f"error {code}": partial(fields, errorCode=code, offset=-1) for code in (-1, 3, 6, 29, 99)},
    "a connection that breaks": broken,
}
LIES = [(lie, "Fetch") for lie in FETCHED.values()] + [
    (lie, "ListOffsets") for lie in LISTED.values()
]
NAMES = [*FETCHED, *(f"ends: {name}" for name in LISTED)]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(lanes, "PAUSE_S", 0)


def bytes_of(folder):
    return b"".join(path.read_bytes() for path in sorted((folder / "t-0").glob("*.log")))


def check(folder):
    """Check that a copy is the beginning of the log, and complete only if it is all of it."""
    data, state = bytes_of(folder), read_copy_state(folder / "t-0")
    assert LOG.startswith(data)
    assert len(data) % SIZE == 0
    if state is not None and state.complete_until_ms is not None:
        assert data == LOG


class Complete(CopyObserver):
    """Stops a copy that follows once it is complete; it had all by then."""

    def __init__(self, folder):
        self.folder, self.stop = folder, asyncio.Event()

    def complete(self, at_ms):
        assert bytes_of(self.folder) == LOG
        self.stop.set()


@pytest.mark.parametrize(("lie", "api"), LIES, ids=NAMES)
def test_a_lie_leaves_a_beginning_of_the_log_that_the_truth_completes(tmp_path, lie, api):
    try:
        copied(tmp_path, {0: Broker(lie, api, 99, PER_RESPONSE)}, lambda: 1_000, limit_ms=5)
    except ClusterError:
        check(tmp_path)
    else:
        assert bytes_of(tmp_path) == LOG
    copied(tmp_path, {0: Broker()}, lambda: 2_000)
    assert bytes_of(tmp_path) == LOG
    assert read_copy_state(tmp_path / "t-0").complete_until_ms == 2_000


@pytest.mark.parametrize(("lie", "api"), LIES, ids=NAMES)
def test_a_copy_that_follows_outlives_a_lie_or_ends_in_one_line(tmp_path, lie, api):
    following, broker = Complete(tmp_path), Broker(lie, api, LIES_MAX)
    try:
        copied(tmp_path, {0: broker}, lambda: 1_000, following, following.stop, follow=True)
    except ClusterError:
        check(tmp_path)
        copied(tmp_path, {0: Broker()}, lambda: 2_000)
    assert bytes_of(tmp_path) == LOG


@pytest.mark.parametrize("follow", [False, True])
def test_damage_on_the_way_of_each_response_is_fetched_again(tmp_path, follow):
    """What counts is how often in a row."""
    turns, following = itertools.count(1), Complete(tmp_path)

    def mostly(answer):
        if next(turns) % lanes.FETCHES_OF_A_BATCH:
            sent(partial(flip, 0, *HEADER["record"]), answer)

    leader = Broker(mostly, lies=99)
    copied(tmp_path, {0: leader}, lambda: 1_000, following, following.stop, follow=follow)
    assert bytes_of(tmp_path) == LOG
    assert read_copy_state(tmp_path / "t-0").complete_until_ms == 1_000


@pytest.mark.parametrize("start", [1, 5, END])
@pytest.mark.parametrize("has_copy", [False, True])
@pytest.mark.parametrize("is_silent", [False, True])
def test_one_lie_about_the_start_of_a_log_leaves_nothing_out(tmp_path, has_copy, start, is_silent):
    """Nor one that the broker neither repeats nor takes back."""
    if has_copy:
        with pytest.raises(ClusterError):
            copied(tmp_path, {0: Broker(unreadable, lies=9, begin_at=PER_RESPONSE)}, lambda: 1_000)
        assert bytes_of(tmp_path) == LOG[: PER_RESPONSE * SIZE]

    turns = iter(["end", "start", "start again"])

    def late(answer):
        if next(turns) == "start again":
            about(answer, partitions=[])
        else:
            fields(answer, offset=max(row_of(answer)["offset"], start))

    copied(tmp_path, {0: Broker(late, "ListOffsets", 2 + is_silent)}, lambda: 2_000)
    assert bytes_of(tmp_path) == LOG


AWAY, GONE = Unavailable("no broker answers"), NoTopic("the cluster has no topic t")


@pytest.mark.parametrize(
    "ids",
    [
        ["id-of-t", "other", "id-of-t"],
        ["other", "id-of-t"],
        ["other", "third", "id-of-t"],
        ["other", AWAY, "id-of-t"],
        ["other", GONE, "id-of-t"],
        [None, "id-of-t"],
    ],
    ids=str,
)
def test_one_lie_about_the_id_of_a_topic_puts_no_copy_aside(tmp_path, monkeypatch, ids):
    """With two that agree, the topic was made again."""
    monkeypatch.setattr(copying, "CONFIRM_S", 0)
    copied(tmp_path, {0: Broker()}, lambda: 1_000)
    following, refusing = Complete(tmp_path), Broker(partial(top, errorCode=100), "Fetch", 1, -1)
    ids = ("c", *ids)
    copied(tmp_path, {0: refusing}, lambda: 9, following, following.stop, follow=True, ids=ids)
    assert [path.name for path in tmp_path.iterdir()] == ["t-0"]
    assert bytes_of(tmp_path) == LOG
    assert read_copy_state(tmp_path / "t-0").topic_id == "id-of-t"
