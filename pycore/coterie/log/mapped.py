"""Segments that are mapped into memory, and files that are truncated while they are read.

A broker truncates segments of a running log. In a mapping, the missing pages then read as zeros
(``coterie._core.mapping_guard``). :func:`intact` raises an error after such a reading, so that its
result never counts.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coterie._core.mapping_guard import MappingGuard
from coterie.errors import LogError

if TYPE_CHECKING:
    from typing_extensions import Buffer

OWNERS_MAX = 8  # views of views of a mapping


class MappedSegment(mmap.mmap):
    """A mapping of a whole file that a truncation does not turn into SIGBUS."""

    path: str
    guard: MappingGuard

    @classmethod
    def of(cls, path: str, file_number: int, size: int) -> MappedSegment:
        """Map the first ``size`` bytes of an open file; ``path`` names it in errors."""
        mapped = cls(file_number, size, access=mmap.ACCESS_READ)
        mapped.path = path
        mapped.guard = MappingGuard(mapped)
        return mapped

    def close(self) -> None:
        super().close()
        self.guard.close()


def truncated(name: str) -> LogError:
    """Build the error for a file that became shorter while it was read."""
    return LogError(f"{name}: was truncated while it was read; read it again, or a copy")


@contextmanager
def intact(data: Buffer, name: str | None = None) -> Iterator[None]:
    """Read a buffer, and raise at the end if it is a mapping of a file that was truncated.

    Parameters
    ----------
    data
        Bytes, a mapping, or a view of either.
    name
        The name of the file in errors; None: the path of a :class:`MappedSegment`.

    Raises
    ------
    LogError
        A page could not be read, or the file is now shorter than the mapping. What was read has to
        be dropped.
    """
    mapped = _mapping_of(data)
    if mapped is None:
        yield
        return
    if isinstance(mapped, MappedSegment):
        guard, name = mapped.guard, name or mapped.path
    else:
        guard = MappingGuard(mapped)
    try:
        yield
    finally:
        is_damaged = guard.is_damaged
        if not isinstance(mapped, MappedSegment):
            guard.close()
        name = name or "the mapped file"
        if mapped.size() < len(mapped):
            raise truncated(name)
        if is_damaged:
            raise LogError(
                f"{name}: cannot be read: {os.strerror(errno.EIO)}, or it was truncated while it "
                "was read; read it again, or a copy"
            )


def forget(data: Buffer, start: int, end: int) -> None:
    """Take pages of a mapping out of this process's memory; they are read again when needed.

    Bytes that are no mapping stay as they are.
    """
    mapped = _mapping_of(data)
    if mapped is not None:
        first = start // mmap.PAGESIZE * mmap.PAGESIZE
        mapped.madvise(mmap.MADV_DONTNEED, first, end - first)


def _mapping_of(data: Any) -> mmap.mmap | None:
    """Return the mapping behind views of it: memoryviews, arrays of numpy."""
    for _ in range(OWNERS_MAX):
        if isinstance(data, mmap.mmap):
            return data
        data = data.obj if isinstance(data, memoryview) else getattr(data, "base", None)
        if data is None:
            return None
    return None
