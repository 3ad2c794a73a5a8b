"""The segments of a copied partition: whole batches are appended, and a file rolls by its size.

Names and contents are those of Kafka: a segment is named by the offset at which it begins. A torn
tail, as of a process that was killed, is cut when the copy is opened again; so the copy always
ends with a whole batch.
Source of the names: LogFileUtils. Rules: docs/rules/log-format.md#segments.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from coterie._core.codec.batch import batch_boundaries
from coterie.base.user_files import open_regular, regular_file
from coterie.errors import LogError
from coterie.log.batch_headers import sound_headers
from coterie.log.folders import SEGMENT_FILE, unreadable

if TYPE_CHECKING:
    from typing_extensions import Buffer

SEGMENT_BYTES = 100 << 20  # offsets.topic.segment.bytes
HEADERS_BYTES = 64 << 10
OPEN_MAX = 64  # segments of all partitions: `ulimit -n` may be 256
SPAN_MAX = 2**31 - 1  # offsets of a segment: its index has them as int32


# No descriptor, or no space: other files may give some back.
PASSES = {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT}


class LostBytes(OSError):
    """The disk has not taken what was appended."""


def may_pass(error: OSError | LogError) -> bool:
    """Whether what was not written, or a file that could not be opened, can be later."""
    why = error.__cause__ if isinstance(error, LogError) else error
    return isinstance(why, OSError) and why.errno in PASSES and not isinstance(why, LostBytes)


class Batches(NamedTuple):
    """The sound batches at the beginning of a response's bytes.

    ``size`` is in bytes, ``next_offset`` is that of the record after them, ``leader_epoch`` is that
    of the last batch (-1: none).
    """

    size: int
    first_offset: int
    next_offset: int
    leader_epoch: int


def sound_batches(data: Buffer, *, is_response: bool = False) -> Batches | None:
    """Find the sound batches at the beginning of bytes, see ``sound_headers``; None: no batch."""
    headers = sound_headers(data, is_response=is_response)
    if not len(headers):
        return None
    first, last = headers[0], headers[-1]
    size, next_offset = int(last["position"] + last["size"]), int(last["last_offset"]) + 1
    return Batches(size, int(first["base_offset"]), next_offset, int(last["leader_epoch"]))


class CopyLock:
    """Locks the folder of a copy for this process, from :meth:`take` on; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number: int | None = None

    def take(self) -> None:
        """Make the folder if it does not exist, and lock it.

        Raises
        ------
        LogError
            Another process has locked it.
        """
        if self._number is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._number = os.open(self._folder, os.O_RDONLY)
            try:
                fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LogError(f"{self._folder}: another process fetches into it") from None

    def __enter__(self) -> CopyLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._number is not None:
            os.close(self._number)


class PartitionCopy:
    """The segments of one partition's copy, for appending; a context manager.

    Parameters
    ----------
    folder
        The folder of the partition; made if it does not exist.
    segment_bytes
        The size at which a new segment begins.
    opened
        The last segments that are open, of several copies, as descriptors: at most ``OPEN_MAX``.
        The one that was not used for the longest time is written to the disk and closed.

    Attributes
    ----------
    next_offset : int or None
        The offset after the last batch; None: there is no segment yet.
    leader_epoch : int
        That of the last batch when the copy was opened; -1: none.
    cut_bytes : int
        The size of the torn tail that was cut.
    """

    def __init__(
        self,
        folder: Path,
        segment_bytes: int = SEGMENT_BYTES,
        opened: dict[PartitionCopy, int] | None = None,
    ) -> None:
        self.folder, self.segment_bytes = folder, segment_bytes
        self.next_offset: int | None = None
        self.leader_epoch = -1
        self.cut_bytes = 0
        self._path: Path | None = None  # of the last segment
        self._base = self._size = 0
        self._opened = {} if opened is None else opened
        self._is_on_disk = True
        self._sync_error: LostBytes | None = None

    def __enter__(self) -> PartitionCopy:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._find_end()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        try:
            self.sync()
        finally:
            self._close_file()

    def sync(self) -> None:
        """Write what was appended to the disk.

        Raises
        ------
        LostBytes
            The disk failed, now or before: Linux reports it only once, but the bytes stay lost.
        """
        if not self._is_on_disk and self._sync_error is None:
            number = self._file()
            try:
                os.fsync(number)
                self._is_on_disk = True
            except OSError as error:
                self._sync_error = LostBytes(error.errno, error.strerror, str(self._path))
        if self._sync_error is not None:
            raise self._sync_error

    def _file(self) -> int:
        """Return the last segment, open for appending; it counts as used now."""
        number = self._opened.pop(self, None)
        if number is None:
            while len(self._opened) >= OPEN_MAX:
                other = next(iter(self._opened))
                with contextlib.suppress(OSError):  # its next `sync` raises it again
                    other.sync()
                other._close_file()
            assert self._path is not None, "begin first"
            number = regular_file(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._opened[self] = number
        return number

    def _close_file(self) -> None:
        number = self._opened.pop(self, None)
        if number is not None:
            os.close(number)

    def _find_end(self) -> None:
        """Find the last whole batch of the last segment, and cut what is behind it."""
        segments = []
        for name in os.listdir(self.folder):
            match = SEGMENT_FILE.fullmatch(name)
            if match and match[1].isdecimal():
                segments.append((int(match[1]), name, match[2]))
        if not segments:
            return
        self._base, name, compression = max(segments)
        self._path = self.folder / name
        if compression:
            raise LogError(f"{self._path}: is compressed; the last segment must be plain")
        try:
            with open_regular(self._path) as file:
                data = file.read()
        except OSError as error:
            raise unreadable(str(self._path), error) from error
        self._size, next_offset, self.leader_epoch = _good_end(data)
        self.cut_bytes = len(data) - self._size
        if self.cut_bytes:
            os.truncate(self._path, self._size)
        self._is_on_disk = False  # the process before may have been killed
        self.next_offset = self._base if next_offset is None else next_offset

    def begin(self, offset: int) -> None:
        """Begin a segment at an offset: the first, or the first after a gap."""
        self.sync()
        self._close_file()
        self._base, self._path = offset, self.folder / f"{offset:020}.log"
        self._size, self.next_offset, self._is_on_disk = 0, offset, True
        self._file()  # if that fails, the next append makes it
        self._is_on_disk = False

    def append(self, data: memoryview | bytes, next_offset: int) -> None:
        """Append whole batches, and leave none of them if they cannot be written.

        Raises
        ------
        OSError
            There is no space; the copy ends as before.
        """
        assert self.next_offset is not None, "begin first"
        is_full = self._size + len(data) > self.segment_bytes
        if self._size and (is_full or next_offset - self._base > SPAN_MAX):
            self.begin(self.next_offset)
        file, rest = self._file(), memoryview(data)
        self._is_on_disk = False
        try:
            while rest:
                rest = rest[os.write(file, rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(file, self._size)
            raise type(error)(error.errno, error.strerror, str(self._path)) from None
        self._size += len(data)
        self.next_offset = next_offset


def _good_end(data: bytes) -> tuple[int, int | None, int]:
    """Return the size of a segment up to its last sound batch, and that one's end and epoch."""
    cuts = batch_boundaries(data, HEADERS_BYTES)
    for begin, end in zip(reversed(cuts[:-1]), reversed(cuts), strict=False):
        found = sound_batches(memoryview(data)[begin:end])
        if found is not None:
            return begin + found.size, found.next_offset, found.leader_epoch
    return 0, None, -1
