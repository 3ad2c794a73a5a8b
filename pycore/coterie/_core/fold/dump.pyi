from typing import Any

from coterie._core.fold.fold_state import FoldState

def dump(fold: FoldState) -> tuple[Any, ...]:
    """Return the whole state of a fold as plain values that pickle."""

def restore(fold: FoldState, state: tuple[Any, ...]) -> None:
    """Fill an empty fold with the values that :func:`dump` returned.

    Raises
    ------
    coterie.CoterieError
        The fold is not empty.
    coterie.CorruptData
        The values do not fit each other or the options of the fold.
    """
