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
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from coterie.cluster.errors import Unavailable, refusal
from coterie.cluster.segments import whole_batches
from coterie.log.batch_headers import batch_headers, last_headers

__all__ = ["OldSegments", "drop_replaced", "old_segments", "thin"]

CLEANED = ".cleaned"  # as Kafka names a segment that its cleaner has not finished
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
        await write_cleaned(cleaned, position, old.end, fetch, name)
    except BaseException:
        cleaned.unlink(missing_ok=True)  # a full disk needs its bytes
        raise
    shutil.copystat(old.files[-1], cleaned)  # as old as the newest of them
    cleaned.replace(first)
    sync_folder(first.parent)  # before the others go
    for path in old.files[1:]:
        path.unlink()


async def write_cleaned(path: Path, position: int, end: int, fetch: Fetch, name: str) -> None:
    """Write the batches that the broker has from a position on, up to an end."""
    with path.open("wb") as file:
        while position < end:
            row = await fetch(position)
            if row["errorCode"]:
                raise refusal(row["errorCode"], name, "READ")
            data = row["records"] or b""
            batches = whole_batches(data)
            if batches is None or batches.next_offset <= position:
                raise Unavailable(f"{name}: the broker sends nothing of its log")
            headers = batch_headers(memoryview(data)[: batches.size])
            inside = headers[headers["base_offset"] < end]
            file.write(data[: int((inside["position"] + inside["size"])[-1]) if len(inside) else 0])
            position = batches.next_offset
        file.flush()
        os.fsync(file.fileno())


def drop_replaced(folder: Path) -> None:
    """Finish what a process did not that was killed while it replaced segments."""
    for path in folder.glob(f"*{CLEANED}"):
        path.unlink()
    segments = segments_of(folder)
    if len(segments) < 2:
        return
    end = 0
    with segments[0].open("rb") as file:
        if os.fstat(file.fileno()).st_size:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                headers = last_headers(data)
            end = int(headers[-1]["last_offset"]) + 1 if len(headers) else 0
    for path in segments[1:]:
        if int(path.stem) < end:
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
