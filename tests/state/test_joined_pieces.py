"""Pieces of a segment that are joined again say of it what one reading of the whole says."""

import pytest

from coterie import PartialState, ScanOptions
from coterie._core.fold.fold_state import Scanned
from coterie.state.replay_engine import Read, summarize
from coterie.state.replay_pieces import join_pieces
from support.log_writer import batch, commit


def scanned(*pieces):
    """What is known of a file that is scanned piece by piece, each by a fold of its own."""
    position, found = 0, []
    for data in pieces:
        fold = PartialState(ScanOptions()).fold(0)
        fold.scan(data, file="f", position=position)
        position += len(data)
        found += fold.segments
    return found


@pytest.mark.parametrize("offsets", [(0, 1, 2), (0, 1, 5), (0, 4, 5), (3, 4, 9)])
def test_joined_pieces_have_a_gap_where_the_whole_segment_has_one(offsets):
    batches = [batch(offset, [commit(offset)]) for offset in offsets]
    assert join_pieces(scanned(*batches)) == scanned(b"".join(batches))


def test_pieces_are_joined_with_their_neighbours_of_the_same_file():
    batches = [batch(offset, [commit(offset)]) for offset in range(4)]
    first = scanned(*batches[:2])
    second = [piece._replace(file="g") for piece in scanned(*batches[2:])]
    assert join_pieces([*first, *second]) == [*join_pieces(first), *join_pieces(second)]
    assert [piece.file for piece in join_pieces([*first, *second])] == ["f", "g"]


FIRST = Scanned("f", 0, 10, 2, 3, 5, 7, 100, False, 90)
LATER = Scanned("f", 10, 20, 1, 4, 8, 12, 80, False, 70)
BOTH = Scanned("f", 0, 30, 3, 7, 5, 12, 100, False, 90)
NO_BATCH = {"batches": 0, "records": 0} | dict.fromkeys(
    ("first_offset", "last_offset", "max_timestamp", "first_timestamp"), -1
)


@pytest.mark.parametrize(
    ("first", "later", "joined"),
    [
        (FIRST, LATER, BOTH),
        (FIRST, LATER._replace(first_offset=9), BOTH._replace(gap=True)),
        (FIRST, LATER._replace(gap=True), BOTH._replace(gap=True)),
        (FIRST._replace(gap=True), LATER, BOTH._replace(gap=True)),
        (FIRST, LATER._replace(max_timestamp=101), BOTH._replace(max_timestamp=101)),
        (FIRST, LATER._replace(last_offset=6), BOTH._replace(last_offset=7)),
        (FIRST, LATER._replace(**NO_BATCH), FIRST._replace(bytes=30)),
        (FIRST._replace(**NO_BATCH), LATER, LATER._replace(position=0, bytes=30)),
    ],
)
def test_a_joined_piece_has_the_sums_the_first_and_the_greatest_of_its_pieces(first, later, joined):
    assert join_pieces([first, later]) == [joined]


@pytest.mark.parametrize("other", [{"file": "g"}, {"position": 11}, {"position": 9}])
def test_pieces_that_do_not_touch_stay_apart(other):
    pieces = [FIRST, LATER._replace(**other)]
    assert join_pieces(pieces) == pieces


def test_a_summary_has_the_sums_of_all_pieces_and_each_file_once():
    def piece(file, position, size, batches, records, first_offset):
        ends = first_offset, first_offset + records - 1
        return Scanned(file, position, size, batches, records, *ends, 100, False, 90)

    whole = [piece("a", 0, 11, 2, 5, 0), piece("a", 11, 13, 3, 7, 5), piece("b", 0, 17, 4, 9, 12)]
    cleaned = [piece("c", 0, 19, 6, 23, 4)]
    reads = {3: Read(whole, {77: 1, 78: 2}, ["one"], {})}
    reads[8] = Read(cleaned, {78: 4}, ["two", "three"], {"key": 7})
    summary = summarize(reads, 29, ("aside",))
    assert (summary.files, summary.bytes, summary.batches, summary.records) == (3, 60, 15, 44)
    assert (summary.groups, summary.partitions, summary.passed_over) == (29, 2, ("aside",))
    assert (summary.unknown_versions, summary.faults) == ({77: 1, 78: 6}, ("one", "two", "three"))
    assert (summary.more_faults, summary.fault_count) == ({"key": 7}, 10)
    assert (summary.trusted_from_ms, summary.pieces) == ({8: 90}, {3: whole, 8: cleaned})
