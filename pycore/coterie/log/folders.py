"""Find, order, read and cut the segments of ``__consumer_offsets`` in folders.

Only ``.log`` files count, plain or compressed as a whole (``.zst``, ``.gz``). Files that Kafka has
renamed are listed, but not read; ``.deleted`` segments are read if requested.
Source of the names: LogFileUtils, LocalLog (``-delete``, ``-stray``, ``-future``).
Rules: docs/rules/log-format.md#segments.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coterie._core.codec.batch import LogReader, batch_boundaries
from coterie.base.ordering import partition_order
from coterie.base.user_files import open_regular
from coterie.errors import LogError
from coterie.log.mapped import MappedSegment, intact, truncated

if TYPE_CHECKING:
    from typing_extensions import Buffer

TOPIC, SHARE_STATE = "__consumer_offsets", "__share_group_state"
PARTITION_FOLDER = re.compile(r"__consumer_offsets-([0-9]{1,9})")  # more digits exceed int32
SHARE_STATE_FOLDER = re.compile(r"__share_group_state-([0-9]{1,9})")
ASIDE_FOLDER = re.compile(r"__consumer_offsets-[0-9]+\..*-(?:delete|stray|future)")
SEGMENT_FILE = re.compile(r"(.*)\.log(?:\.(zst|gz))?")
OFFSET_NAME = re.compile(r"[0-9]{20}")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
LOCAL_URL = re.compile("^file:/+")
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
        The path, below the caller's path.
    partition : int or None
        The number in the folder's name; None for a file in another folder.
    base_offset : int or None
        The number in the file's name; None if there is none.
    size : int
        The size of the file when it was listed, in bytes; it is read up to there.
    compression : str or None
        ``zst`` or ``gz`` if the file is compressed as a whole.
    origin : str or None
        Shown in place of the folder of a temporary copy: what it is a copy of.
    """

    path: str
    partition: int | None
    base_offset: int | None
    size: int
    compression: str | None
    origin: str | None = None

    @property
    def name(self) -> str:
        """The path as printable text; bytes that are not UTF-8 are escaped."""
        shown = self.path
        if self.origin is not None:
            folder, file = os.path.split(self.path)
            shown = "/".join((self.origin, os.path.basename(folder), file))
        return shown.encode("utf-8", "backslashreplace").decode("utf-8")

    @property
    def log_name(self) -> str:
        """The name of the file without ``.zst`` or ``.gz``."""
        name = os.path.basename(self.path)
        return name if self.compression is None else name.removesuffix(f".{self.compression}")


@dataclass(frozen=True)
class Listing:
    """The segments of a log, in order of partition and base offset.

    Attributes
    ----------
    segments : tuple of Segment
        The segments to read.
    passed_over : tuple of str
        Paths that are not read.
    deleted : tuple of Segment
        The segments among ``passed_over`` that Kafka has renamed to ``.deleted``.
    is_joined : bool
        Whether all partitions are read as one log, the last one's (``coterie.log.joined``).
    """

    segments: tuple[Segment, ...]
    passed_over: tuple[str, ...]
    deleted: tuple[Segment, ...] = ()
    is_joined: bool = False

    def joined(self, order: Iterable[int | None]) -> Listing:
        """Return some partitions as one log, the oldest first, with the number of the last."""
        own = self.partitions()
        segments = tuple(segment for number in order for segment in own[number])
        return Listing(segments, (), is_joined=True)

    def partitions(self) -> dict[int | None, list[Segment]]:
        """Return the segments of each partition in log order, partitions by number."""
        if self.is_joined:
            return {self.segments[-1].partition: list(self.segments)}
        by_partition: dict[int | None, list[Segment]] = {}
        for segment in self.segments:
            by_partition.setdefault(segment.partition, []).append(segment)
        return by_partition

    def partition_count(self) -> int | None:
        """Return the number of the topic's partitions; None if some may be missing."""
        numbers = list(self.partitions())
        return len(numbers) if numbers == list(range(len(numbers))) else None

    @property
    def size(self) -> int:
        """The size of all segment files, in bytes."""
        return sum(segment.size for segment in self.segments)


Log = Listing | Iterable[str | os.PathLike[str]]
"""LOG...: paths, or a listing of them."""


def is_url(path: str) -> bool:
    """Whether a path is a URL of one of Hadoop's file systems, which only Spark reads."""
    return URL.match(path) is not None


def local_path(path: str) -> str:
    """Return the path of a URL ``file:``; any other path or URL unchanged."""
    return LOCAL_URL.sub("/", path)


def find_segments(log: Log, *, include_deleted: bool = False) -> Listing:
    """List the segments of paths; return a listing unchanged.

    A path is a folder with ``__consumer_offsets-N`` folders, one such folder, or a segment file. A
    file that is reached by two paths counts once.

    Parameters
    ----------
    log
        The paths.
    include_deleted
        Read ``.deleted`` segments in place of the segments that the cleaner made of them. They
        contain the records that compaction removed; Kafka keeps them for ``file.delete.delay.ms``
        (a minute).

    Raises
    ------
    LogError
        A path does not exist, cannot be read or has no segments of the topic, or two folders
        have the same partition.
    """
    if isinstance(log, Listing):
        return log
    by_real_path: dict[str, Segment] = {}
    aside: list[str] = []
    for path in log:
        found = _walk(os.fspath(path), aside)
        if os.path.isdir(path):  # a file that is named may be damaged from its first byte on
            _refuse_other_files(path, found)
        for segment in found:
            by_real_path.setdefault(os.path.realpath(segment.path), segment)
    listing = listing_of(by_real_path.values(), aside)
    deleted = sorted(
        map(_deleted_segment, filter(_is_deleted, listing.passed_over)), key=_log_order
    )
    listing = replace(listing, deleted=tuple(deleted))
    return with_deleted(listing) if include_deleted else listing


def find_share_state(paths: Iterable[str]) -> Listing:
    """List the segments of ``__share_group_state-N`` folders, if there are.

    A path is a folder with such folders, beside those of a log for example, or one such folder.

    Raises
    ------
    LogError
        A file cannot be read, or two folders have the same partition.
    """
    segments: dict[str, Segment] = {}
    aside: list[str] = []
    for path in filter(os.path.isdir, paths):
        own = SHARE_STATE_FOLDER.fullmatch(os.path.basename(os.path.abspath(path)))
        for folder in [path] if own else [os.path.join(path, name) for name in _entries(path)]:
            match = own or SHARE_STATE_FOLDER.fullmatch(os.path.basename(folder))
            if match and _is_there(folder, os.path.isdir, "a folder"):
                for segment in _segments_in(folder, int(match[1]), aside):
                    segments.setdefault(os.path.realpath(segment.path), segment)
    return listing_of(segments.values(), aside)


def listing_of(unordered: Iterable[Segment], aside: Iterable[str]) -> Listing:
    """Return a listing of segments in log order, without duplicates.

    Raises
    ------
    LogError
        Two folders have the same partition.
    """
    segments = sorted(unordered, key=_log_order)
    _refuse_two_copies(segments)
    unique: list[Segment] = []
    passed_over = set(aside)
    for segment in segments:
        if unique and _is_same_segment(unique[-1], segment):
            passed_over.add(segment.path)
        else:
            unique.append(segment)
    return Listing(tuple(unique), tuple(sorted(passed_over)))


def with_deleted(listing: Listing) -> Listing:
    """Return a listing with ``.deleted`` segments in place of their cleaned segment.

    The cleaner makes one segment of several, with the name of the first, and renames all of them
    at once. So a cleaned segment is replaced by the ``.deleted`` ones from its base offset to that
    of the next segment. The first must have the same base offset; otherwise some are already
    gone, and none is used.
    """
    bases = sorted(
        {_log_order(segment) for segment in listing.segments if segment.base_offset is not None}
    )
    originals: dict[tuple[int, int], list[Segment]] = {}
    for segment in listing.deleted:
        at = bisect_right(bases, _log_order(segment)) - 1
        if at >= 0 and bases[at][0] == partition_order(segment.partition):
            originals.setdefault(bases[at], []).append(segment)
    read: list[Segment] = []
    for segment in listing.segments:
        replaced = originals.get(_log_order(segment), [])
        if replaced and replaced[0].base_offset == segment.base_offset:
            read += replaced
        else:
            read.append(segment)
    used = {segment.path for segment in read}
    return Listing(
        tuple(read),
        tuple(path for path in listing.passed_over if path not in used),
        tuple(segment for segment in listing.deleted if segment.path not in used),
    )


def left_alone(paths: Iterable[str]) -> Iterator[str]:
    """Yield the lines about paths that were passed over: one per reason."""
    reasons: dict[str, list[str]] = {}
    for path in paths:
        name = os.path.basename(path)
        aside = name.endswith(ASIDE_FILE) or ASIDE_FOLDER.fullmatch(name)
        why = "set aside by Kafka" if aside else "the same segment lies beside it"
        reasons.setdefault(why, []).append(path)
    for why, group in reasons.items():
        if len(group) == 1:
            yield f"{group[0]}: left alone, {why}"
        else:
            yield f"{len(group):,} files left alone, {why} (the first: {group[0]})"


def _log_order(segment: Segment) -> tuple[int, int]:
    number = partition_order(segment.partition)
    return number, -1 if segment.base_offset is None else segment.base_offset


def _is_same_segment(first: Segment, second: Segment) -> bool:
    """Return whether two files are one segment, plain and compressed."""
    if first.partition is None or first.base_offset is None:
        return False
    return _log_order(first) == _log_order(second)


def _walk(path: str, aside: list[str]) -> list[Segment]:
    """Return the segments of one path; add the files that Kafka has renamed to ``aside``."""
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
        segments = _partition_folder(path, aside)
        if not segments:
            raise LogError(f"{path}: no segment (.log) in it; {ASK_FOR}")
        return segments
    entries = _entries(path)
    folders = [
        e
        for e in entries
        if PARTITION_FOLDER.fullmatch(e)
        and _is_there(os.path.join(path, e), os.path.isdir, "a folder")
    ]
    aside.extend(os.path.join(path, e) for e in entries if ASIDE_FOLDER.fullmatch(e))
    if not folders:
        what = f"no {TOPIC}-N folder in it" if entries else "an empty folder"
        raise LogError(f"{path}: {what}; {ASK_FOR}")
    segments = [s for e in folders for s in _partition_folder(os.path.join(path, e), aside)]
    if not segments:
        raise LogError(f"{path}: no segment (.log) in its {TOPIC}-N folders; {ASK_FOR}")
    return segments


def _is_there(path: str, is_kind: Callable[[str], bool], kind: str) -> bool:
    """Whether a listed path is still there; raise LogError if it is of another kind.

    To leave it out, as a link to nothing, would answer without its records.
    """
    if is_kind(path):
        return True
    if os.path.lexists(path):
        raise LogError(f"{path}: is not {kind}; move it away, or bring back what it leads to")
    return False


def _entries(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: OSError | ValueError) -> LogError:
    """Build the error for a file or folder of a log that cannot be read."""
    if isinstance(error, PermissionError):
        return LogError(f"{path}: no permission to read it; run as a user who may, or copy it")
    if isinstance(error, FileNotFoundError):
        return LogError(
            f"{path}: cannot be read: No such file or directory; Kafka deletes segments while a "
            "log is read: run it again, or read a copy"
        )
    return LogError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def _partition_folder(path: str, aside: list[str]) -> list[Segment]:
    match = PARTITION_FOLDER.fullmatch(os.path.basename(os.path.abspath(path)))
    assert match
    return _segments_in(path, int(match[1]), aside)


def _segments_in(path: str, partition: int, aside: list[str]) -> list[Segment]:
    segments = []
    for name in _entries(path):
        file = os.path.join(path, name)
        if name.endswith(ASIDE_FILE):
            aside.append(file)
        elif SEGMENT_FILE.fullmatch(name) and _is_there(file, os.path.isfile, "a regular file"):
            segments.append(_segment(file, partition))
    return segments


def _is_deleted(path: str) -> bool:
    """Return whether a path that was passed over is a ``.deleted`` segment."""
    name = os.path.basename(path)
    return name.endswith(DELETED) and bool(SEGMENT_FILE.fullmatch(name.removesuffix(DELETED)))


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
    """Return whether a file with any name begins with a batch, or is empty."""
    data = read_segment(segment)
    with intact(data):
        return next(LogReader(data), None) is not None or not memoryview(data).nbytes


def _refuse_other_files(path: str | os.PathLike[str], segments: list[Segment]) -> None:
    """Raise LogError if none of the files can be a segment, as text under the names of segments.

    A batch begins with its offset, in eight bytes: no log gets to an offset whose first is not 0.
    If a damaged file has batches all the same, they are read.
    """
    filled = [segment for segment in segments if segment.size]
    if filled and not any(
        segment.compression or _begins_with_0(segment) or _begins_as_log(segment)
        for segment in filled
    ):
        raise LogError(f"{path}: none of its .log files is a log segment; {ASK_FOR}")


def _begins_with_0(segment: Segment) -> bool:
    try:
        with open_regular(segment.path) as file:
            return file.read(1) in (b"\0", b"")
    except OSError as error:
        raise unreadable(segment.path, error) from error


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
                f"{folder or '.'}: give one of them; `coterie compare` shows how they differ"
            )


def read_segment(
    segment: Segment, *, in_memory: bool = False, map_from_bytes: int | None = None
) -> Buffer:
    """Return a segment's bytes, decompressed; a large plain file is mapped into memory.

    The file is read up to its listed size: what a broker appends meanwhile is not in the listing,
    so a second reading has the same bytes.

    Read a mapped file inside :func:`coterie.log.mapped.intact`, which raises if another process
    truncated it. With ``in_memory``, no file is mapped; that takes twice the time. Large is from
    ``map_from_bytes`` on, by default :data:`MAP_FROM_BYTES`.

    Raises
    ------
    LogError
        The file cannot be read or decompressed, or was truncated meanwhile.
    """
    try:
        with open_regular(segment.path) as file:
            size = segment.size
            if os.fstat(file.fileno()).st_size < size:
                raise truncated(segment.path)
            large = MAP_FROM_BYTES if map_from_bytes is None else map_from_bytes
            if segment.compression is None and size >= large and not in_memory:
                # Reading large segments took twice as long. Reading pieces into one buffer took a
                # third longer. MADV_POPULATE_READ brought no gain.
                return MappedSegment.of(segment.path, file.fileno(), size)
            data = file.read(size)
    except OSError as error:
        raise unreadable(segment.path, error) from error
    if len(data) < size:
        raise truncated(segment.path)
    return data if segment.compression is None else inflate(data, segment)


def inflate(data: bytes, segment: Segment) -> Buffer:
    """Decompress a whole file, which may have several frames or members."""
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
            f"{segment.path}: not a whole .{segment.compression} file ({error}); copy it again"
        ) from error


def cut_points(data: Buffer, max_bytes: int) -> list[int]:
    """Return the positions that cut a segment into pieces of about ``max_bytes``.

    See ``coterie._core.codec.batch.batch_boundaries``.
    """
    return batch_boundaries(data, max_bytes)
