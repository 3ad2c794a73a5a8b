"""Damaged logs: a fault or the same records, never a crash. Run under the sanitizers too."""

import functools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie import ScanOptions, scan
from coterie._core.codec.batch import LogReader
from coterie._core.fold.columns import KIND_NAMES, decode_columns
from coterie._core.fold.fold import PartitionFold
from coterie._core.fold.record_scan import RecordScan
from support.golden_data import segments

CASES = ["transactions", "old-formats", "compacted", "connect", "kip848"]
OUTSIDE_THE_SUM = {2: set(range(16)), 1: set(range(12)), 0: set(range(12))}  # by magic
SLOW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@functools.cache
def pieces():
    """Small runs of whole batches from real logs of every format."""
    found = []
    for case in CASES:
        for path in segments(case):
            data = path.read_bytes()
            starts = [batch.position for batch in LogReader(data)]
            found += [data[a:b] for a, b in zip(starts[::9], starts[4::9], strict=False)]
    return found


def read(data):
    """What every reader makes of the bytes; they must agree on the records."""
    reader = LogReader(data)
    records = [record for batch in reader for record in batch.records]
    columns = decode_columns(data, raw=True)
    assert columns["log_offset"].tolist() == [record.offset for record in records]
    scanned_as_columns(data, columns)
    for on_fault in ("skip", "load", "recover"):
        state = scan(data, partition=0, options=ScanOptions(on_fault=on_fault, history=True))
        state.groups()
    return records, reader.faults


def scanned_as_columns(data, columns):
    """A scan of records gives the rows that can be read; a filter leaves those of a group."""
    there = columns["kind"] != KIND_NAMES.index("fault")
    for group in [None, *columns["groups"][:1]]:
        wanted = None if group is None else {group}
        scan_ = RecordScan(groups=wanted)
        rows, end = scan_.scan(data)
        assert end == len(data)
        assert len(rows["newer_keys"]) == (rows["kind"] == KIND_NAMES.index("newer")).sum()
        mine = np.array([name == group for name in columns["groups"]] + [False])
        selected = there if group is None else there & mine[columns["group"]]
        for name in ("log_offset", "kind", "timestamp", "offset", "commit_timestamp"):
            assert rows[name].tolist() == columns[name][selected].tolist()
        names = [scan_.groups[number] if number >= 0 else None for number in rows["group"]]
        expected = [columns["groups"][n] if n >= 0 else None for n in columns["group"][selected]]
        assert names == expected
        fold = PartitionFold(only=wanted, survey=True, tracking=(None, None, None))
        fold.scan(data)
        assert fold.number == scan_.number


@SLOW
@given(st.data())
def test_a_flipped_byte_gives_a_fault_or_the_same_records(data):
    piece = data.draw(st.sampled_from(pieces()))
    at = data.draw(st.integers(0, len(piece) - 1))
    damaged = bytearray(piece)
    damaged[at] ^= data.draw(st.integers(1, 255))
    records, _ = read(piece)
    again, faults = read(bytes(damaged))
    batch = max((b for b in LogReader(piece) if b.position <= at), key=lambda b: b.position)
    if not faults and at - batch.position not in OUTSIDE_THE_SUM[batch.magic]:
        assert again == records


@SLOW
@given(st.data())
def test_a_cut_keeps_whole_batches_and_says_where_it_is(data):
    piece = data.draw(st.sampled_from(pieces()))
    end = data.draw(st.integers(0, len(piece)))
    again, faults = read(piece[:end])
    whole = [b for b in LogReader(piece) if b.position + b.size <= end]
    assert again == [record for batch in whole for record in batch.records]
    boundary = whole[-1].position + whole[-1].size if whole else 0
    assert [f.position for f in faults] == ([] if boundary == end else [boundary])


@SLOW
@given(st.data())
def test_bytes_behind_a_valid_sum_never_crash(data):
    """The damage that a checksum hides: whatever is inside is checked again."""
    piece = data.draw(st.sampled_from(pieces()))
    damaged = bytearray(piece)
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(piece) - 1))] = data.draw(st.integers(0, 255))
    list(LogReader(bytes(damaged), check_crc=False))
    decode_columns(bytes(damaged), raw=True, check_crc=False)
    for groups in (None, {"g"}):
        RecordScan(groups=groups, check_crc=False).scan(bytes(damaged))
        scan(bytes(damaged), options=ScanOptions(on_fault="load", groups=groups)).groups()


@SLOW
@given(st.binary(max_size=400))
def test_any_bytes_at_all_are_read_to_an_end(data):
    read(data)


@pytest.mark.parametrize("size", range(40))
def test_zeros_are_a_tail_of_any_size(size):
    _, faults = read(bytes(size))
    assert [f.kind for f in faults] == (["tail"] if size else [])
