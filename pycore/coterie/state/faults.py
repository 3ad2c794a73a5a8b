"""The faults of a log: all that a state knows of them, and one as a line of text."""

from __future__ import annotations

from collections.abc import Iterator

from coterie._core.fold.fold_state import Fault, FoldState


def known_faults(fold: FoldState) -> Iterator[Fault]:
    """Yield the faults of a partition; the last ones count, by kind, those that it has no more."""
    yield from fold.faults
    for kind, count in sorted(fold.more_faults.items()):
        detail = f"and {count:,} more of this kind: coterie verify lists them"
        yield Fault(fold.faults[-1].file, None, None, kind, None, detail)


def fault_line(fault: Fault) -> str:
    """Return a fault as text: place, kind, detail."""
    where = fault.file if fault.position is None else f"{fault.file}: byte {fault.position}"
    if fault.offset is not None:
        where += f", offset {fault.offset}"
    elif fault.base_offset is not None:
        where += f", base offset {fault.base_offset}"
    return f"{where}: {fault.kind}: {fault.detail}"
