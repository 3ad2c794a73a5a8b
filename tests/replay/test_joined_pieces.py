"""Pieces of a segment that are joined again say of it what one reading of the whole says."""

import pytest

from coterie import PartialState, ScanOptions
from coterie.replay.pieces import join_pieces
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
