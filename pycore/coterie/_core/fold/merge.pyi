from coterie._core.fold.fold_state import FoldState

def absorb(fold: FoldState, later: FoldState) -> None:
    """Add ``later``, the fold of what follows in the log, to ``fold``.

    ``later`` does not change. The result equals one scan over both pieces.
    """
