"""Return freed memory to the system after a task.

Spark reuses its Python workers from task to task, under one memory limit. The C library's heap and
Arrow's pool retain freed memory for the next call: half of what the largest task had used.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable

__all__ = ["give_back"]


def give_back() -> None:
    """Give freed memory of this process back to the system, if the platform supports it."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = trim_of()
    if trim is not None:
        trim(0)


@functools.cache
def trim_of() -> Callable[[int], int] | None:
    """Return glibc's ``malloc_trim``; None with another C library."""
    if os.name != "posix":
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
