"""Old segments of a copy, replaced by what the broker's log has left of them.

A copy is not compacted, so it grows with every commit. The broker compacts its log: its records of
old offsets are the last ones of their keys. They are fetched again as one segment, which takes the
place of the old ones. A file's name says which while this is done, because no checksum covers the
offsets of batches. So a process that is killed meanwhile leaves the copy as it was, or old segments
beside the new one; :func:`drop_replaced` removes these.
Cost: what the broker has of the old offsets, each time that as much has become old.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.base.atomic_file import sync
from coterie.base.user_files import open_regular
from coterie.live.cluster_errors import Unavailable, refusal
from coterie.log.batch_headers import batch_headers, sound_headers
from coterie.values import Error

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLEANED = ".cleaned"  # as Kafka names a segment that its cleaner has not finished
SWAP = ".swap"  # of an empty file: the first segment replaces those before the offset of its name
OFFSET_MAX = 2**63 - 1
ATTRIBUTES_AT, DELETE_HORIZON = 22, 1 << 6  # the low byte of the attributes
Fetch = Callable[[int], Coroutine[Any, Any, dict[str, Any]]]


class OldSegments(NamedTuple):
    """The first segments of a copy, those behind them, and the offset at which these begin."""

    files: list[Path]
    others: list[Path]
    end: int


def segments_of(folder: Path) -> list[Path]:
    """Return the plain segments of a copy in log order."""
    return sorted(path for path in folder.glob("*.log") if path.stem.isdecimal())


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
    return OldSegments(segments[:count], segments[count:], int(segments[count].stem))


async def thin(old: OldSegments, log_start: int, fetch: Fetch, name: str) -> None:
    """Replace old segments by what the broker has left of their offsets.

    Parameters
    ----------
    old
        The segments.
    log_start
        The first offset of the broker's log. Offsets before it count as gone only if the broker
        also refuses to send them: no checksum covers what it says of its start.
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
    cleaned, swap = first.with_suffix(CLEANED), first.with_name(f"{old.end:020}{SWAP}")
    try:
        await write_cleaned(cleaned, log_start, old, fetch, name)
        shutil.copystat(old.files[-1], cleaned)  # as old as the newest of them
        swap.touch()
        sync(first.parent)
        cleaned.replace(first)
    except BaseException:
        swap.unlink(missing_ok=True)
        cleaned.unlink(missing_ok=True)  # a full disk needs its bytes
        raise
    sync(first.parent)  # before the others go
    drop_replaced(first.parent)


async def write_cleaned(
    path: Path, log_start: int, old: OldSegments, fetch: Fetch, name: str
) -> None:
    """Write the batches that the broker has of old segments.

    Compaction keeps the offsets of a batch, so each has to be one of those that it replaces.
    """
    known = np.concatenate([headers_of(file) for file in old.files])
    position = int(old.files[0].stem)
    with path.open("wb") as file:
        while position < old.end:
            row = await fetch(position)
            if row["errorCode"] == Error.OFFSET_OUT_OF_RANGE and position < log_start:
                position = log_start
                continue
            if row["errorCode"]:
                raise refusal(row["errorCode"], name, "READ")
            data = row["records"] or b""
            headers = sound_headers(data, is_response=True)
            is_old = headers["base_offset"] < old.end
            inside, beyond = headers[is_old], headers[~is_old][:1]
            log_end = row.get("highWatermark", OFFSET_MAX)
            if data and (not len(headers) or headers["last_offset"][-1] >= log_end):
                raise Unavailable(
                    f"{name}: the broker sends a damaged batch at offset {position:,}"
                )
            if not data or headers["last_offset"][-1] < position:
                raise Unavailable(f"{name}: the broker sends nothing of its log")
            is_known = are_left(inside, data, known)
            if is_known and len(beyond):  # else its damaged offset would end what is left
                base = int(beyond["base_offset"][0])
                segment = max(path for path in old.others if int(path.stem) <= base)
                is_known = are_left(beyond, data, headers_of(segment))
            if not is_known or (len(inside) and inside["last_offset"][0] < position):
                raise Unavailable(f"{name}: the broker sends batches that the copy never had")
            if len(inside):
                file.write(data[: int((inside["position"] + inside["size"])[-1])])
            position = int(headers["last_offset"][-1]) + 1
        file.flush()
        os.fsync(file.fileno())


def are_left(left: NDArray[Any], data: bytes, known: NDArray[Any]) -> bool:
    """Whether compaction may have left these batches of known ones.

    It changes the bytes of a batch only if it removes records or sets a delete horizon.
    """
    if not len(left) or not len(known):
        return not len(left)
    at = np.searchsorted(known["base_offset"], left["base_offset"])
    before = known[np.minimum(at, len(known) - 1)]
    is_there = np.all([left[name] == before[name] for name in ("base_offset", "last_offset")], 0)
    attributes = np.frombuffer(data, np.uint8)[left["position"] + ATTRIBUTES_AT]
    may_differ = (left["records"] < before["records"]) | ((attributes & DELETE_HORIZON) != 0)
    may_differ |= left["magic"] < 2  # a compressed message set counts as one record
    return bool(np.all(is_there & (may_differ | (left["crc"] == before["crc"]))))


def headers_of(file: Path) -> NDArray[Any]:
    with open_regular(file) as opened:
        if not os.fstat(opened.fileno()).st_size:
            return batch_headers(b"")
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return batch_headers(data)


def drop_replaced(folder: Path) -> None:
    """Remove the segments that the first one has replaced, but never the last, which grows.

    Nothing was replaced yet if the new file still has its own name.
    """
    cleaned = list(folder.glob(f"*{CLEANED}"))
    for swap in [path for path in folder.glob(f"*{SWAP}") if path.stem.isdecimal()]:
        for path in () if cleaned else segments_of(folder)[1:-1]:
            if int(path.stem) < int(swap.stem):
                path.unlink()
        sync(folder)
        swap.unlink()
        sync(folder)
    for path in cleaned:
        path.unlink()
