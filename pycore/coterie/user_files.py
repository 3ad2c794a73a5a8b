"""Read files of any size or kind, with bounded memory.

A file that a user names may be endless (``/dev/zero``) or of another kind than intended. So a file
that is parsed as a whole has a maximum size, and a file that is read line by line a maximum length
of its lines. A pipe, as of ``<(command)``, is read as a file is. A file that nobody has named, as
in the folder of a log, has to be regular. Errors do not contain the path: callers add it.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from coterie.errors import ArgumentError, CoterieError

__all__ = [
    "FileTooLarge",
    "open_lines",
    "open_regular",
    "read_bytes",
    "read_regular",
    "read_text",
    "regular_file",
]

FILE_BYTES_MAX = 256 << 20  # the end offsets of 100,000 partitions, 50 times
LINE_LENGTH_MAX = 64 << 20  # in characters; one request of a request log is a line
BLOCK_BYTES = 1 << 20
ZSTD = 4  # number of the codec


class FileTooLarge(CoterieError):
    """A file, or one of its lines, is larger than the limit."""


def read_bytes(path: str | Path, max_bytes: int = FILE_BYTES_MAX) -> bytes:
    """Read a whole file.

    Raises
    ------
    OSError
        The file cannot be read.
    FileTooLarge
        The file has more than ``max_bytes``.
    """
    with open(path, "rb", buffering=0) as file:
        return read_limited(file, max_bytes)


def read_regular(path: str | Path, max_bytes: int = FILE_BYTES_MAX) -> bytes:
    """Read a whole file as :func:`read_bytes`; raise OSError if it is not regular."""
    with open_regular(path) as file:
        return read_limited(file, max_bytes)


def open_regular(path: str | Path) -> io.BufferedReader:
    """Open a file to read it; raise OSError if it is not regular."""
    return open(path, "rb", opener=regular_file)


def regular_file(path: str | Path, flags: int, mode: int = 0o666) -> int:
    """Open a file as ``os.open``; raise OSError if it is not regular.

    A pipe, a device or a socket in the place of a file is not waited for.
    """
    number = os.open(path, flags | os.O_NONBLOCK, mode)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return number


def check_private(file: io.RawIOBase, what: str, path: str | Path) -> None:
    """Refuse a file that others may read; a file of root may be readable by its group.

    Container platforms mount secrets in that way. ``what`` names the file in the error.
    """
    status = os.fstat(file.fileno())
    others = 0o007 if status.st_uid == 0 != os.geteuid() else 0o077
    if stat.S_IMODE(status.st_mode) & others:
        raise ArgumentError(f"{what}: others may read it; run chmod 600 {path}")


def read_limited(file: io.RawIOBase | io.BufferedReader, max_bytes: int) -> bytes:
    """Read an open file to its end; see :func:`read_bytes`."""
    blocks, size = [], 0
    while block := file.read(min(BLOCK_BYTES, max_bytes + 1 - size)):
        blocks.append(block)
        size += len(block)
        if size > max_bytes:
            raise FileTooLarge(f"larger than {_size(max_bytes)}; is this the right file?")
    return b"".join(blocks)


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """Read a whole text file; raise UnicodeDecodeError, or as :func:`read_bytes`."""
    return read_bytes(path).decode(encoding)


@contextlib.contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a text file and yield an iterator over its lines; ``.gz``, ``.zst`` are decompressed.

    A ``.zst`` file is decompressed as a whole, in memory. The iterator raises FileTooLarge for a
    line of more than ``LINE_LENGTH_MAX`` characters.
    """
    openers: dict[str, Callable[..., IO[str]]] = {".gz": gzip.open, ".zst": _open_zst}
    opener = openers.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8") as file:
        yield _lines(file)


def _open_zst(path: Path, mode: str, encoding: str) -> IO[str]:
    from coterie._core.codec.compression import decompress

    return io.TextIOWrapper(io.BytesIO(decompress(ZSTD, read_bytes(path))), encoding)


def _lines(file: IO[str]) -> Iterator[str]:
    number = 1
    while line := file.readline(LINE_LENGTH_MAX):
        if len(line) == LINE_LENGTH_MAX and line[-1] != "\n":
            limit = _size(LINE_LENGTH_MAX)
            raise FileTooLarge(f"line {number} is longer than {limit}; is this the right file?")
        yield line
        number += 1


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes} bytes"
