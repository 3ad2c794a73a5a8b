"""Old segments of a copy, replaced by what the broker's log has left of them.

A copy is not compacted, so it grows with every commit. The broker compacts its log: its records of
old offsets are the last ones of their keys. They are fetched again as one segment, which takes the
place of the old ones. A process that is killed meanwhile leaves the copy as it was, or old segments
beside the new one; :func:`drop_replaced` removes these.
Cost: what the broker has of the old offsets, each time that as much has become old.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.atomic_file import sync
from coterie.cluster.errors import Unavailable, refusal
from coterie.log.batch_headers import batch_headers, last_headers, sound_headers

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OldSegments", "drop_replaced", "old_segments", "thin"]

CLEANED = ".cleaned"  # as Kafka names a segment that its cleaner has not finished
OFFSET_MAX = 2**63 - 1
Fetch = Callable[[int], Coroutine[Any, Any, dict[str, Any]]]


class OldSegments(NamedTuple):
    """The first segments of a copy: their files, and the offset at which the next one begins."""

    files: list[Path]
    end: int


def segments_of(folder: Path) -> list[Path]:
    """Return the plain segments of a copy in log order."""
    return sorted(path for path in folder.glob("*.log") if path.stem.isdigit())


def old_segments(folder: Path, before_ms: int, least_bytes: int) -> OldSegments | None:
    """Return the segments that were last written before a time, if it is worth to replace them.

    It is if those behind the first one, which may have been replaced before, have as many bytes as
    it, and ``least_bytes``. The last segment, which grows, is never old.
    """
    segments = segments_of(folder)
    found = [path.stat() for path in segments]
    count = 0
    while count < len(segments) - 1 and found[count].st_mtime_ns // 1_000_000 < before_ms:
        count += 1
    size = sum(each.st_size for each in found[1:count])
    if not count or size < max(found[0].st_size, least_bytes):
        return None
    return OldSegments(segments[:count], int(segments[count].stem))


async def thin(old: OldSegments, log_start: int, fetch: Fetch, name: str) -> None:
    """Replace old segments by what the broker has left of their offsets.

    Parameters
    ----------
    old
        The segments.
    log_start
        The first offset of the broker's log.
    fetch
        Requests the batches from an offset on; returns the partition's part of the response.
    name
        The partition, for errors.

    Raises
    ------
    ClusterError
        The broker does not give them; the copy stays as it is.
    """
    first = old.files[0]
    cleaned = first.with_suffix(CLEANED)
    position = max(int(first.stem), log_start)
    try:
        await write_cleaned(cleaned, position, old, fetch, name)
    except BaseException:
        cleaned.unlink(missing_ok=True)  # a full disk needs its bytes
        raise
    shutil.copystat(old.files[-1], cleaned)  # as old as the newest of them
    cleaned.replace(first)
    sync(first.parent)  # before the others go
    for path in old.files[1:]:
        path.unlink()


async def write_cleaned(
    path: Path, position: int, old: OldSegments, fetch: Fetch, name: str
) -> None:
    """Write the batches that the broker has from a position on, up to an end.

    Compaction keeps the offsets of a batch, so each has to be one of those that it replaces.
    """
    known = {span for file in old.files for span in spans_of(headers_of(file))}
    with path.open("wb") as file:
        while position < old.end:
            row = await fetch(position)
            if row["errorCode"]:
                raise refusal(row["errorCode"], name, "READ")
            data = row["records"] or b""
            headers = sound_headers(data)
            inside = headers[headers["base_offset"] < old.end]
            log_end = row.get("highWatermark", OFFSET_MAX)
            if data and (not len(headers) or headers["last_offset"][-1] >= log_end):
                raise Unavailable(
                    f"{name}: the broker sends a damaged batch at offset {position:,}"
                )
            if not data or headers["last_offset"][-1] < position:
                raise Unavailable(f"{name}: the broker sends nothing of its log")
            if len(inside):
                if inside["last_offset"][0] < position or not known.issuperset(spans_of(inside)):
                    raise Unavailable(f"{name}: the broker sends batches that the copy never had")
                file.write(data[: int((inside["position"] + inside["size"])[-1])])
            position = int(headers["last_offset"][-1]) + 1
        file.flush()
        os.fsync(file.fileno())


def spans_of(headers: NDArray[Any]) -> Iterable[tuple[int, int]]:
    """Return the first and the last offset of batches."""
    return zip(headers["base_offset"].tolist(), headers["last_offset"].tolist(), strict=True)


def headers_of(file: Path, *, sound: bool = False) -> NDArray[Any]:
    """Return the headers of a segment's batches; ``sound``: none at all if one is damaged."""
    with file.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        if not size:
            return batch_headers(b"")
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            headers = sound_headers(data) if sound else batch_headers(data)
            is_whole = len(headers) and headers["position"][-1] + headers["size"][-1] == size
            return headers[:0] if sound and not is_whole else headers


def drop_replaced(folder: Path) -> None:
    """Finish what a process did not that was killed while it replaced segments.

    Only the segments that a sound first one has replaced go, and never the last, which grows.
    """
    for path in folder.glob(f"*{CLEANED}"):
        path.unlink()
    segments = segments_of(folder)
    if len(segments) < 3:
        return
    first, *others = segments
    with first.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            last = last_headers(data)
    end = int(last["last_offset"][-1]) + 1 if len(last) else 0
    replaced = [path for path in others if int(path.stem) < end]
    if replaced and others[-1] not in replaced and len(headers_of(first, sound=True)):
        for path in replaced:
            path.unlink()
