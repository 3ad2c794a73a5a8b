"""A lane with a scripted leader: what it requests, writes, records and refuses."""

import asyncio
import errno
import os

import pytest

pytest.importorskip("aiokafka")

from coterie.live.cluster_errors import ClusterError, Unavailable
from coterie.live.lanes import CopiedPartition, Lane, fetched_rows
from coterie.live.segments import PartitionCopy
from coterie.log.copy_state import CopyState, LogStartMove
from coterie.messages import encode_batch
from support.cluster.leader import Leader, batches
from support.log_writer import batch, commit

TOPIC_ID = "id-of-t"
OUT_OF_RANGE, NOT_LEADER, NO_PERMISSION = 1, 6, 29


class Copying:
    """Lanes over partitions in a folder, on a clock that goes on by 1 s with each look."""

    def __init__(self, folder, *numbers, follow=False, wait_ms=1_500):
        self.now_ms, self.notices, self.written = 1_796_133_900_123, [], []
        self.partitions = [self.partition(folder, number) for number in numbers]
        limits = {"max_bytes": 3_000, "partition_bytes": 700, "wait_ms": wait_ms}
        self.lane = Lane(
            *("t", TOPIC_ID, self.partitions),
            follow=follow,
            now_ms=self.clock,
            written=lambda parts, healthy: self.written.append(
                ([(part.number, len(data)) for part, data in parts], healthy)
            ),
            notice=self.notices.append,
            **limits,
        )

    def clock(self):
        self.now_ms += 1_000
        return self.now_ms

    def partition(self, folder, number):
        files = PartitionCopy(folder / f"t-{number}").__enter__()
        return CopiedPartition(
            number,
            f"t-{number}",
            files,
            None,
            lambda start: CopyState("t", number, "c", TOPIC_ID, start, 77, start),
        )

    def run(self, leader):
        asyncio.run(self.lane.run(leader))
        return self

    def bytes_of(self, number):
        (folder,) = {p.files.folder for p in self.partitions if p.number == number}
        return {int(file.stem): file.read_bytes() for file in sorted(folder.glob("*.log"))}


def test_partitions_are_requested_in_turn_from_where_their_copies_end_until_they_are_complete(
    tmp_path,
):
    data = batches(0, 2), batches(2, 3, leader_epoch=6), batches(0, 1)
    leader = Leader(
        {3: (0, 3), 4: (0, 1), 9: (0, 0)}, {3: data[0], 4: b""}, {4: data[2], 3: data[1]}
    )
    copying = Copying(tmp_path, 3, 4, 9).run(leader)
    assert leader.requested() == [[(4, 0, -1), (3, 0, -1)], [(3, 2, 5), (4, 0, -1)]]
    for body in leader.asked:
        limits = [body[name] for name in ("replicaId", "maxWaitMs", "minBytes", "maxBytes")]
        assert (limits, body["isolationLevel"]) == ([-1, 1_500, 1, 3_000], 0)
        (topic,) = body["topics"]
        assert (topic["topic"], topic["topicId"]) == ("t", TOPIC_ID)
        assert {part["partitionMaxBytes"] for part in topic["partitions"]} == {700}
    assert copying.bytes_of(3) == {0: data[0] + data[1]}
    assert copying.bytes_of(4) == {0: data[2]}
    assert copying.bytes_of(9) == {0: b""}
    assert copying.written == [
        ([], False),  # where the logs end: no data, and no sign of health
        ([(3, len(data[0]))], True),
        ([(4, len(data[2])), (3, len(data[1]))], True),
    ]
    fetched = [(p.number, p.is_complete, p.fetched_bytes) for p in copying.partitions]
    assert fetched == [
        (3, True, len(data[0] + data[1])),
        (4, True, len(data[2])),
        (9, True, 0),
    ]
    assert (copying.lane.error, copying.lane.unfinished(), copying.notices) == (None, [], [])


def test_a_copy_is_complete_as_of_when_its_last_records_were_requested(tmp_path):
    leader = Leader({3: (0, 2), 9: (0, 0)}, {3: batches(0, 1)}, {3: batches(1, 2)})
    copying = Copying(tmp_path, 3, 9)
    began_ms = copying.now_ms
    copying.run(leader)
    of_3, of_9 = (p.state for p in copying.partitions)
    # The clock is read for the list, for each request, and for each answer of a partition.
    assert (of_9.complete_until_ms, of_9.complete_until_offset) == (began_ms + 1_000, 0)
    assert of_3.complete_until_offset == 2
    assert of_3.complete_until_ms in (began_ms + 3_000, began_ms + 4_000)
    assert of_3.first_offset == of_3.log_start == 0


@pytest.mark.parametrize("start", [0, 1, 70])
def test_a_copy_begins_where_the_log_does_which_is_said_if_that_is_late(tmp_path, start):
    copying = Copying(tmp_path, 3).run(
        Leader({3: (start, start + 2)}, {3: batches(start, start + 2)})
    )
    assert list(copying.bytes_of(3)) == [start]
    said = [f"t-3: the log begins at offset {start}; what was before is gone"]
    assert copying.notices == (said if start else [])
    assert copying.partitions[0].state.first_offset == start


def test_the_first_segment_begins_with_a_batch_that_reaches_over_the_start(tmp_path):
    data = batch(8, [commit(1), commit(2), commit(3)])
    copying = Copying(tmp_path, 3).run(Leader({3: (9, 11)}, {3: data}))
    assert copying.bytes_of(3) == {8: data}


def going_on(folder, leader, *, log_start=0):
    """A copy of the offsets 0 to 2 that goes on."""
    copying = Copying(folder, 3)
    (partition,) = copying.partitions
    partition.files.begin(0)
    partition.files.append(batches(0, 3), 3)
    partition.state = CopyState("t", 3, "c", TOPIC_ID, 0, 77, log_start)
    partition.leader_epoch = 5
    return copying.run(leader), partition


def test_a_copy_that_goes_on_is_where_it_ends_before_the_broker_says_more(tmp_path):
    """So the progress of a copy counts what it has, while other leaders answer first."""
    with PartitionCopy(tmp_path / "t-3") as files:
        files.begin(5)
        files.append(batches(5, 8), 8)
    (partition,) = Copying(tmp_path, 3).partitions
    assert (partition.position, partition.end) == (8, 8)


@pytest.mark.parametrize(
    ("earliest", "log_start", "lost"), [(0, 0, 0), (2, 1, 0), (3, 1, 0), (4, 1, 1), (9, 5, 4)]
)
def test_a_start_of_the_log_that_moved_is_recorded_with_what_it_took(
    tmp_path, earliest, log_start, lost
):
    end = max(earliest, 3) + 1
    leader = Leader({3: (earliest, end)}, {3: batches(end - 1, end)})
    copying, partition = going_on(tmp_path, leader, log_start=log_start)
    segments = [0] if earliest <= 3 else [0, earliest]
    assert list(copying.bytes_of(3)) == segments
    assert leader.requested() == [[(3, max(earliest, 3), 5)]]
    if earliest == log_start:
        assert (partition.state.moves, copying.notices) == ((), [])
        return
    (move,) = partition.state.moves
    assert (move.before, move.after, move.lost) == (log_start, earliest, lost)
    assert move.at_ms == 1_796_133_901_123
    gone = f": {lost} offsets are gone that were not copied" if lost else ""
    what = f"t-3: the log's start moved from offset {log_start} to {earliest}{gone}"
    assert copying.notices == [what]


def test_a_start_that_moves_twice_is_recorded_twice(tmp_path):
    leader = Leader(
        {3: (1, 6)},
        {3: {"records": batches(3, 4), "logStartOffset": 1}},
        {3: {"records": batches(4, 6), "logStartOffset": 4}},
    )
    copying, partition = going_on(tmp_path, leader)
    first, second = partition.state.moves
    assert first == LogStartMove(1_796_133_901_123, 0, 1, 0)
    assert (second.before, second.after, second.lost) == (1, 4, 0)
    assert 1_796_133_901_123 < second.at_ms < 1_796_133_910_123
    assert len(copying.notices) == 2


def test_each_move_of_the_start_is_said_with_what_it_took_itself(tmp_path):
    _, partition = going_on(tmp_path, Leader({3: (0, 3)}))
    notices = [partition.moved(to, 77) for to in (5, 5, 4, 6)]
    assert notices == [
        "t-3: the log's start moved from offset 0 to 5: 2 offsets are gone that were not copied",
        None,
        None,
        "t-3: the log's start moved from offset 5 to 6: 1 offsets are gone that were not copied",
    ]


def test_what_the_disk_does_not_take_counts_as_not_fetched(tmp_path, monkeypatch):
    copying = Copying(tmp_path, 3)

    def no_space(number, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", no_space)
    with pytest.raises(OSError, match="No space left"):
        copying.run(Leader({3: (0, 3)}, {3: batches(0, 3)}))
    (partition,) = copying.partitions
    assert (partition.fetched_bytes, partition.files.next_offset) == (0, 0)


def test_a_copy_that_has_not_begun_takes_no_batch_that_ends_where_it_begins(tmp_path):
    copying = Copying(tmp_path, 3).run(Leader({3: (5, 9)}, *[{3: batches(3, 5)}] * 3))
    assert "sent offsets 3 to 4; offset 5 was requested" in copying.partitions[0].damage


def test_a_broker_whose_log_ends_before_the_copy_is_refused_and_at_its_end_is_not(tmp_path):
    with pytest.raises(ClusterError, match=r"ends at offset 2, before the copy \(3\)"):
        going_on(tmp_path, Leader({3: (0, 2)}))
    copying, partition = going_on(tmp_path / "same", Leader({3: (0, 3)}))
    assert (partition.is_complete, copying.written) == (True, [([], False)])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"errorCode": NO_PERMISSION}, "t-3: no permission"),
        ({"divergingEpoch": {"epoch": 0, "endOffset": 2_500}}, "differs from the copy since off"),
    ],
)
def test_an_answer_that_cannot_be_of_this_log_ends_the_copy(tmp_path, answer, says):
    before = batches(0, 3)
    with pytest.raises(ClusterError, match=says) as raised:
        going_on(tmp_path, Leader({3: (0, 9)}, {3: answer | {"records": answer.get("records")}}))
    assert not isinstance(raised.value, Unavailable)
    assert (tmp_path / "t-3" / f"{0:020}.log").read_bytes() == before


def flipped(data, at, bit=1):
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


LIES = [
    (b"\0" * 90, "90 bytes without a whole batch at offset 3"),
    (batches(0, 3), "offsets 0 to 2; offset 3 was requested"),
    (batches(2, 5), "offsets 2 to 4; offset 3 was requested"),
    (batches(3, 10), "offsets 3 to 9; offset 3 was requested"),  # beyond the end of the log
    (flipped(batches(3, 4), 6), "offsets 259 to 259; offset 3 was requested"),
    *(
        (flipped(batches(3, 4), at), "without a whole batch at offset 3")
        for at in (8, 11, 16, 17, 23, 26, 60, 70)  # length, magic, checksum, deltas, a record
    ),
    # 3 becomes 7, which only the beginning of the next batch contradicts
    (flipped(batches(3, 4), 7, 4) + batches(4, 5)[:-1], "without a whole batch at offset 3"),
]


@pytest.mark.parametrize(("sent", "says"), LIES)
def test_damaged_batches_are_fetched_again_and_then_named(tmp_path, sent, says):
    """One bit of an offset made the copy pass over the records behind it."""
    leader = Leader({3: (0, 9)}, *[{3: sent}] * 3)
    copying, partition = going_on(tmp_path, leader)
    assert partition.damage.startswith("t-3: the broker sent ")
    assert says in partition.damage
    assert leader.requested() == [[(3, 3, 5)]] * 3
    assert (partition.is_complete, partition.is_refused) == (False, True)
    assert copying.bytes_of(3) == {0: batches(0, 3)}
    assert (copying.lane.error, copying.lane.unfinished()) == (None, [])


@pytest.mark.parametrize(("sent", "says"), LIES)
def test_a_batch_that_was_damaged_on_its_way_is_whole_the_next_time(tmp_path, sent, says):
    copying, partition = going_on(tmp_path, Leader({3: (0, 5)}, {3: sent}, {3: batches(3, 5)}))
    assert copying.bytes_of(3) == {0: batches(0, 5)}
    assert (partition.is_complete, partition.damage) == (True, None)


def test_sound_batches_before_a_damaged_one_and_other_partitions_are_copied(tmp_path):
    sent = batches(0, 2) + flipped(batches(2, 3), 70) + batches(3, 5)
    leader = Leader(
        {3: (0, 5), 4: (0, 4)},
        {3: sent, 4: batches(0, 1)},
        *[{3: sent[len(batches(0, 2)) :], 4: batches(at, at + 1)} for at in (1, 2, 3)],
    )
    copying = Copying(tmp_path, 3, 4).run(leader)
    assert (copying.bytes_of(3), copying.bytes_of(4)) == ({0: batches(0, 2)}, {0: batches(0, 4)})
    assert [p.is_complete for p in copying.partitions] == [False, True]


def test_a_lane_that_follows_waits_while_a_batch_stays_damaged(tmp_path):
    copying = Copying(tmp_path, 3, follow=True)
    copying.run(Leader({3: (0, 1)}, *[{3: flipped(batches(0, 1), 70)}] * 3))
    assert "t-3: the broker sent" in str(copying.lane.error)
    assert copying.lane.unfinished() == copying.partitions


def test_a_copy_is_complete_once_damaged_bytes_at_its_end_are_gone(tmp_path):
    rows = [batches(0, 2), batches(0, 1), b"", {"errorCode": NOT_LEADER}]
    copying = Copying(tmp_path, 3, follow=True).run(Leader({3: (0, 2)}, *({3: r} for r in rows)))
    (partition,) = copying.partitions
    assert (partition.is_complete, partition.damage, partition.failures) == (True, None, 0)
    assert partition.state.complete_until_ms > 1_796_133_904_000  # as of the empty response


def test_a_copy_ends_where_the_log_ended_when_it_began(tmp_path):
    """Else a log that grows faster than it is copied has no end."""
    rows = [{"records": batches(at, at + 1), "highWatermark": at + 5} for at in range(3)]
    copying = Copying(tmp_path, 3).run(Leader({3: (0, 3)}, *({3: row} for row in rows)))
    (partition,) = copying.partitions
    assert (partition.is_complete, partition.state.complete_until_offset) == (True, 3)


class Link(Leader):
    """A leader behind a link of some bytes a second; the loop's clock goes on with its bytes."""

    def __init__(self, bytes_per_s, data):
        super().__init__({3: (0, len(data))})
        self.bytes_per_s, self.data, self.now_s, self.took_s = bytes_per_s, data, 0.0, []

    async def ask(self, api, body):
        if api == "Fetch":
            (part,) = body["topics"][0]["partitions"]
            sent = b""
            for each in self.data[part["fetchOffset"] :]:
                if sent and len(sent) + len(each) > part["partitionMaxBytes"]:
                    break
                sent += each
            self.fetched.append({3: sent})
            self.took_s.append(len(sent) / self.bytes_per_s)
            self.now_s += self.took_s[-1]
        return await super().ask(api, body)


@pytest.mark.parametrize("bytes_per_s", [50_000, 1_500_000, 100_000_000])
def test_responses_fit_the_bandwidth(tmp_path, bytes_per_s):
    """1.5 MB/s copied nothing: a response of 64 MiB takes longer than request.timeout.ms."""
    count, value = 400, b"x" * 20_000
    data = [encode_batch([(n, 1_000, b"k", value)], base_offset=n) for n in range(count)]
    link, copying = Link(bytes_per_s, data), Copying(tmp_path, 3)
    limits = {"max_bytes": 64 << 20, "partition_bytes": 8 << 20, "wait_ms": 500}
    lane = Lane(
        *("t", TOPIC_ID, copying.partitions),
        follow=False,
        now_ms=copying.clock,
        written=lambda parts, healthy: None,
        notice=copying.notices.append,
        **limits,
    )
    loop = asyncio.new_event_loop()
    loop.time = lambda: link.now_s
    loop.run_until_complete(lane.run(link))
    loop.close()
    assert copying.partitions[0].is_complete
    assert max(link.took_s) < 6
    slow = ["t: the broker sends 50 kB/s"] if bytes_per_s == 50_000 else []
    assert copying.notices == slow
    assert len(link.took_s) < {50_000: 140, 1_500_000: 12, 100_000_000: 9}[bytes_per_s]


class Silent(Leader):
    """A leader that answers at once, without a row."""

    def __init__(self, ends, stop_after):
        super().__init__(ends)
        self.left = stop_after

    async def ask(self, api, body):
        if api == "ListOffsets":
            return await super().ask(api, body)
        self.left -= 1
        if not self.left:
            raise Unavailable("it is gone")
        return {"responses": []}


@pytest.mark.parametrize("wait_ms", [0, 1, 1_500])
def test_a_leader_that_answers_without_a_row_is_not_asked_at_once_again(
    tmp_path, monkeypatch, wait_ms
):
    """It was asked 6,000 times a second."""
    pauses, real = [], asyncio.sleep

    async def sleep(delay_s, *rest):
        pauses.append(delay_s)
        await real(0, *rest)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    copying = Copying(tmp_path, 3, follow=True, wait_ms=wait_ms).run(Silent({3: (0, 0)}, 20))
    assert str(copying.lane.error) == "it is gone"
    assert [pause for pause in pauses if pause] == [0.1] * 19
    behind = Copying(tmp_path / "behind", 3).run(Silent({3: (0, 5)}, 20))
    assert str(behind.lane.error) == "t: the broker sends nothing of its log"


@pytest.mark.parametrize(
    ("answer", "says", "epoch"),
    [
        ({"errorCode": OUT_OF_RANGE}, "t-3: offset 3 is out of range", -1),
        ({"errorCode": NOT_LEADER}, "t-3: the broker answers NOT_LEADER_OR_FOLLOWER", 5),
        ({"logStartOffset": 4}, "t-3: the log's start has moved", 5),
        ({"logStartOffset": 10}, "t-3: the broker says that its log begins at offset 10 and e", 5),
        ({"highWatermark": 8}, "t-3: the end of the broker's log went back from 9 to 8", 5),
        ({"highWatermark": 3}, "t-3: the end of the broker's log went back from 9 to 3", 5),
        ({"highWatermark": -1}, "t-3: the end of the broker's log went back from 9 to -1", 5),
        ({}, "t: the broker sends nothing of its log", 5),
        ({"divergingEpoch": {"epoch": -1, "endOffset": -1}}, "sends nothing of its log", 5),
    ],
)
def test_what_may_pass_ends_the_lane_and_its_partition_goes_on_in_another(
    tmp_path, answer, says, epoch
):
    leader = Leader({3: (0, 9)}, {3: answer | {"records": None}})
    copying, partition = going_on(tmp_path, leader)
    assert says in str(copying.lane.error)
    assert copying.lane.unfinished() == [partition]
    assert (partition.leader_epoch, partition.is_complete) == (epoch, False)
    assert [healthy for _, healthy in copying.written[1:]] in ([], [False])


def test_an_end_of_the_log_that_is_not_told_may_pass(tmp_path):
    copying = Copying(tmp_path, 3, 4).run(Leader({3: (0, 9)}))
    assert str(copying.lane.error) == "t-4: the broker does not say where its log ends"


def test_ends_of_a_log_that_cannot_be_may_pass(tmp_path):
    """A copy was complete at once, at an offset that was no one's."""
    copying = Copying(tmp_path, 3, follow=True).run(Leader({3: (10, 9)}))
    assert "t-3: the broker says that its log begins at offset" in str(copying.lane.error)
    (partition,) = copying.partitions
    assert (partition.state, partition.is_complete, copying.bytes_of(3)) == (None, False, {})


def test_a_copy_that_follows_is_not_complete_at_an_end_that_went_back(tmp_path):
    rows = [{"records": batches(0, 2)}, {"records": b"", "highWatermark": 2}]
    copying = Copying(tmp_path, 3, follow=True).run(Leader({3: (0, 9)}, *({3: r} for r in rows)))
    assert "went back from 9 to 2" in str(copying.lane.error)
    assert not copying.partitions[0].is_complete


@pytest.mark.parametrize("code", [-1, 2, 10, 76, 12_345])  # CORRUPT_MESSAGE, ... and unknown ones
def test_what_a_broker_cannot_read_is_named_and_other_partitions_are_copied(tmp_path, code):
    """One damaged partition ended the copies of all."""
    sent = [{3: {"errorCode": code}, 4: batches(at, at + 1)} for at in range(3)]
    copying = Copying(tmp_path, 3, 4).run(Leader({3: (0, 5), 4: (0, 3)}, *sent))
    assert copying.partitions[0].damage.startswith("t-3: the broker answers ")
    assert [p.is_refused for p in copying.partitions] == [True, False]
    assert [p.is_complete for p in copying.partitions] == [False, True]


@pytest.mark.parametrize(
    "about",
    [
        {"topic": "u", "partitions": [{"partitionIndex": 3}]},
        {"topicId": "id-of-u", "partitions": [{"partitionIndex": 3}]},
        {"topic": "t", "partitions": [{"partitionIndex": 5}]},
        {"topic": "t", "partitions": [{"partitionIndex": -1}]},
        {"topic": "t", "partitions": [{"partitionIndex": 3}] * 2},
    ],
)
def test_rows_that_were_not_requested_are_refused(about):
    response = {"errorCode": 0, "responses": [about]}
    with pytest.raises(ClusterError, match=r"a response about (another partition|it twice)"):
        fetched_rows(response, "t", TOPIC_ID, {3})


def test_a_segment_that_was_begun_takes_no_offsets_from_before_it(tmp_path):
    early = {"records": batch(4, [commit(1), commit(2)]), "highWatermark": 6}
    copying = Copying(tmp_path, 3, follow=True)
    copying.run(Leader({3: (5, 5)}, *[{3: early}] * 3))
    assert "sent offsets 4 to 5; offset 5 was requested" in str(copying.lane.error)
    assert copying.bytes_of(3) == {5: b""}  # an empty log begins its segment, too


def test_a_lane_that_follows_waits_at_the_end_of_the_log_until_its_leader_is_another(tmp_path):
    one = batches(5_000, 5_001)  # of fewer bytes than offsets
    leader = Leader({3: (5_000, 5_001)}, {3: one}, {3: b""}, {3: {"errorCode": NOT_LEADER}})
    copying = Copying(tmp_path, 3, follow=True).run(leader)
    assert "NOT_LEADER_OR_FOLLOWER" in str(copying.lane.error)
    assert leader.requested() == [[(3, 5_000, -1)], [(3, 5_001, 5)], [(3, 5_001, 5)]]
    (partition,) = copying.partitions
    assert (copying.lane.unfinished(), partition.files.next_offset) == ([partition], 5_001)
    answered_ms = partition.state.complete_until_ms
    assert answered_ms > 1_796_133_904_000  # as of the request that was answered with nothing
