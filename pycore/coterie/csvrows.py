"""Rows as CSV, whatever character a cell has: an offset's metadata may have any."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable
from typing import Any

# Before 3.11 the module takes NUL for the escape character that it was not given, and refuses a
# cell with a NUL. No file of UTF-8 has this one.
ESCAPE = None if sys.version_info >= (3, 11) else "\udfff"
ROW_END = "\r\n"  # the module quotes a cell with either of them, so a lone CR too


def line_writer() -> Callable[[Iterable[Any]], str]:
    """Return what makes a line of a row's cells; a cell is quoted only where it has to be."""
    # `writerow` gives what the `write` of its file gives, which it calls once a row.
    write: Callable[[Iterable[Any]], str] = csv.writer(
        Lines(), lineterminator=ROW_END, escapechar=ESCAPE
    ).writerow
    return write


class Lines:
    """Takes rows for a file's, and gives them back."""

    def write(self, row: str) -> str:
        """Return the row as a line."""
        return row.removesuffix(ROW_END) + "\n"
