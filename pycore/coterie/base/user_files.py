"""Read files of any size or kind, with bounded memory.

A file that a user names may be endless (``/dev/zero``) or of another kind than intended. So a file
that is parsed as a whole has a maximum size, and a file that is read line by line a maximum length
of its lines. A pipe, as of ``<(command)``, is read like a file. Files that the user did not name,
such as those in the folder of a log, have to be regular. Text may be compressed by gzip, zstd, xz
or bzip2, and in UTF-8 or, after a byte order mark, UTF-16: the first bytes decide, whatever the
file's name. Errors do not contain the path: callers add it.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.errors import ArgumentError, CoterieError

FILE_BYTES_MAX = 256 << 20  # the end offsets of 100,000 partitions, 50 times
LINE_LENGTH_MAX = 64 << 20  # in characters; one request of a request log is a line
BLOCK_BYTES = 1 << 20
ZSTD = 4  # number of the codec
ZSTD_MAGIC, GZIP_MAGIC = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
XZ_MAGIC, BZIP2_MAGIC = b"\xfd7zXZ\0", b"BZh"
MARKED = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


class FileTooLarge(CoterieError):
    """A file, or one of its lines, is larger than the limit."""


class NotText(CoterieError):
    """A file is not text, or its compressed form is damaged."""


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

    Pipes, devices and sockets in its place do not block.
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


def read_text(path: str | Path) -> str:
    """Read a whole text file.

    Raises
    ------
    OSError
        The file cannot be read.
    FileTooLarge
        It has more than ``FILE_BYTES_MAX``, or is that large without its compression.
    NotText
        It is not text.
    """
    with _opened(path) as file:
        encoding = _encoding(file)
        return read_limited(file, FILE_BYTES_MAX).decode(encoding)


@contextlib.contextmanager
def open_lines(path: Path, errors: str = "strict") -> Iterator[Iterator[str]]:
    """Open a text file and yield an iterator over its lines.

    A file that zstd compressed is decompressed as a whole, in memory. The iterator raises as
    :func:`read_text`, and FileTooLarge for a line of more than ``LINE_LENGTH_MAX`` characters.
    ``errors``: what to do with bytes that are not text, as of ``bytes.decode``.
    """
    with _opened(path) as file, io.TextIOWrapper(file, _encoding(file), errors) as text:
        yield _lines(text)


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[io.BufferedReader[Any]]:
    """Open a file without its compression; raise NotText for bytes that are not text."""
    with open(path, "rb") as file:
        start = file.peek(len(XZ_MAGIC))
        try:
            if start.startswith(ZSTD_MAGIC):
                from coterie._core.codec.compression import decompress

                data = decompress(ZSTD, read_limited(file, FILE_BYTES_MAX))
                yield io.BufferedReader(io.BytesIO(data))
            elif start.startswith(GZIP_MAGIC):
                with io.BufferedReader(gzip.GzipFile(fileobj=file)) as unzipped:
                    yield unzipped
            elif start.startswith((XZ_MAGIC, BZIP2_MAGIC)):
                with _of_xz_or_bzip2(file, start) as unzipped:
                    yield unzipped
            else:
                yield file
        except UnicodeDecodeError as error:
            byte, encoding = error.object[error.start], error.encoding.upper()
            raise NotText(f"not text: the byte 0x{byte:02x} is not {encoding}") from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise NotText(f"its compressed form is damaged ({error}); copy it again") from error


@contextlib.contextmanager
def _of_xz_or_bzip2(file: io.BufferedReader[Any], start: bytes) -> Iterator[io.BufferedReader[Any]]:
    """Open a file without this compression; raise EOFError if it is damaged."""
    import bz2  # few files need them
    import lzma

    kind: Any = lzma.LZMAFile if start.startswith(XZ_MAGIC) else bz2.BZ2File
    try:
        with io.BufferedReader(kind(file)) as unzipped:
            yield unzipped
    except (lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise EOFError(str(error)) from error


def _encoding(file: io.BufferedReader[Any]) -> str:
    start = file.peek(3)
    return next((name for mark, name in MARKED if start.startswith(mark)), "utf-8")


def _lines(file: io.TextIOWrapper) -> Iterator[str]:
    number = 1
    while line := file.readline(LINE_LENGTH_MAX):
        if len(line) == LINE_LENGTH_MAX and line[-1] != "\n":
            limit = _size(LINE_LENGTH_MAX)
            raise FileTooLarge(f"line {number} is longer than {limit}; is this the right file?")
        yield line
        number += 1


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes} bytes"
