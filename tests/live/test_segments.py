"""The segments of a copy, also on a disk that fails: what the state may claim."""

import asyncio
import contextlib
import errno
import itertools
import os
from random import Random

import pytest

pytest.importorskip("aiokafka")

from coterie.cli.watched_cluster import list_copy
from coterie.errors import LogError
from coterie.live import copying, lanes, segments
from coterie.live.client_config import ClientConfig
from coterie.live.cluster import Cluster, addresses_of
from coterie.live.cluster_errors import ClusterError, MadeAgain
from coterie.live.copying import CopyObserver, CopyPlan, copy_partitions
from coterie.live.segments import Batches, PartitionCopy, sound_batches
from coterie.log.copy_state import STATE_FILE, read_copy_state
from coterie.messages import encode_batch, partition_for
from coterie.server import Broker
from support.cluster.leader import Leader, batches, copied
from support.commandline import fails
from support.descriptors import few_more
from support.log_writer import batch, commit
from support.server.groups_of_a_broker import TOPIC, commit_offsets

SETTINGS = {"offsets.topic.num.partitions": 4}
BATCH = encode_batch([(0, 1_000, b"k", b"v")])


@pytest.fixture
def broker():
    with Broker(SETTINGS, topics={"orders": 1}) as made:
        commit_offsets(made, "a", 10)
        yield made


@pytest.fixture
def failing_disk(monkeypatch):
    """A disk that reports an error of a segment once, as Linux does."""
    failures = [OSError(errno.EIO, os.strerror(errno.EIO))]
    real = os.fsync

    def fsync(number):
        if failures and os.readlink(f"/proc/self/fd/{number}").endswith(".log"):
            raise failures.pop()
        real(number)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_state_does_not_claim_bytes_that_the_disk_has_lost(broker, tmp_path, failing_disk):
    at = ("--bootstrap-server", broker.bootstrap_servers)
    fails("fetch", *at, "--group", "a", "--out", tmp_path, says=(".log", "Input/output error"))
    state = read_copy_state(tmp_path / f"{TOPIC}-{partition_for('a', 4)}")
    assert (state.complete_until_ms, state.complete_until_offset) == (None, None)


def test_an_error_of_the_disk_is_raised_again_by_each_later_sync(tmp_path, failing_disk):
    files = PartitionCopy(tmp_path / f"{TOPIC}-0").__enter__()
    files.begin(0)
    files.append(BATCH, 1)
    for sync in (files.sync, files.sync, files.close):
        with pytest.raises(OSError, match="Input/output error") as raised:
            sync()
        assert raised.value.filename == str(tmp_path / f"{TOPIC}-0" / f"{0:020}.log")


def test_a_partition_has_its_state_before_its_first_batch(broker, tmp_path):
    states = []

    class Recorded(CopyObserver):
        def appended(self, partition, batches):
            states.append((tmp_path / f"{TOPIC}-{partition}" / STATE_FILE).exists())

    async def run():
        async with Cluster(addresses_of(broker.bootstrap_servers), ClientConfig()) as cluster:
            plan = CopyPlan(tmp_path)
            await copy_partitions(cluster, plan, now_ms=lambda: 1_000, observer=Recorded())

    asyncio.run(run())
    assert states == [True]


def test_a_segment_is_full_at_its_size_and_at_its_span(tmp_path, monkeypatch):
    one = batches(0, 1)
    with PartitionCopy(tmp_path / "a", 3 * len(one)) as files:
        files.begin(10)
        for at in range(10, 17):
            files.append(batches(at, at + 1), at + 1)
    names = [int(file.stem) for file in sorted((tmp_path / "a").glob("*.log"))]
    assert names == [10, 13, 16]  # three fit exactly
    monkeypatch.setattr("coterie.live.segments.SPAN_MAX", 5)
    with PartitionCopy(tmp_path / "b") as files:
        files.begin(10)
        for at in range(10, 17):
            files.append(batches(at, at + 1), at + 1)
    names = [int(file.stem) for file in sorted((tmp_path / "b").glob("*.log"))]
    assert names == [10, 15]  # the offsets of a segment lie within its span


def test_a_segment_is_on_the_disk_before_the_next_one_begins(tmp_path, monkeypatch):
    synced, size = [], len(BATCH)
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_size))
    with PartitionCopy(tmp_path / "t-0", 2 * size) as files:
        files.begin(0)
        for at in range(3):
            files.append(BATCH, at + 1)
        assert synced == [2 * size]
    assert synced == [2 * size, size]


def test_few_segments_are_open_and_those_that_are_closed_are_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "OPEN_MAX", 3)
    opened, ends, rng = {}, [0] * 7, Random(4)
    with contextlib.ExitStack() as until_end:
        made = [PartitionCopy(tmp_path / f"t-{number}", 400, opened) for number in range(7)]
        for files in made:
            until_end.enter_context(files)
            files.begin(0)
        synced = []
        monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_ino))
        for _ in range(60):
            number = rng.randrange(7)
            before = {files: files._path.stat().st_ino for files in opened}
            made[number].append(batches(ends[number], ends[number] + 1), ends[number] + 1)
            ends[number] += 1
            assert len(opened) <= 3
            assert {before[files] for files in before.keys() - opened} <= {*synced}
    assert not opened
    for number, end in enumerate(ends):
        copy = b"".join(file.read_bytes() for file in sorted(made[number].folder.glob("*.log")))
        assert copy == batches(0, end)


@pytest.mark.parametrize("follow", [False, True])
def test_the_partitions_of_a_topic_share_few_descriptors(tmp_path, monkeypatch, follow):
    monkeypatch.setattr(segments, "OPEN_MAX", 4)
    ends, stop = {number: (0, number % 3) for number in range(40)}, asyncio.Event()
    some = [number for number, (_, end) in ends.items() if end]

    class Complete(CopyObserver):
        def complete(self, at_ms):
            stop.set()

    every = {number: batches(0, end) for number, (_, end) in ends.items()}
    sent = every if follow else {number: every[number] for number in some}
    leader = Leader(ends, sent, *[dict.fromkeys(ends, b"")] * 9)
    with few_more(12):
        copied(tmp_path, dict.fromkeys(ends, leader), lambda: 1, Complete(), stop, follow=follow)
    for number, data in every.items():
        assert (tmp_path / f"t-{number}" / f"{0:020}.log").read_bytes() == data
        assert read_copy_state(tmp_path / f"t-{number}").complete_until_ms == 1


@pytest.mark.parametrize(
    ("number", "ends"), [(errno.EMFILE, False), (errno.ENOSPC, False), (errno.EIO, True)]
)
def test_a_full_table_of_descriptors_or_disk_puts_off_what_a_copy_saves(
    tmp_path, monkeypatch, number, ends
):
    real, calls, times = copying.write_copy_state, [], itertools.count(0, 6_000)

    def write(folder, state):
        calls.append(state)
        if len(calls) == 2:
            raise OSError(number, os.strerror(number))
        real(folder, state)

    monkeypatch.setattr(copying, "write_copy_state", write)
    leader = Leader({3: (0, 3)}, *({3: batches(at, at + 1)} for at in range(3)))
    with pytest.raises(OSError, match="output error") if ends else contextlib.nullcontext():
        copied(tmp_path, {3: leader}, lambda: next(times))
    assert calls[2:]
    assert read_copy_state(tmp_path / "t-3").complete_until_offset == 3


def test_a_folder_that_cannot_be_listed_for_a_while_is_one_line(tmp_path):
    says = "cannot be read: Too many open files"
    with few_more(0), open(os.devnull), pytest.raises(LogError, match=says):
        list_copy(tmp_path)
    assert list_copy(tmp_path).segments == ()


def test_an_error_of_the_disk_for_a_segment_that_had_to_be_closed_is_raised(
    tmp_path, monkeypatch, failing_disk
):
    monkeypatch.setattr(segments, "OPEN_MAX", 1)
    opened = {}
    first, second = (PartitionCopy(tmp_path / f"t-{n}", opened=opened).__enter__() for n in (0, 1))
    first.begin(0)
    first.append(BATCH, 1)
    second.begin(0)
    second.close()
    for sync in (first.sync, first.close):
        with pytest.raises(OSError, match="Input/output error") as raised:
            sync()
        assert raised.value.filename == str(tmp_path / "t-0" / f"{0:020}.log")


def test_a_copy_is_closed_once_whatever_happens(tmp_path, monkeypatch):
    files = PartitionCopy(tmp_path / "t-0").__enter__()
    files.begin(0)
    files.append(BATCH, 1)
    no_space = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def refuse(*arguments):
        raise no_space

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(OSError, match="No space left"):
            files.begin(1)
    closed = []
    close = os.close
    monkeypatch.setattr(os, "close", lambda number: (closed.append(number), close(number)))
    files.close()  # its file is closed already
    files.close()
    assert not closed


def test_a_disk_that_becomes_full_leaves_no_part_of_a_batch(tmp_path, monkeypatch):
    files, write = PartitionCopy(tmp_path / "t-0").__enter__(), os.write
    files.begin(0)
    files.append(BATCH, 1)
    has_room = iter([True, False])

    def write_a_part(number, data):
        if not next(has_room):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(number, data[:9])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_a_part)
        with pytest.raises(OSError, match="No space left"):
            files.append(BATCH, 2)
    assert (tmp_path / "t-0" / f"{0:020}.log").read_bytes() == BATCH
    files.close()


# ---- partitions of several leaders


def test_the_progress_of_a_copy_is_that_of_all_its_partitions(tmp_path):
    told, complete = [], []

    class Told(CopyObserver):
        def progress(self, done, total):
            told.append((done, total))

        def complete(self, at_ms):
            complete.append(at_ms)

    now = iter(range(10_000, 90_000, 1_000))
    first = Leader({0: (0, 2)}, {0: batches(0, 1)}, {0: batches(1, 2)})
    second = Leader({1: (10, 13)}, {1: batches(10, 13)})
    results = copied(tmp_path, {0: first, 1: second}, lambda: next(now), Told())
    assert [(one.partition, one.next_offset) for one in results] == [(0, 2), (1, 13)]
    assert [one.fetched_bytes for one in results] == [
        *(len(batches(0, 1)) * count for count in (2, 3)),
    ]
    dones, totals = zip(*told, strict=True)
    assert (dones[0], told[-1]) == (0, (5, 5))
    assert list(dones) == sorted(dones)
    assert all(done <= total for done, total in told)
    assert set(totals) <= {2, 3, 5}
    states = [read_copy_state(tmp_path / f"t-{number}") for number in (0, 1)]
    assert complete == [min(state.complete_until_ms for state in states)]
    assert [(state.first_offset, state.complete_until_offset) for state in states] == [
        *((0, 2), (10, 13)),
    ]
    assert [(state.topic_id, state.cluster_id) for state in states] == [("id-of-t", "c")] * 2


class Saves(CopyObserver):
    """Stops a copy that follows after some responses; records the states that it saves.

    ``now_ms`` rises by ``step_ms`` with each response, and by ``write_ms`` with each state.
    """

    def __init__(self, monkeypatch, responses, step_ms, write_ms=0):
        self.left, self.step_ms, self.write_ms = responses, step_ms, write_ms
        self.now_ms, self.stop = 1_796_133_900_123, asyncio.Event()
        self.rounds = [[]]  # partition and end of each state, between two responses
        self._write = copying.write_copy_state
        monkeypatch.setattr(copying, "write_copy_state", self.save)
        monkeypatch.setattr(lanes, "PAUSE_S", 0)

    def save(self, folder, state):
        self.now_ms += self.write_ms
        self.rounds[-1].append((state.partition, state.complete_until_offset))
        self._write(folder, state)

    def progress(self, done, total):
        self.now_ms += self.step_ms
        self.rounds.append([])
        self.left -= 1
        if not self.left:
            self.stop.set()


@pytest.mark.parametrize(
    ("step_ms", "saved"),  # the ends of the copy: at first, and then after the list and responses
    [(0, [None]), (2_499, [None, 2, 5]), (2_500, [None, 1, 3, 5]), (5_000, [None, 0, 1, 2, 3, 4])],
)
def test_states_are_saved_now_and_then_and_at_the_end(tmp_path, monkeypatch, step_ms, saved):
    each = [{0: {"records": batches(at, at + 1), "highWatermark": at + 1}} for at in range(9)]
    saves = Saves(monkeypatch, 6, step_ms)
    leader = Leader({0: (0, 0)}, *each)
    copied(tmp_path, {0: leader}, lambda: saves.now_ms, saves, saves.stop, follow=True)
    *found, last = [end for of_round in saves.rounds for _, end in of_round]
    assert found[: len(saved)] == saved
    assert last == read_copy_state(tmp_path / "t-0").complete_until_offset >= 5


def test_few_states_of_many_are_saved_at_a_time_and_each_in_turn(tmp_path, monkeypatch):
    """All of them at a time stop the responses of 100,000 partitions for minutes."""
    ends = dict.fromkeys(range(7), (0, 0))
    leader = Leader(ends, *[dict.fromkeys(ends, b"")] * 9)
    saves = Saves(monkeypatch, 7, 5_000, write_ms=200)
    copied(
        tmp_path, dict.fromkeys(ends, leader), lambda: saves.now_ms, saves, saves.stop, follow=True
    )
    first, *rounds, last = saves.rounds
    assert [number for number, _ in first] == [*range(7)]
    assert {len(saved) for saved in rounds} == {3}
    turns = [number for saved in rounds for number, _ in saved]
    assert turns == [at % 7 for at in range(len(turns))]
    assert {number for number, _ in last} == {*range(7)}


def test_a_folder_has_its_state_before_its_first_segment(tmp_path, monkeypatch):
    """A process that was killed in between left a folder that the next one refused."""

    def fail(folder, state):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(copying, "write_copy_state", fail)
    ends = {0: (0, 0), 1: (0, 2), 2: (7, 7)}
    leader = Leader(ends, {1: batches(0, 2)})
    with pytest.raises(OSError, match="No space left"):
        copied(tmp_path, dict.fromkeys(ends, leader), lambda: 1_000)
    assert not [*tmp_path.glob("*/*.log")]


def test_a_wait_is_said_once_until_the_leader_has_answered(tmp_path):
    lines, waits, stop = [], [], asyncio.Event()

    class Noted(CopyObserver):
        def notice(self, line):
            lines.append(line)
            if len(lines) == 2:
                stop.set()

        def waiting(self, reasons):
            waits.append(dict(reasons))

    moved = {0: {"errorCode": 6, "records": None}}
    leader = Leader({0: (0, 9)}, moved, moved, {0: batches(0, 2)}, *[moved] * 9)
    copied(tmp_path, {0: leader}, lambda: 1_000, Noted(), stop, follow=True)
    why = "t-0: the broker answers NOT_LEADER_OR_FOLLOWER"
    assert lines == [f"{why}; trying again until it is there"] * 2
    assert waits[:4] == [{"t-0": why}, {"t-0": why}, {}, {"t-0": why}]
    assert leader.requested()[:4] == [[(0, 0, -1)]] * 3 + [[(0, 2, 5)]]


def test_a_damaged_partition_does_not_hold_up_the_others_of_its_leader(tmp_path):
    """Each of their responses waited for another list of offsets, and a pause."""
    lines, lists, stop = [], [], asyncio.Event()

    class Half(Leader):
        async def ask(self, api, body):
            (topic,) = body["topics"]
            if api == "ListOffsets":
                lists.append([part["partitionIndex"] for part in topic["partitions"]])
                return await super().ask(api, body)
            at = {part["partition"]: part["fetchOffset"] for part in topic["partitions"]}
            if at.get(1) == 40:
                stop.set()
            await asyncio.sleep(0)
            sent = {0: b"\xff" * 90, 1: batches(at.get(1, 0), at.get(1, 0) + 1)}
            self.fetched = [{number: sent[number] for number in at}]
            return await super().ask(api, body)

    class Noted(CopyObserver):
        def notice(self, line):
            lines.append(line)

    leader = Half({0: (0, 40), 1: (0, 40)})
    damage = "t-0: the broker sent 90 bytes without a whole batch at offset 0"
    with pytest.raises(ClusterError, match=f"{damage}; what follows is not in the copy"):
        copied(tmp_path, {0: leader, 1: leader}, lambda: 1, Noted(), stop, follow=True)
    assert len([numbers for numbers in lists if 1 in numbers]) <= 4  # two for each lane
    assert lines == [f"{damage}; trying again until it is sound"]


def test_a_topic_that_was_made_again_is_noticed_whatever_brokers_show_between(tmp_path):
    moved = {0: {"errorCode": 6, "records": None}}
    ids = ("c", "first", None, "second", "third")
    with pytest.raises(MadeAgain) as raised:
        copied(tmp_path, {0: Leader({0: (0, 2)}, *[moved] * 3)}, lambda: 1_000, ids=ids)
    assert raised.value.topic_id == "second"


def test_a_partition_of_which_nothing_was_written_has_no_result(tmp_path):
    class AtOnce(CopyObserver):
        def progress(self, done, total):
            stop.set()

    class Waiting(Leader):
        async def ask(self, api, body):
            if api == "Fetch":
                await asyncio.Event().wait()
            return await super().ask(api, body)

    stop = asyncio.Event()
    assert copied(tmp_path, {0: Waiting({0: (3, 5)})}, lambda: 1_000, AtOnce(), stop) == []
    assert read_copy_state(tmp_path / "t-0").first_offset == 3


class Refusing:
    async def ask(self, api, body):
        raise ClusterError("no permission")


class Silent:
    async def ask(self, api, body):
        try:
            await asyncio.Event().wait()
        finally:  # a connection may take a while to end
            for _ in range(9):
                await asyncio.sleep(0)


def test_what_one_leader_refuses_ends_the_copy_whatever_the_others_do(tmp_path):
    with pytest.raises(ClusterError, match="no permission"):
        copied(tmp_path, {0: Silent(), 1: Refusing(), 2: Silent()}, lambda: 1_000)


def test_the_first_folder_that_is_no_copy_is_named(tmp_path):
    for number in (3, 1, 7, 2, 5):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / f"{0:020}.log").touch()
    with pytest.raises(LogError, match="/t-1: "):
        copied(tmp_path, {0: Refusing()}, lambda: 1_000)


def test_a_copy_is_complete_no_more_once_its_end_is_gone(tmp_path):
    copied(tmp_path, {0: Leader({0: (0, 2)}, {0: batches(0, 2)})}, lambda: 1_234)
    for records, complete_ms in ((2, 1_234), (1, None)):
        (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batches(0, records))
        with pytest.raises(ClusterError, match="no permission"):
            copied(tmp_path, {0: Refusing()}, lambda: 5_678)
        assert read_copy_state(tmp_path / "t-0").complete_until_ms == complete_ms


@pytest.mark.parametrize(("share", "expected"), [(1 << 20, 512 << 10), (3_000, 2_000)])
def test_leaders_share_the_bytes_that_responses_take_but_each_sends_a_partition_s(
    tmp_path, monkeypatch, share, expected
):
    monkeypatch.setattr(copying, "RESPONSES_BYTES", share)
    monkeypatch.setattr(lanes, "FIRST_BYTES", share)
    monkeypatch.setattr(ClientConfig, "whole", lambda self, name: WHOLE.get(name, 1))
    leaders = {n: Leader({n: (0, 1)}, {n: batches(0, 1)}) for n in (0, 1)}
    copied(tmp_path, leaders, lambda: 1_000)
    assert {body["maxBytes"] for leader in leaders.values() for body in leader.asked} == {expected}


WHOLE = {"max.partition.fetch.bytes": 2_000, "default.api.timeout.ms": 60_000}


def test_the_partitions_of_a_copy_are_in_order_and_the_first_that_is_missing_is_named(tmp_path):
    class Begun(CopyObserver):
        async def begun(self, partitions):
            begun.append(partitions)

    begun = []
    leaders = {n: Leader({n: (0, 0)}) for n in (9, 1, 8)}
    copied(tmp_path / "all", leaders, lambda: 1_000, Begun())
    copied(tmp_path / "some", leaders, lambda: 1_000, Begun(), partitions=(9, 8))
    assert begun == [(1, 8, 9), (8, 9)]
    with pytest.raises(ClusterError, match="t has no partition 7: it has 0 to 2"):
        copied(tmp_path / "none", leaders, lambda: 1_000, partitions=(16, 7, 9))


def test_the_offsets_of_a_segment_fit_into_an_index_of_int32():
    assert segments.SPAN_MAX == 2_147_483_647  # Integer.MAX_VALUE, as LogSegment checks


def test_a_batch_larger_than_a_segment_is_one(tmp_path):
    with PartitionCopy(tmp_path, 10) as files:
        files.begin(0)
        files.append(batches(0, 3), 3)
        files.append(batches(3, 5), 5)
    assert [int(file.stem) for file in sorted(tmp_path.glob("*.log"))] == [0, 3]


@pytest.mark.parametrize("begun", [("c", None), (None, "id-of-t")])
def test_a_copy_of_brokers_without_an_id_goes_on_once_they_have_one(tmp_path, begun):
    copied(tmp_path, {0: Leader({0: (0, 2)}, {0: batches(0, 2)})}, lambda: 1_000, ids=begun)
    (result,) = copied(tmp_path, {0: Leader({0: (0, 3)}, {0: batches(2, 3)})}, lambda: 2_000)
    assert (result.next_offset, result.state.topic_id) == (3, "id-of-t")


@pytest.mark.parametrize("rest", [b"", b"\xff" * 30, b"torn"])
def test_a_copy_that_is_opened_again_goes_on_behind_its_last_batch(tmp_path, rest):
    data = batches(7, 9) + batches(9, 10, leader_epoch=8)
    (tmp_path / f"{3:020}.log").write_bytes(batches(3, 7))
    (tmp_path / "notes.log").write_text("no segment: its name is no offset")
    last = tmp_path / f"{7:020}.log"
    last.write_bytes(data + rest)
    with PartitionCopy(tmp_path) as files:
        assert (files.next_offset, files.leader_epoch, files.cut_bytes) == (10, 8, len(rest))
        assert last.read_bytes() == data
        files.append(batches(10, 11), 11)
    assert last.read_bytes() == data + batches(10, 11)
    with PartitionCopy(tmp_path) as files:
        assert (files.next_offset, files.leader_epoch) == (11, 5)


def test_a_whole_segment_has_the_time_of_its_last_batch_after_it_is_opened(tmp_path):
    """Its age tells when it may be replaced."""
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(batches(0, 3))
    os.utime(path, (5, 5))
    with PartitionCopy(tmp_path):
        pass
    assert path.stat().st_mtime == 5


def test_a_damaged_batch_before_the_last_piece_of_a_segment_cuts_nothing(tmp_path, monkeypatch):
    """Only the end is read: what lies before it has been written whole."""
    parts = [batches(at, at + 1) for at in range(4)]
    monkeypatch.setattr(segments, "HEADERS_BYTES", len(parts[0]))
    damaged = parts[1][:-1] + bytes([parts[1][-1] ^ 1])
    data = parts[0] + damaged + parts[2] + parts[3]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(data)
    with PartitionCopy(tmp_path) as files:
        assert (files.next_offset, files.cut_bytes) == (4, 0)
    assert path.read_bytes() == data


def test_an_empty_segment_says_where_its_copy_goes_on_and_no_segment_does_not(tmp_path):
    with PartitionCopy(tmp_path / "none") as files:
        assert (files.next_offset, files.leader_epoch, files.cut_bytes) == (None, -1, 0)
    (tmp_path / f"{12:020}.log").touch()
    with PartitionCopy(tmp_path) as files:
        assert (files.next_offset, files.leader_epoch, files.cut_bytes) == (12, -1, 0)


def test_the_sound_batches_of_a_response_have_their_offsets_and_the_last_ones_epoch():
    data = batch(4, [commit(1), commit(2)], leader_epoch=2) + batches(6, 8, leader_epoch=3)
    assert sound_batches(data) == Batches(len(data), 4, 8, 3)
    assert sound_batches(data + batches(8, 9)[:-1]) == Batches(len(data), 4, 8, 3)
    assert sound_batches(batches(8, 9)[:-1]) is None
    assert sound_batches(b"") is None
