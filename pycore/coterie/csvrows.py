"""Rows as CSV, whatever character a cell has: an offset's metadata may have any."""

from __future__ import annotations

import csv
import sys
from typing import Any, TextIO

# Before 3.11 the module takes NUL for the escape character that it was not given, and refuses a
# cell with a NUL. No file of UTF-8 has this one.
ESCAPE = None if sys.version_info >= (3, 11) else "\udfff"


def writer(out: TextIO, row_end: str) -> Any:
    """Return what writes a row; a cell is quoted only where it has to be."""
    return csv.writer(out, lineterminator=row_end, escapechar=ESCAPE)
