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
