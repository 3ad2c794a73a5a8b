"""The log that the benchmarks of decoding and folding share, and coterie's fold of it.

``golden/logs/wide`` (1,182,263 records, 93 MB) where it is there; a small log for the smoke run.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from coterie import scan
from coterie._core.fold.columns import decode_columns
from coterie._core.fold.fold import offset_columns
from support.golden_data import SHARED, segments


class Log(NamedTuple):
    """Segments of a log without transactions, whole in memory, and as files for the JVM."""

    segments: list[bytes]
    files: list[Path]


def read(folder, *, smoke):
    """Unpack the wide log's segments into a folder, or name the small log's."""
    wide = SHARED / "golden" / "logs" / "wide"
    if smoke or not wide.is_dir():
        files = [path for path in segments("default50") if path.stat().st_size]
        return Log([path.read_bytes() for path in files], files)
    cramjam, files = pytest.importorskip("cramjam"), []
    for path in sorted(wide.glob("*/*.zst")):
        files.append(folder / path.parent.name / path.stem)
        files[-1].parent.mkdir()
        files[-1].write_bytes(bytes(cramjam.zstd.decompress(path.read_bytes())))
    return Log([path.read_bytes() for path in files], files)


def records_of(log):
    return sum(len(decode_columns(data)["kind"]) for data in log.segments)


def fold(segments):
    """(keys with an offset, sum of the last offsets): the last plain record of a key counts."""
    keys = total = 0
    for data in segments:
        (one,) = scan(data).partitions.values()
        offsets = offset_columns(one)["offset"]
        keys += len(offsets)
        total += int(offsets.sum())
    return keys, total
