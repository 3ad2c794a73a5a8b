"""Segments of ``__consumer_offsets`` in plain folders: found, put in order, read, cut.

Knows names and files, not what a batch means. Only ``.log`` files count, as they are or
compressed as a whole (``.zst``, ``.gz``); what Kafka itself sets aside is named and left alone,
but for ``.deleted`` segments where they are asked for (``setaside``).
Source of the names: LogFileUtils, LocalLog (``-delete``, ``-stray``, ``-future``).
Rules: docs/rules/log-format.md#segments.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coterie._core.codec.reader import LogReader, batch_boundaries
from coterie.errors import LogError
from coterie.ordering import partition_order

if TYPE_CHECKING:
    from typing_extensions import Buffer

TOPIC = "__consumer_offsets"
PARTITION_FOLDER = re.compile(r"__consumer_offsets-([0-9]{1,9})")  # any more is no int32
ASIDE_FOLDER = re.compile(r"__consumer_offsets-[0-9]+\..*-(?:delete|stray|future)")
SEGMENT_FILE = re.compile(r"(.*)\.log(?:\.(zst|gz))?")
OFFSET_NAME = re.compile(r"[0-9]{20}")
DELETED = ".deleted"
ASIDE_FILE = (".swap", ".cleaned", DELETED)
MAP_FROM_BYTES = 64 << 20  # below, one read is as quick as a mapping and holds no file open
ASK_FOR = f"give a folder of {TOPIC}-N folders, one such folder, or a segment (.log)"


@dataclass(frozen=True)
class Segment:
    """One segment file.

    Attributes
    ----------
    path : str
        As the caller's path leads to it.
    partition : int or None
        The number of its folder's name; None for a file elsewhere.
    base_offset : int or None
        The number that is its name; None if that is none.
    size : int
        Bytes of the file as it lies there.
    compression : str or None
        ``zst`` or ``gz`` where the file is compressed as a whole.
    """

    path: str
    partition: int | None
    base_offset: int | None
    size: int
    compression: str | None

    @property
    def name(self) -> str:
        """The path as text that any output takes: bytes that are not UTF-8 are spelled out."""
        return self.path.encode("utf-8", "backslashreplace").decode("utf-8")

    @property
    def log_name(self) -> str:
        """The name of the ``.log`` file, also where it is compressed as a whole."""
        name = os.path.basename(self.path)
        return name if self.compression is None else name.removesuffix(f".{self.compression}")


@dataclass(frozen=True)
class Listing:
    """Segments by partition, then base offset; and what was named but left alone.

    ``deleted``: of that, the segments that Kafka has renamed to ``.deleted``.
    """

    segments: tuple[Segment, ...]
    passed_over: tuple[str, ...]
    deleted: tuple[Segment, ...] = ()

    def partitions(self) -> dict[int | None, list[Segment]]:
        """Return each partition's segments in log order, partitions in order of their number."""
        found: dict[int | None, list[Segment]] = {}
        for segment in self.segments:
            found.setdefault(segment.partition, []).append(segment)
        return found

    def partition_count(self) -> int | None:
        """Return how many partitions the topic has, if it is all here; None: that is not known."""
        numbers = list(self.partitions())
        return len(numbers) if numbers == list(range(len(numbers))) else None

    @property
    def size(self) -> int:
        """Bytes of all segments, as they lie there."""
        return sum(segment.size for segment in self.segments)


Log = Listing | Iterable[str | os.PathLike[str]]
"""LOG..., as given or as listed."""


def find_segments(log: Log, *, include_deleted: bool = False) -> Listing:
    """Return the segments that paths lead to; a listing as it is, so that a log is listed once.

    A path is a folder that holds ``__consumer_offsets-N`` folders, one such folder, or a segment
    file. A file that two paths lead to counts once.

    Parameters
    ----------
    log
        Where to look.
    include_deleted
        Read ``.deleted`` segments in place of what the cleaner made of them: Kafka keeps them for
        ``file.delete.delay.ms`` (a minute), and they hold what compaction took.

    Raises
    ------
    LogError
        A path leads nowhere, may not be read, or to nothing of the topic; or two folders hold
        the same partition.
    """
    if isinstance(log, Listing):
        return log
    found: dict[str, Segment] = {}
    aside: list[str] = []
    for path in log:
        for segment in _walk(os.fspath(path), aside):
            found.setdefault(os.path.realpath(segment.path), segment)
    listing = listing_of(found.values(), aside)
    deleted = sorted(
        map(_deleted_segment, filter(_is_deleted, listing.passed_over)), key=_log_order
    )
    listing = replace(listing, deleted=tuple(deleted))
    return with_deleted(listing) if include_deleted else listing


def listing_of(found: Iterable[Segment], aside: Iterable[str]) -> Listing:
    """Put segments in log order, wherever they were found.

    Raises
    ------
    LogError
        Two folders hold the same partition.
    """
    segments = sorted(found, key=_log_order)
    _refuse_two_copies(segments)
    kept: list[Segment] = []
    left = set(aside)
    for segment in segments:
        if kept and _same_twice(kept[-1], segment):
            left.add(segment.path)
        else:
            kept.append(segment)
    return Listing(tuple(kept), tuple(sorted(left)))


def with_deleted(listing: Listing) -> Listing:
    """Return a listing with ``.deleted`` segments in place of what the cleaner made of them.

    The cleaner makes one segment of several, under the name of the first; all of those are
    renamed at once. So the ``.deleted`` ones from a segment's name up to the next segment's stand
    for it if the first of them has its name. Else some are gone: then they are left alone.
    """
    bases = sorted({_log_order(one) for one in listing.segments if one.base_offset is not None})
    stand_for: dict[tuple[int, int], list[Segment]] = {}
    for segment in listing.deleted:
        at = bisect_right(bases, _log_order(segment)) - 1
        if at >= 0 and bases[at][0] == partition_order(segment.partition):
            stand_for.setdefault(bases[at], []).append(segment)
    read: list[Segment] = []
    used: set[str] = set()
    for segment in listing.segments:
        theirs = stand_for.get(_log_order(segment), [])
        if theirs and theirs[0].base_offset == segment.base_offset:
            read += theirs
            used.update(one.path for one in theirs)
        else:
            read.append(segment)
    return Listing(
        tuple(read),
        tuple(path for path in listing.passed_over if path not in used),
        tuple(one for one in listing.deleted if one.path not in used),
    )


def left_alone(paths: Iterable[str]) -> Iterator[str]:
    """Yield what to say of paths that were passed over: a line for each reason, with how many."""
    reasons: dict[str, list[str]] = {}
    for path in paths:
        name = os.path.basename(path)
        aside = name.endswith(ASIDE_FILE) or ASIDE_FOLDER.fullmatch(name)
        why = "set aside by Kafka" if aside else "the same segment lies beside it"
        reasons.setdefault(why, []).append(path)
    for why, theirs in reasons.items():
        if len(theirs) == 1:
            yield f"{theirs[0]}: left alone, {why}"
        else:
            yield f"{len(theirs):,} files left alone, {why} (the first: {theirs[0]})"


def _log_order(segment: Segment) -> tuple[int, int]:
    number = partition_order(segment.partition)
    return number, -1 if segment.base_offset is None else segment.base_offset


def _same_twice(one: Segment, other: Segment) -> bool:
    """Whether one folder holds a segment twice, as it is and compressed."""
    if one.partition is None or one.base_offset is None:
        return False
    return _log_order(one) == _log_order(other)


def _walk(path: str, aside: list[str]) -> list[Segment]:
    """Return the segments of one path of the caller's; what is set aside goes into ``aside``."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LogError(f"{path}: no such file or folder; {ASK_FOR}") from error
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not stat.S_ISDIR(mode):
        return [_named_file(path)]
    name = os.path.basename(os.path.abspath(path))
    if ASIDE_FOLDER.fullmatch(name):
        raise LogError(f"{path}: Kafka has set this folder aside, it is no live log; {ASK_FOR}")
    if PARTITION_FOLDER.fullmatch(name):
        return _partition_folder(path, aside)
    entries = _entries(path)
    folders = [e for e in entries if PARTITION_FOLDER.fullmatch(e) and _is_dir(path, e)]
    aside.extend(os.path.join(path, e) for e in entries if ASIDE_FOLDER.fullmatch(e))
    if not folders:
        what = f"no {TOPIC}-N folder in it" if entries else "an empty folder"
        raise LogError(f"{path}: {what}; {ASK_FOR}")
    segments = [s for e in folders for s in _partition_folder(os.path.join(path, e), aside, True)]
    if not segments:
        raise LogError(f"{path}: no segment (.log) in its {TOPIC}-N folders; {ASK_FOR}")
    return segments


def _is_dir(path: str, name: str) -> bool:
    return os.path.isdir(os.path.join(path, name))


def _entries(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: OSError | ValueError) -> LogError:
    """Return what to raise where a file or folder of a log cannot be read."""
    if isinstance(error, PermissionError):
        return LogError(f"{path}: no permission to read it; run as a user who may, or copy it")
    return LogError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def _partition_folder(path: str, aside: list[str], may_be_empty: bool = False) -> list[Segment]:
    match = PARTITION_FOLDER.fullmatch(os.path.basename(os.path.abspath(path)))
    assert match
    found = []
    for name in _entries(path):
        file = os.path.join(path, name)
        if name.endswith(ASIDE_FILE):
            aside.append(file)
        elif SEGMENT_FILE.fullmatch(name) and os.path.isfile(file):
            found.append(_segment(file, int(match[1])))
    if not found and not may_be_empty:
        raise LogError(f"{path}: no segment (.log) in it; {ASK_FOR}")
    return found


def _is_deleted(path: str) -> bool:
    """Whether a path is a segment that Kafka has renamed to be deleted, in a partition's folder."""
    name = os.path.basename(path)
    return bool(
        name.endswith(DELETED)
        and SEGMENT_FILE.fullmatch(name.removesuffix(DELETED))
        and PARTITION_FOLDER.fullmatch(os.path.basename(os.path.dirname(os.path.abspath(path))))
    )


def _deleted_segment(path: str) -> Segment:
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    match = PARTITION_FOLDER.fullmatch(folder)
    assert match
    return _segment(path, int(match[1]))


def _segment(path: str, partition: int | None) -> Segment:
    match = SEGMENT_FILE.fullmatch(os.path.basename(path).removesuffix(DELETED))
    assert match
    try:
        size = os.stat(path).st_size
        if not os.access(path, os.R_OK):
            raise PermissionError
    except OSError as error:
        raise unreadable(path, error) from error
    base = int(match[1]) if OFFSET_NAME.fullmatch(match[1]) else None
    return Segment(path, partition, base, size, match[2])


def _named_file(path: str) -> Segment:
    """Return the segment that a path of the caller's names."""
    name = os.path.basename(path)
    if name.endswith(ASIDE_FILE):
        raise LogError(f"{path}: Kafka has set this file aside, it is no live log; {ASK_FOR}")
    if not SEGMENT_FILE.fullmatch(name) or not os.path.isfile(path):
        raise LogError(f"{path}: not a log segment; {ASK_FOR}")
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    match = PARTITION_FOLDER.fullmatch(folder)
    segment = _segment(path, int(match[1]) if match else None)
    if match is None and segment.base_offset is None and not _begins_as_log(segment):
        raise LogError(f"{path}: not a log segment: no batch at its beginning; {ASK_FOR}")
    return segment


def _begins_as_log(segment: Segment) -> bool:
    """Whether a file of any name holds at least one batch that can be told, or nothing."""
    data = read_segment(segment)
    reader = LogReader(data)
    return next(reader, None) is not None or not memoryview(data).nbytes


def _refuse_two_copies(segments: list[Segment]) -> None:
    folder_of: dict[int, str] = {}
    for segment in segments:
        if segment.partition is None:
            continue
        folder = os.path.dirname(segment.path)
        first = folder_of.setdefault(segment.partition, folder)
        if os.path.realpath(first) != os.path.realpath(folder):
            raise LogError(
                f"partition {segment.partition} is in two folders, {first or '.'} and "
                f"{folder or '.'}: give one of them"
            )


def read_segment(segment: Segment) -> Buffer:
    """Return a segment's bytes, decompressed; a big file that is plain is mapped, not read.

    Raises
    ------
    LogError
        The file cannot be read, or is not what its ``.zst`` or ``.gz`` says.
    """
    try:
        with open(segment.path, "rb") as file:
            if segment.compression is None:
                # Reading large segments instead took twice as long. Filling the page tables
                # beforehand (MADV_POPULATE_READ) brought no gain.
                size = os.fstat(file.fileno()).st_size
                if size >= MAP_FROM_BYTES:
                    return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
                return file.read()
            return inflate(file.read(), segment)
    except OSError as error:
        raise unreadable(segment.path, error) from error


def inflate(data: bytes, segment: Segment) -> Buffer:
    """Return the bytes of a whole file decompressed; several frames or members may stand in it."""
    import cramjam

    if segment.compression is None:
        return data
    try:
        if segment.compression == "zst":
            return memoryview(cramjam.zstd.decompress(data))
        parts: list[bytes] = []
        while data or not parts:
            member = zlib.decompressobj(31)
            parts.append(member.decompress(data))
            if not member.eof:
                raise zlib.error("it ends too early")
            data = member.unused_data
        return b"".join(parts)
    except (cramjam.DecompressionError, zlib.error) as error:
        raise LogError(
            f"{segment.path}: not a whole .{segment.compression} file ({_first_line(error)}); "
            "copy it again"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def cut_points(data: Buffer, max_bytes: int) -> list[int]:
    """Return where to cut a segment's bytes into pieces of about ``max_bytes``.

    See ``coterie._core.codec.reader.batch_boundaries``.
    """
    return batch_boundaries(data, max_bytes)
