"""Rows as CSV, with any character in a cell: an offset's metadata may contain all of them."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable
from typing import Any

# Before Python 3.11, a csv.writer without an escape character refuses a cell with a NUL. This
# escape character cannot occur: it has no form in UTF-8.
ESCAPE = None if sys.version_info >= (3, 11) else "\udfff"
ROW_END = "\r\n"  # csv quotes cells that contain either character, so a lone CR is quoted too


def line_writer() -> Callable[[Iterable[Any]], str]:
    """Return a function from a row's cells to its line; it quotes a cell only if necessary."""
    # `writerow` returns the result of its file's `write`, which it calls once per row.
    write: Callable[[Iterable[Any]], str] = csv.writer(
        Lines(), lineterminator=ROW_END, escapechar=ESCAPE
    ).writerow
    return write


class Lines:
    """A file for ``csv.writer`` whose ``write`` returns the row."""

    def write(self, row: str) -> str:
        """Return the row as a line, ended by a newline alone."""
        return row.removesuffix(ROW_END) + "\n"
