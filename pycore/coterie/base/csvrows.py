"""Rows as CSV, with any character in a cell: an offset's metadata may contain all of them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from typing import Any

ROW_END = "\r\n"  # csv quotes cells that contain either character, so a lone CR is quoted too


def line_writer() -> Callable[[Iterable[Any]], str]:
    """Return a function from a row's cells to its line; it quotes a cell only if necessary."""
    # `writerow` returns the result of its file's `write`, which it calls once per row.
    write: Callable[[Iterable[Any]], str] = csv.writer(Lines(), lineterminator=ROW_END).writerow
    return write


class Lines:
    """A file for ``csv.writer`` whose ``write`` returns the row."""

    def write(self, row: str) -> str:
        """Return the row as a line, ended by a newline alone."""
        return row.removesuffix(ROW_END) + "\n"
