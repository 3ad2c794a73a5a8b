"""A log of any size: the wide log's records again and again, under later base offsets.

    python benchmarks/make_big_log.py DIR [--gb 10] [--from ../shared/golden/logs/wide]

Each partition's batches are repeated with the base offsets moved on, which stands outside the
checksum, and cut into segments of 100 MB at batch boundaries, as a broker rolls them. The keys
are those of one copy: what grows is the number of records a key.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np

from coterie.log.folders import Segment, cut_points, find_segments, read_segment

SEGMENT_BYTES = 100_000_000
LAST_OFFSET_DELTA_AT = 23


def batch_starts(data: np.ndarray) -> np.ndarray:
    """Byte positions of the batches."""
    return np.array(cut_points(data, 1)[:-1], dtype=np.int64)


def big_endian(data: np.ndarray, at: np.ndarray, width: int) -> np.ndarray:
    """Integers of ``width`` bytes at the positions."""
    raw = np.ascontiguousarray(data[at[:, None] + np.arange(width)])
    return raw.view(f">i{width}").ravel().astype(np.int64)


def write_partition(segments: list[Segment], folder: Path, size_bytes: int) -> int:
    """Write copies up to ``size_bytes`` and a piece; return how many bytes they are."""
    data = np.concatenate([np.frombuffer(read_segment(s), dtype=np.uint8) for s in segments])
    starts = batch_starts(data)
    bases = big_endian(data, starts, 8)
    span = int(bases[-1] + big_endian(data, starts[-1:] + LAST_OFFSET_DELTA_AT, 4)[0]) + 1
    header = starts[:, None] + np.arange(8)
    cuts = cut_points(data, min(SEGMENT_BYTES, size_bytes))
    base_at = dict(zip(starts.tolist(), bases.tolist(), strict=True))
    folder.mkdir(parents=True)
    written, file, in_file = 0, None, 0
    for copy in itertools.count():
        if written >= size_bytes:
            break
        data[header] = (bases + copy * span).astype(">i8").view(np.uint8).reshape(-1, 8)
        for start, end in itertools.pairwise(cuts):
            if written >= size_bytes:
                break
            if file is None or in_file + end - start > SEGMENT_BYTES:
                if file is not None:
                    file.close()
                name = f"{base_at[start] + copy * span:020d}.log"
                file = open(folder / name, "wb")  # noqa: SIM115
                in_file = 0
            file.write(data[start:end])
            in_file += end - start
            written += end - start
    if file is not None:
        file.close()
    return written


def write(source: Path, out: Path, size_bytes: int, most: int | None = None) -> int:
    """Write copies of a log's partitions, the first ``most`` of them; return how many bytes."""
    partitions = find_segments([source]).partitions()
    chosen = dict(itertools.islice(partitions.items(), most))
    return sum(
        write_partition(segments, out / f"__consumer_offsets-{number}", size_bytes // len(chosen))
        for number, segments in chosen.items()
    )


def main() -> None:
    """Write the log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--gb", type=float, default=10.0)
    shared = Path(__file__).parents[2] / "shared"
    parser.add_argument("--from", dest="log", type=Path, default=shared / "golden/logs/wide")
    options = parser.parse_args()
    if not options.log.exists():
        sys.exit(f"{options.log}: no such folder; --from names a log to repeat")
    total = write(options.log, options.out, int(options.gb * 1e9))
    print(f"{options.out}: {total / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
