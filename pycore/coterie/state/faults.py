"""A fault that a fold met, in words."""

from __future__ import annotations

from typing import Any


def fault_line(fault: tuple[Any, ...]) -> str:
    """Return a fault in words: where, what."""
    file, position, base_offset, kind, offset, detail = fault
    where = file if position is None else f"{file}: byte {position}"
    if offset is not None:
        where += f", offset {offset}"
    elif base_offset is not None:
        where += f", base offset {base_offset}"
    return f"{where}: {kind}: {detail}"
