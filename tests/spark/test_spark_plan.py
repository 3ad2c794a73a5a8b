"""How a log is cut and dealt, without Spark."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import ScanOptions
from coterie._core.codec.batch import batch_boundaries
from coterie.log.folders import Segment
from coterie.state.partial import PartialState
from coterie_spark.replay_job import plan, tasks
from coterie_spark.replay_job.merging import join_pieces
from support import golden_data

SIZES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300 << 20)), min_size=1)


def segments_of(sizes):
    return [Segment(f"p/{i}.log", p, i, size, None) for i, (p, size) in enumerate(sorted(sizes))]


@given(SIZES, st.integers(1, 64))
def test_every_piece_is_dealt_once_and_in_order(sizes, cores):
    pieces = plan.pieces_of(segments_of(sizes), {})
    tasks = plan.deal(pieces, cores)
    assert [piece for task in tasks for unit in task for piece in unit] == pieces
    for task in tasks:
        assert task
        for unit in task:
            assert len({piece.segment.partition for piece in unit}) == 1


@given(SIZES, st.integers(1, 64))
def test_no_task_is_more_than_one_piece_above_its_share(sizes, cores):
    pieces = plan.pieces_of(segments_of(sizes), {})
    share = max(sum(p.weight for p in pieces) // cores, plan.TASK_BYTES_MIN)
    biggest = max(piece.weight for piece in pieces)
    for task in plan.deal(pieces, cores):
        assert sum(p.weight for unit in task for p in unit) <= share + biggest


@given(SIZES, st.integers(1, 4), st.integers(1, 2 << 30))
def test_no_task_is_more_than_one_piece_above_the_bytes_of_the_limit(sizes, cores, task_bytes):
    pieces = plan.pieces_of(segments_of(sizes), {})
    biggest = max(piece.weight for piece in pieces)
    for task in plan.deal(pieces, cores, task_bytes):
        assert sum(p.weight for unit in task for p in unit) < task_bytes + max(biggest, 1)


def test_integers_have_the_hash_of_sparks_partitioning():
    # SELECT hash(0), hash(1), hash(42) of Spark 3.5
    assert [tasks.spark_hash(value) for value in (0, 1, 42)] == [933211791, -559580957, 29417773]


@pytest.mark.parametrize("max_bytes", [1, 700, 5000])
@pytest.mark.parametrize("case", ["basic", "compacted", "corrupt/magic-3", "corrupt/length-2gib"])
def test_pieces_scanned_one_after_another_give_what_the_segment_gives(case, max_bytes):
    for path in golden_data.segments(case):
        data = memoryview(Path(path).read_bytes())
        whole, cut = PartialState(ScanOptions()).fold(0), PartialState(ScanOptions()).fold(0)
        whole.scan(data, file="f")
        cuts = plan.cut_segment(data, max_bytes)
        for start, end, expected in cuts:
            part = data[start : None if end < 0 else end]
            cut.scan(part, file="f", position=start, expected_offset=expected)
        assert cut.faults == whole.faults
        assert join_pieces(cut.segments) == whole.segments


def test_pieces_of_which_the_first_ones_hold_no_batch_are_one_segment(tmp_path):
    (path, *_) = golden_data.segments("basic")
    data = bytearray(path.read_bytes())
    cuts = batch_boundaries(data, 1)[:-1]
    for start in cuts[:2]:
        data[start + 17] ^= 1  # their checksums: these batches are left out
    whole, cut = PartialState(ScanOptions()).fold(0), PartialState(ScanOptions()).fold(0)
    whole.scan(data, file="f")
    for start, end in itertools.pairwise([*cuts, len(data)]):
        cut.scan(data[start:end], file="f", position=start)
    assert [row[3] for row in cut.segments[:3]] == [0, 0, 1]
    assert whole.segments[0][5] > 0  # the offset of the first batch that can be read
    assert join_pieces(cut.segments) == whole.segments


@given(SIZES)
def test_pieces_never_get_smaller_than_worth_a_task_nor_bigger_than_a_segment(sizes):
    piece_bytes = plan.piece_bytes(segments_of(sizes), 2)
    assert plan.SPARK_PIECE_BYTES_MIN <= piece_bytes <= plan.SPARK_PIECE_BYTES
