from coterie._core.fold.fold_state import FoldState

def absorb(fold: FoldState, later: FoldState) -> None:
    """Add ``later``, the fold of what follows in the log, to ``fold``.

    ``later`` does not change. The result equals one scan over both pieces.
    """

def settle_removed(fold: FoldState, of_4x: bool) -> None:
    """Drop the commits that a tombstone removed (``of_4x``: pending ones, too).

    Then no tombstone counts any more, so the fold of another partition may follow.
    """
