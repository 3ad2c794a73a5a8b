"""A fault of a log as one line of text."""

from __future__ import annotations

from coterie._core.fold.fold_state import Fault


def fault_line(fault: Fault) -> str:
    """Return a fault as text: place, kind, detail."""
    where = fault.file if fault.position is None else f"{fault.file}: byte {fault.position}"
    if fault.offset is not None:
        where += f", offset {fault.offset}"
    elif fault.base_offset is not None:
        where += f", base offset {fault.base_offset}"
    return f"{where}: {fault.kind}: {fault.detail}"
