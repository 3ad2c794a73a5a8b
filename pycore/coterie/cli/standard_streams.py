"""Standard streams that were closed before the process began."""

from __future__ import annotations

import errno
import io
import os
import sys


class ClosedOutput(io.BufferedIOBase):
    """A standard output that was closed: each write fails, as in other commands."""

    def writable(self) -> bool:
        """Return True, although each write fails."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of standard output."""
        return 1

    def write(self, data: object, /) -> int:
        """Fail; OSError says that it is standard output."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard output")


def open_closed_streams() -> None:
    """Open the null device in place of each standard stream that was closed at the start.

    Otherwise the next file or socket gets the descriptor of the stream. uvloop aborts the process
    if that is a descriptor of its own, and messages end up in an output file. Reading a closed
    input finds nothing, writing to a closed output fails, and messages to a closed standard error
    are lost. Python's stream of a closed descriptor is None.
    """
    modes = os.O_RDONLY, os.O_RDONLY, os.O_WRONLY  # what writes to a closed output fails
    for descriptor, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            _open_null(descriptor, modes[descriptor])
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # until the process ends
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(ClosedOutput(), "utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _open_null(descriptor: int, flags: int) -> None:
    """Open the null device at a descriptor, unless something else is open there."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, flags)  # gets the lowest that is closed: the earlier ones are open
