"""Split a log into more segments, for tests of reading segment by segment."""

from pathlib import Path

from coterie._core.codec.batch import LogReader
from coterie.log.folders import find_segments


def in_small_segments(log, home, count=1 << 30):
    """Write each partition of a log as about ``count`` segments, cut between batches.

    Returns the new folder, without the partitions that have no batch.
    """
    for number, segments in find_segments([log]).partitions().items():
        folder = Path(home) / f"__consumer_offsets-{number}"
        for segment in segments:
            data = Path(segment.path).read_bytes()
            batches = list(LogReader(data, check_crc=False))
            size = max(len(batches) // count, 1)
            for first in range(0, len(batches), size):
                some = batches[first : first + size]
                folder.mkdir(parents=True, exist_ok=True)
                name = f"{some[0].base_offset:020d}.log"
                end = some[-1].position + some[-1].size
                (folder / name).write_bytes(data[some[0].position : end])
    return Path(home)
