"""Since when a compacted log can be trusted, compared with a small model of the cleaner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie._core.fold.fold_state import Scanned
from coterie.base.times import format_time
from coterie.log.trust import PARTITIONS_NAMED, trust_lines, trusted_from
from coterie.state.partial import ScanOptions
from support.log_writer import batch, commit_key

KEYS = st.sampled_from("abc")
STEPS = st.integers(0, 3)  # ms between one record and the next
LOGS = st.lists(st.lists(st.tuples(KEYS, STEPS), max_size=6), min_size=1, max_size=4)


def segments_of(log):
    """Segments of records (offset, timestamp, key), offsets and times rising."""
    offset, now_ms, segments = 0, 1000, []
    for records in log:
        segment = []
        for key, step_ms in records:
            now_ms += step_ms
            segment.append((offset, now_ms, key))
            offset += 1
        segments.append(segment)
    return segments


def cleaned(segments, count):
    """Keep the last record of each key in the first ``count`` segments; the rest as it is."""
    last = {key: offset for segment in segments[:count] for offset, _, key in segment}
    retained = [[r for r in segment if last[r[2]] == r[0]] for segment in segments[:count]]
    return retained + segments[count:]


def pieces(segments):
    """Return ``Scanned`` of the segments, with each record in its own batch."""
    for number, segment in enumerate(segments):
        offsets = [offset for offset, _, _ in segment] or [-1]
        times = [moment for _, moment, _ in segment] or [-1]
        gap = len(segment) > 0 and offsets[-1] - offsets[0] >= len(segment)
        yield Scanned(
            *(str(number), 0, 0, len(segment), len(segment)),
            *(offsets[0], offsets[-1], max(times), gap, times[0]),
        )


def state_at(segments, at_ms):
    """Offset of each key's last record that is not later than the time."""
    records = [record for segment in segments for record in segment if record[1] <= at_ms]
    return {key: offset for offset, _, key in records}


@pytest.mark.parametrize("times", [(5000, 9000, 7000), (9000, 5000, 5000), (5000, 7000, 9000)])
def test_a_first_batch_of_several_times_is_trusted_from_its_greatest(times):
    """The segment may have begun at any of them: only the greatest is safe."""
    earlier = batch(1, [(1000, commit_key(1, b"g", b"t", 0), None)])  # offset 0 is gone
    records = [(ms, commit_key(1, b"g", b"t", n), None) for n, ms in enumerate(times)]
    fold = ScanOptions().new_fold()
    fold.scan(earlier, file="0")
    fold.scan(batch(2, records) + batch(5, [(9500, *records[0][1:])]), file="1")
    assert [piece.first_timestamp for piece in fold.segments] == [1000, 9000]
    assert [piece.max_timestamp for piece in fold.segments] == [1000, 9500]
    assert trusted_from(fold.segments) == 9000


@given(LOGS, st.integers(0, 4))
def test_from_the_time_told_on_the_state_is_that_of_the_whole_log(log, count):
    whole = segments_of(log)
    left = cleaned(whole, min(count, len(whole) - 1))
    since_ms = trusted_from(pieces(left))
    for at_ms in range(999, 1080):
        if since_ms is None or at_ms >= since_ms:
            assert state_at(left, at_ms) == state_at(whole, at_ms)


@given(LOGS)
def test_a_log_that_lost_nothing_is_trusted_from_its_start(log):
    assert trusted_from(pieces(segments_of(log))) is None


def piece(file, first, last, since_ms, until_ms, gap=False, position=0):
    return Scanned(file, position, 10, 1, 1, first, last, until_ms, gap, since_ms)


def test_a_gap_before_the_last_segment_is_trusted_from_that_segment_on():
    assert trusted_from([piece("0", 0, 4, 100, 200), piece("9", 9, 9, 300, 400)]) == 300


def test_a_gap_in_the_last_segment_itself_leaves_nothing_but_its_end():
    log = [piece("0", 0, 8, 100, 200), piece("9", 9, 12, 300, 400, gap=True)]
    assert trusted_from(log) == 400
    cut = [piece("0", 0, 4, 100, 200), piece("0", 6, 8, 200, 300, position=50)]
    assert trusted_from(cut) == 300


@pytest.mark.parametrize("count", [1, PARTITIONS_NAMED - 1, PARTITIONS_NAMED])
def test_each_of_a_few_partitions_has_a_line_and_no_line_is_about_others(count):
    lines = list(trust_lines({number: 1000 * number for number in range(count)}))
    names = [line.partition(":")[0] for line in lines]
    assert names == [f"partition {number}" for number in range(count)]


def test_one_line_stands_for_the_other_partitions_with_their_number_and_the_latest_time():
    count = PARTITIONS_NAMED + 3
    lines = list(trust_lines({n: 1000 * (count - n) for n in range(count)}, "a hint"))
    assert len(lines) == PARTITIONS_NAMED + 1
    assert lines[-1] == (
        "3 more partitions: compacted too; all are trusted since "
        f"{format_time(1000 * count)}; a hint"
    )
    assert not any("a hint" in line for line in lines[:-1])


def test_a_hint_needs_a_partition_that_was_compacted():
    assert list(trust_lines({}, "a hint")) == []
