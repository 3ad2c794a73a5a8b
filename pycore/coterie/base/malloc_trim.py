"""What the C library's heap keeps of freed memory, for processes that live long.

A process that frees what a task took otherwise keeps half of it for the next one, in a heap for
each thread. Only glibc has these options; with another C library the functions do nothing.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
OWN_PAGES_BYTES = 128 << 10  # a larger block goes back to the system when it is freed


def keep_little() -> None:
    """Let all threads of this process share one heap, which keeps little of what is freed."""
    set_option = _of_libc("mallopt")
    if set_option is not None:
        for option, value in (
            (M_ARENA_MAX, 1),
            (M_MMAP_THRESHOLD, OWN_PAGES_BYTES),  # by itself, it would rise
            (M_TRIM_THRESHOLD, OWN_PAGES_BYTES),
        ):
            set_option(option, value)


def can_trim() -> bool:
    return _of_libc("malloc_trim") is not None


def trim() -> None:
    """Give freed memory of this process back to the system."""
    if can_trim():
        _of_libc("malloc_trim")(0)


@functools.cache
def _of_libc(name: str) -> Any:
    """Return a function of the C library; None if it has none of this name."""
    return getattr(ctypes.CDLL(None), name, None) if os.name == "posix" else None
