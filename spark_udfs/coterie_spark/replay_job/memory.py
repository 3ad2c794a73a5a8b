"""A worker that lives on gives back what its last task has freed.

Spark keeps its Python workers from task to task, under one limit of memory. The C library's heap
and Arrow's pool keep what was freed for the next call: half of what the largest task held.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable

__all__ = ["give_back"]


def give_back() -> None:
    """Give the system the memory that this process has freed, as far as the platform can."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = trim_of()
    if trim is not None:
        trim(0)


@functools.cache
def trim_of() -> Callable[[int], int] | None:
    """Return glibc's ``malloc_trim``; None: the C library is another."""
    if os.name != "posix":
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
