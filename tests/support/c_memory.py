"""The memory that C code has allocated, as the C library counts it."""

import ctypes
from collections.abc import Callable

import pytest


class _Counts(ctypes.Structure):
    """``struct mallinfo2`` of glibc: what it has in blocks of its own, and what in mapped ones."""

    _fields_ = (
        ("others", ctypes.c_size_t * 4),
        ("hblkhd", ctypes.c_size_t),
        ("more", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("rest", ctypes.c_size_t * 2),
    )


def allocated() -> int:
    """Return the bytes that are allocated now; skips the test where the library cannot say."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("the C library does not count what it allocates")
    library.mallinfo2.restype = _Counts
    counts = library.mallinfo2()
    return counts.uordblks + counts.hblkhd


def left_by(call: Callable[[], object], times: int = 40) -> float:
    """Return the bytes that a call leaves allocated, on average."""
    for _ in range(10):  # what is made once, and the library's own store of small blocks
        call()
    left = []
    for _ in range(3):  # a leak is in each round; what other threads allocate is not
        before = allocated()
        for _ in range(times):
            call()
        left.append((allocated() - before) / times)
    return min(left)
