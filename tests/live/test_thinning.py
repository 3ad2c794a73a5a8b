"""Old segments of a copy are replaced by what the broker has left of them, at any moment."""

import asyncio
import errno
import os
import stat
from pathlib import Path

import pytest

pytest.importorskip("aiokafka")

from coterie.live.cluster_errors import ClusterError
from coterie.live.thinning import are_left, drop_replaced, old_segments, thin
from coterie.log.batch_headers import batch_headers
from coterie.messages import LogReader, encode_batch
from coterie.state.partial import scan
from coterie.state.rows import visible_offsets
from support.log_writer import batch, commit

KEYS, RECORDS, SEGMENT = 3, 40, 10  # of keys, of the log, of a segment


@pytest.fixture
def batches():
    """Each a commit, to one of some partitions in turn; the time is its number."""
    return [batch(n, [commit(n, partition=n % KEYS, offset=n)]) for n in range(RECORDS)]


@pytest.fixture
def folder(tmp_path, batches):
    """A copy in segments, of which all but the last were written at the time 1 s."""
    for base in range(0, RECORDS, SEGMENT):
        path = tmp_path / f"{base:020}.log"
        path.write_bytes(b"".join(batches[base : base + SEGMENT]))
        os.utime(path, (1, 1))
    return tmp_path


def names(folder):
    return [int(path.stem) for path in sorted(folder.glob("*.log"))]


def data_of(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def state_of(data):
    fold = scan(data).fold(None)
    return sorted((row["partition"], row["offset"]) for _, row in visible_offsets(fold, None))


def compacted(batches):
    """What a broker's compaction leaves: the last commit of each key below the active segment."""
    end = RECORDS - SEGMENT
    return [each for n, each in enumerate(batches) if n >= end - KEYS]


def broker_of(left, per_response=2):
    async def fetch(offset):
        later = [each for each in left if next(iter(LogReader(each))).base_offset >= offset]
        return {"errorCode": 0, "records": b"".join(later[:per_response])}

    return fetch


def run(folder, fetch, before_ms=2_000):
    old = old_segments(folder, before_ms, least_bytes=1)
    asyncio.run(thin(old, 0, fetch, "topic-0"))


def test_old_segments_become_one_with_what_is_left_of_them(folder, batches):
    whole = state_of(data_of(folder))
    run(folder, broker_of(compacted(batches)))
    assert names(folder) == [0, RECORDS - SEGMENT]
    assert data_of(folder) == b"".join(compacted(batches))
    assert state_of(data_of(folder)) == whole
    assert old_segments(folder, 2_000, least_bytes=1) is None  # until as much is old again


def test_a_segment_with_newer_records_and_the_last_one_stay(folder, batches):
    os.utime(folder / f"{2 * SEGMENT:020}.log", (3, 3))
    run(folder, broker_of(batches, per_response=7))  # a response ends beyond the old segments
    assert names(folder) == [0, 2 * SEGMENT, 3 * SEGMENT]
    assert data_of(folder) == b"".join(batches)
    os.utime(folder / f"{0:020}.log", (3, 3))
    assert old_segments(folder, 2_000, least_bytes=1) is None


def test_what_is_not_worth_it_stays(folder):
    size = len(data_of(folder)) // 4
    assert old_segments(folder, 2_000, least_bytes=2 * size).end == 3 * SEGMENT
    assert old_segments(folder, 2_000, least_bytes=2 * size + 1) is None
    assert old_segments(folder, 1_000, least_bytes=1) is None


@pytest.mark.parametrize(
    "answer", [{"errorCode": 1, "records": None}, {"errorCode": 0, "records": b""}]
)
def test_a_broker_that_does_not_answer_leaves_the_copy_as_it_is(folder, answer):
    before = data_of(folder)

    async def fetch(offset):
        return answer

    with pytest.raises(ClusterError):
        run(folder, fetch)
    assert (data_of(folder), list(folder.glob("*.cleaned"))) == (before, [])


@pytest.mark.parametrize("end", [3, SEGMENT])
def test_a_broker_that_sends_what_lies_before_the_offset_is_asked_once(folder, batches, end):
    """The first segment ends at 10; what begins there was requested."""
    before, starts = data_of(folder), []
    (folder / f"{0:020}.log").unlink()

    async def fetch(offset):
        starts.append(offset)
        assert len(starts) == 1
        return {"errorCode": 0, "records": b"".join(batches[:end])}

    with pytest.raises(ClusterError, match="topic-0: the broker sends nothing of its log"):
        run(folder, fetch)
    assert starts == [SEGMENT]
    assert before.endswith(data_of(folder))


def test_a_disk_that_takes_no_new_file_leaves_the_copy_as_it_is(folder, batches, monkeypatch):
    before = data_of(folder)

    def no_space(path, mode):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", no_space)
        with pytest.raises(OSError, match="No space left"):
            run(folder, broker_of(batches))
    assert data_of(folder) == before


@pytest.mark.parametrize("killed_at", range(10))
def test_a_copy_that_is_killed_anywhere_has_the_same_state(folder, batches, monkeypatch, killed_at):
    whole, moments = state_of(data_of(folder)), []

    class Killed(BaseException):
        pass

    def moment(real):
        def work(*arguments, **options):
            moments.append(real)
            if len(moments) > killed_at:
                raise Killed
            return real(*arguments, **options)

        return work

    path = type(folder)
    for owner, name in ((os, "fsync"), (os, "utime"), (path, "replace"), (path, "unlink")):
        monkeypatch.setattr(owner, name, moment(getattr(owner, name)))
    with pytest.raises(Killed):
        run(folder, broker_of(compacted(batches)))
    monkeypatch.undo()
    drop_replaced(folder)
    assert state_of(data_of(folder)) == whole
    assert not list(folder.glob("*.cleaned"))
    assert not list(folder.glob("*.swap"))
    if names(folder) != list(range(0, RECORDS, SEGMENT)):
        assert data_of(folder) == b"".join(compacted(batches))


def test_old_segments_go_once_what_replaces_them_is_on_the_disk(folder, batches, monkeypatch):
    """The bytes of the new file, then its name; else a failing disk could lose both."""
    done, path = [], type(folder)

    def synced(number):
        status = os.fstat(number)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_size)

    def recorded(name, real):
        def work(self, *arguments, **options):
            done.append(name)
            return real(self, *arguments, **options)

        return work

    monkeypatch.setattr(os, "fsync", synced)
    for name in ("replace", "unlink"):
        monkeypatch.setattr(path, name, recorded(name, getattr(path, name)))
    run(folder, broker_of(compacted(batches)))
    size = sum(map(len, compacted(batches)[:KEYS]))
    assert done == [
        *(size, "folder", "replace", "folder"),
        *("unlink", "unlink", "folder", "unlink", "folder"),  # the last is the file that names them
    ]


@pytest.mark.parametrize(
    ("bases", "end", "rest", "left"),
    [
        ([0, 10, 20, 30], 30, ".swap", [0, 30]),  # killed before the old ones went
        ([0, 20, 30], 30, ".swap", [0, 30]),
        ([0, 10, 20, 30], 20, ".swap", [0, 20, 30]),
        ([0, 10, 20], 30, ".swap", [0, 20]),  # never the one that grows
        ([0, 30], 30, ".swap", [0, 30]),
        ([10], 30, ".swap", [10]),
        ([], 30, ".swap", []),
        ([0, 10, 20, 30], 30, ".swap .cleaned", [0, 10, 20, 30]),  # killed before it took its place
        ([0, 10, 20, 30], 30, ".cleaned", [0, 10, 20, 30]),
    ],
)
def test_segments_that_the_first_one_has_replaced_are_removed(tmp_path, bases, end, rest, left):
    for base in bases:
        (tmp_path / f"{base:020}.log").touch()
    for name in rest.split():
        (tmp_path / f"{end:020}{name}").touch()
    drop_replaced(tmp_path)
    assert names(tmp_path) == left
    assert not [*tmp_path.glob("*.cleaned"), *tmp_path.glob("*.swap")]


@pytest.mark.parametrize("name", [f"{0:020}.log.swap", "x.log.swap", "x.swap", "\u00b2.swap"])
def test_a_stray_file_replaces_nothing(folder, name):
    """The names of Kafka's cleaner, of a person, and a digit that is no number."""
    (folder / name).write_bytes(b"x")
    (folder / "\u00b2.log").write_bytes(b"x")
    drop_replaced(folder)
    assert old_segments(folder, 2_000, least_bytes=1).end == RECORDS - SEGMENT
    assert (folder / name).read_bytes() == (folder / "\u00b2.log").read_bytes() == b"x"


def flipped(data, at, bit=1):
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


@pytest.mark.parametrize("at", [2, 7, 23, 26, 70])  # base offset, last offset delta, a record
def test_a_damaged_first_segment_has_replaced_nothing(folder, batches, at):
    """One bit of an offset made every other segment, and the one that grows, go.

    No checksum covers the base offset: 9 becomes 25, which lies in another segment.
    """
    first = folder / f"{0:020}.log"
    last = len(first.read_bytes()) - len(batches[SEGMENT - 1])
    first.write_bytes(flipped(first.read_bytes(), last + at, 16))
    before = data_of(folder)
    drop_replaced(folder)
    assert (data_of(folder), names(folder)) == (before, list(range(0, RECORDS, SEGMENT)))


@pytest.mark.parametrize("at", [0, 7, 23, 26, 70])
@pytest.mark.parametrize("number", [0, 6, 11, 29])  # 6 becomes 7, which the copy has, too
def test_damaged_batches_of_a_broker_replace_nothing(folder, batches, at, number):
    before = data_of(folder)
    sent = [flipped(each, at) if n == number else each for n, each in enumerate(batches)]

    async def fetch(offset):
        return {"errorCode": 0, "records": b"".join(sent[offset : offset + 7])}

    with pytest.raises(ClusterError, match="topic-0: the broker sends"):
        run(folder, fetch)
    assert (data_of(folder), list(folder.glob("*.cleaned"))) == (before, [])


def test_the_batch_behind_old_segments_may_be_of_any_later_one(folder, batches):
    """Compaction has left nothing of the segment that follows the old ones."""
    os.utime(folder / f"{2 * SEGMENT:020}.log", (9, 9))
    run(folder, broker_of([*batches[17:20], *batches[30:]]))
    assert names(folder) == [0, 2 * SEGMENT, 3 * SEGMENT]
    assert (folder / f"{0:020}.log").read_bytes() == b"".join(batches[17:20])


@pytest.mark.parametrize("log_end", [RECORDS, RECORDS - 1])
def test_a_log_that_ends_within_what_its_broker_sends_replaces_nothing(folder, batches, log_end):
    fetch = broker_of(batches, RECORDS)

    async def ending(offset):
        return await fetch(offset) | {"highWatermark": log_end}

    if log_end == RECORDS:
        run(folder, ending)
        assert names(folder) == [0, 3 * SEGMENT]
        return
    before = data_of(folder)
    with pytest.raises(ClusterError, match="topic-0: the broker sends a damaged batch at offset 0"):
        run(folder, ending)
    assert (data_of(folder), len(names(folder))) == (before, RECORDS // SEGMENT)


def test_batches_that_compaction_has_written_anew_are_left_of_known_ones(tmp_path):
    records = [(0, 7, b"k", b"v"), (1, 8, b"l", None)]
    known = encode_batch(records, base_offset=0)
    fewer = encode_batch(records[1:], base_offset=0)
    horizon = encode_batch(records, base_offset=0, delete_horizon_ms=99)
    other = encode_batch([(0, 7, b"k", b"w"), records[1]], base_offset=0)
    short = encode_batch(records[:1], base_offset=0)  # compaction keeps the last offset
    every = ((known, True), (fewer, True), (horizon, True), (other, False), (short, False))
    for left, is_left in every:
        assert are_left(batch_headers(left), left, batch_headers(known)) is is_left


@pytest.mark.parametrize("is_true", [True, False])
@pytest.mark.parametrize("log_start", [0, 4, 25, RECORDS])
def test_what_is_fetched_again_begins_with_the_log_and_keeps_its_time(
    folder, batches, log_start, is_true
):
    """Of a start that is not true, the broker sends what lies before it."""
    asked = log_start if is_true else 0
    for number, base in enumerate(range(0, 3 * SEGMENT, SEGMENT)):
        os.utime(folder / f"{base:020}.log", (5 + number, 1 + number / 4))
    offsets, fetch = [], broker_of(batches)

    async def recorded(offset):
        offsets.append(offset)
        gone = {"errorCode": 1, "records": None}
        return gone if offset < asked else await fetch(offset)

    old = old_segments(folder, 1_501, least_bytes=1)
    asyncio.run(thin(old, log_start, recorded, "topic-0"))
    assert offsets == [*([0] if asked else []), *range(asked, 3 * SEGMENT, 2)]
    first = folder / f"{0:020}.log"
    assert first.read_bytes() == b"".join(batches[asked : 3 * SEGMENT])
    assert (first.stat().st_mtime, names(folder)) == (1.5, [0, 3 * SEGMENT])


@pytest.mark.parametrize(("before_ms", "end"), [(1_000, None), (1_001, 10), (1_251, 20)])
def test_a_segment_is_old_if_it_was_written_before_a_time(folder, before_ms, end):
    for number, base in enumerate(range(0, RECORDS, SEGMENT)):
        os.utime(folder / f"{base:020}.log", (1, 1 + number / 4))
    (folder / f"{0:020}.log").write_bytes(b"")
    os.utime(folder / f"{0:020}.log", (1, 1))
    old = old_segments(folder, before_ms, least_bytes=0)
    assert (old and old.end) == end
