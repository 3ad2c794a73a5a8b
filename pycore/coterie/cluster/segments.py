"""The segments of a copied partition: whole batches are appended, and a file rolls by its size.

Names and contents are those of Kafka: a segment is named by the offset at which it begins. A torn
tail, as of a process that was killed, is cut when the copy is opened again; so the copy always
ends with a whole batch.
Source of the names: LogFileUtils. Rules: docs/rules/log-format.md#segments.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from coterie._core.codec.batch import batch_boundaries
from coterie.errors import LogError
from coterie.log.batch_headers import sound_headers
from coterie.log.folders import SEGMENT_FILE

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["SEGMENT_BYTES", "Batches", "PartitionCopy", "sound_batches"]

SEGMENT_BYTES = 100 << 20  # offsets.topic.segment.bytes
HEADERS_BYTES = 64 << 10
SPAN_MAX = 2**31 - 1  # offsets of a segment: its index has them as int32


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


class PartitionCopy:
    """The files of one partition's copy, open for appending; a context manager.

    Parameters
    ----------
    folder
        The folder of the partition; made if it does not exist.
    segment_bytes
        The size at which a new segment begins.

    Attributes
    ----------
    next_offset : int or None
        The offset after the last batch; None: there is no segment yet.
    leader_epoch : int
        That of the last batch when the copy was opened; -1: none.
    cut_bytes : int
        The size of the torn tail that was cut.
    """

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder, self.segment_bytes = folder, segment_bytes
        self.next_offset: int | None = None
        self.leader_epoch = -1
        self.cut_bytes = 0
        self._path: Path | None = None
        self._base = self._size = 0
        self._file: int | None = None
        self._lock: int | None = None
        self._sync_error: OSError | None = None

    def __enter__(self) -> PartitionCopy:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._find_end()
        except BlockingIOError:
            self.close()
            raise LogError(f"{self.folder}: another process fetches into it") from None
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write everything to the disk, and close the files."""
        try:
            self.sync()
        finally:
            for number in (self._file, self._lock):
                if number is not None:
                    os.close(number)
            self._file = self._lock = None

    def sync(self) -> None:
        """Write what was appended to the disk.

        Raises
        ------
        OSError
            The disk failed, now or before: Linux reports it only once, but the bytes stay lost.
        """
        try:
            if self._file is not None and self._sync_error is None:
                os.fsync(self._file)
        except OSError as error:
            self._sync_error = type(error)(error.errno, error.strerror, str(self._path))
        if self._sync_error is not None:
            raise self._sync_error

    def _find_end(self) -> None:
        """Open the last segment behind its last whole batch."""
        segments = []
        for name in os.listdir(self.folder):
            match = SEGMENT_FILE.fullmatch(name)
            if match and match[1].isdigit():
                segments.append((int(match[1]), name, match[2]))
        if not segments:
            return
        base, name, compression = max(segments)
        if compression:
            raise LogError(f"{self.folder / name}: is compressed; the last segment must be plain")
        data = (self.folder / name).read_bytes()
        size, next_offset, self.leader_epoch = _good_end(data)
        file = self._open(base, self.folder / name)
        if size < len(data):
            self.cut_bytes = len(data) - size
            os.ftruncate(file, size)
        self._size = size
        self.next_offset = base if next_offset is None else next_offset

    def begin(self, offset: int) -> None:
        """Begin a segment at an offset: the first, or the first after a gap."""
        self.sync()
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._open(offset, self.folder / f"{offset:020}.log")
        self._size, self.next_offset = 0, offset

    def _open(self, base: int, path: Path) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(path, flags, 0o666)
        self._base, self._path = base, path
        return self._file

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
        file, rest = self._file, memoryview(data)
        assert file is not None, "it is closed"
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
