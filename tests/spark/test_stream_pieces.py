"""How far a stream reads under a limit, which bytes it reads, and which it misses."""

import gzip
import os

import pytest

from coterie.errors import LogError
from coterie.log.folders import Segment
from coterie_spark.source import positions
from coterie_spark.source.positions import LogPositions
from support import log_writer as write
from support.growing_log import GrowingLog
from support.stream_logs import advance, log_of_segments, read, some_batch

pytest.importorskip("pyarrow")


def test_a_limit_ends_after_any_whole_batch_from_any_place(tmp_path):
    """Batches of many sizes in three segments; a position behind each of them."""
    broker, offset, ends = GrowingLog(tmp_path), 0, [(0, 0)]
    for segment in ([9, 1, 2], [1, 7], [3, 3, 12, 1]):
        if offset:
            broker.roll(offset)
        for count in segment:
            broker.append(some_batch(offset, count))
            offset += count
            ends.append((offset, len(broker.whole)))
    for first, start in ends:
        for after, end in ends:
            if after > first:
                log = LogPositions([tmp_path])
                assert advance(log, {"0": first}, end - start) == {"0": after}, (first, after)


def test_a_limit_is_dealt_from_the_least_to_the_most_and_its_rest_goes_on(tmp_path):
    """What a partition leaves of its share is for those with more."""
    size = len(some_batch(0))
    counts, starts = (10, 3, 6, 8, 7), (4, 0, 1, 8, 0)
    for number, count in enumerate(counts):
        broker = GrowingLog(tmp_path, number)
        for offset in range(count):
            broker.append(some_batch(offset))
    position = {str(number): start for number, start in enumerate(starts) if start}
    for limit in range(0, 30):
        left, expected = limit * size, dict(enumerate(starts))
        waiting = sorted((c - s, n) for n, (c, s) in enumerate(zip(counts, starts, strict=True))
                         if c > s)  # fmt: skip
        for done, (batches, number) in enumerate(waiting):
            share = left // (len(waiting) - done) // size
            some = max(min(batches, share), 1)
            expected[number] += some
            left = max(left - some * size, 0)
        found = advance(LogPositions([tmp_path]), position, limit * size)
        assert found == {str(number): offset for number, offset in expected.items()}, limit


def test_a_damaged_batch_does_not_hold_up_a_stream_with_a_limit(tmp_path):
    """It has no place of its own, so a trigger does not end behind it."""
    broker = GrowingLog(tmp_path)
    broker.append(some_batch(0))
    log = LogPositions([tmp_path])
    assert log.ends({}) == {"0": 1}
    broker.append(some_batch(1 << 40))
    broker.append(some_batch(1))
    broker.append(some_batch(2))
    for known in (log, LogPositions([tmp_path])):
        assert advance(known, {"0": 1}, 1) == {"0": 2}
        pieces = known.pieces({"0": 1}, {"0": 2})
        assert read([tmp_path], pieces) == some_batch(1)
        assert advance(known, {"0": 2}, 1) == {"0": 3}
        assert known.ends({"0": 1}) == {"0": 3}
    broker.roll(3)
    broker.append(some_batch(1 << 40))
    broker.append(some_batch(3))
    for known in (log, LogPositions([tmp_path])):
        assert advance(known, {"0": 3}, 1) == {"0": 4}
        both = read([tmp_path], known.pieces({"0": 3}, {"0": 4}))
        assert both == some_batch(1 << 40) + some_batch(3)


@pytest.fixture
def reads(monkeypatch):
    """The files and the ranges of bytes that are read."""
    made = []

    def read_range(segment, start, end=None, real=positions.read_range):
        made.append((os.path.basename(segment.path), start, end))
        return real(segment, start, end)

    monkeypatch.setattr(positions, "read_range", read_range)
    return made


def test_of_a_log_that_grows_only_what_is_new_is_read(tmp_path, reads):
    """And the last known batch: it shows that the file is still the same."""
    broker = log_of_segments(tmp_path, 2, 3)
    size = len(some_batch(0, 2))
    log, name = LogPositions([tmp_path]), f"{4:020}.log"
    assert log.ends({}) == {"0": 10}
    reads.clear()
    assert log.ends({"0": 10}) == {"0": 10}
    assert {file for file, _, _ in reads} == {name}
    assert min(start for _, start, _ in reads) == 2 * size
    broker.append(some_batch(10, 2))
    reads.clear()
    assert log.ends({"0": 10}) == {"0": 12}
    assert {file for file, _, _ in reads} == {name}
    assert min(start for _, start, _ in reads) == 2 * size
    reads.clear()
    (segments,) = log.segments().values()
    assert log.locate(segments, 12) == (1, 4 * size)
    assert reads == [(name, 3 * size, 3 * size + positions.LEAST_WINDOW)]
    broker.roll(12)
    reads.clear()
    assert log.ends({"0": 12}) == {"0": 12}
    assert {file for file, _, _ in reads} == {f"{12:020}.log"}


def test_the_first_batch_is_known_again_too(tmp_path, reads):
    """Its last offset is 0."""
    GrowingLog(tmp_path).append(some_batch(0))
    log, size = LogPositions([tmp_path]), len(some_batch(0))
    assert log.ends({}) == {"0": 1}
    reads.clear()
    assert log.ends({"0": 1}) == {"0": 1}
    assert [(start, end) for _, start, end in reads] == [
        (0, positions.LEAST_WINDOW), (size, None)]  # fmt: skip


def test_a_compressed_file_that_has_its_size_is_not_read_again(tmp_path, reads):
    log_of_segments(tmp_path, 3)
    (file,) = tmp_path.glob("*/*.log")
    packed = file.with_name(file.name + ".gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    log = LogPositions([tmp_path])
    assert log.ends({}) == {"0": 6}
    reads.clear()
    (segments,) = log.segments().values()
    assert log.locate(segments, 6) == (0, 3 * len(some_batch(0, 2)))
    assert reads == []
    packed.write_bytes(gzip.compress(b"".join(some_batch(at, 2) for at in range(0, 20, 2))))
    assert log.ends({"0": 6}) == {"0": 20}


def test_missing_offsets_are_those_between_the_batches_that_are_read(tmp_path, caplog):
    layout = [[(0, 2), (4, 1), (5, 3), (9, 1)], [(12, 2), (15, 1), (16, 1)]]
    broker = GrowingLog(tmp_path)
    broker.put([(group[0][0], b"".join(some_batch(*one) for one in group)) for group in layout])
    batches = [one for group in layout for one in group]
    ends = [base + count for base, count in batches]
    for first in [1, *ends]:
        for after in ends:
            if after <= first:
                continue
            there = [range(base, base + count) for base, count in batches
                     if first < base + count <= after]  # fmt: skip
            known = {offset for batch in there for offset in batch}
            missing = len(set(range(first, max(known) + 1)) - known)
            caplog.clear()
            LogPositions([tmp_path]).pieces({"0": first}, {"0": after})
            logged = [record.getMessage() for record in caplog.records]
            text = f"{missing} of the offsets from {first} to {after - 1} are gone"
            assert len(logged) == bool(missing), (first, after)
            assert all(text in one for one in logged), (first, after, logged)


@pytest.mark.parametrize("size", [1, 60, 61, 62, 121, 122, 123, 500])
def test_the_check_of_a_range_is_that_of_its_bytes(tmp_path, size):
    body = bytes(at * at % 251 for at in range(700))
    (tmp_path / "a.log").write_bytes(body)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(body))
    plain = Segment(str(tmp_path / "a.log"), 0, 0, len(body), None)
    packed = Segment(str(tmp_path / "b.log.gz"), 0, 0, len(body), "gz")
    for segment in (plain, packed):
        for start in (0, 7, 700 - size):
            expected = positions.check_of_ends(body[start : start + size])
            assert positions.check_of(segment, start, start + size) == expected


def long_batch(offset):
    """Its last bytes are those of all others."""
    return write.batch(offset, [write.commit(5, 5, metadata=b"x" * 200)])


def test_a_piece_whose_file_has_other_bytes_there_is_found_by_its_offsets(tmp_path):
    broker = GrowingLog(tmp_path)
    batches = [long_batch(offset) for offset in range(6)]
    for one in batches:
        broker.append(one)
    pieces = LogPositions([tmp_path]).pieces({"0": 2}, {"0": 4})
    broker.put([(0, b"".join(batches[1:]))])  # as many bytes, other batches
    assert read([tmp_path], pieces) == b"".join(batches[2:4])
    broker.put([(0, b"".join(batches))])
    pieces = LogPositions([tmp_path]).pieces({}, {"0": 2})
    broker.put([(0, batches[0]), (1, b"".join(batches[1:]))])  # fewer bytes, with the same ends
    assert read([tmp_path], pieces) == b"".join(batches[:2])


def test_a_piece_that_cannot_be_read_is_an_error_unless_its_file_was_renamed(tmp_path):
    broker = GrowingLog(tmp_path)
    broker.append(some_batch(0))
    pieces = LogPositions([tmp_path]).pieces({}, {"0": 1})
    broker.active.rename(broker.folder / f"{0:020}.log.swap")
    (broker.folder / f"{0:020}.log").mkdir()
    with pytest.raises(LogError, match="not a regular file"):
        read([tmp_path], pieces)
    (broker.folder / f"{0:020}.log").rmdir()
    with pytest.raises(LogError, match=r"no segment \(.log\) in its __consumer_offsets-N folders"):
        read([str(tmp_path)], pieces)
    (broker.folder / f"{0:020}.log.swap").rename(broker.folder / f"{0:020}.log")
    assert read([tmp_path], pieces) == some_batch(0)
