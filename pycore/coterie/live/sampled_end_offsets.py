"""Sampled end offsets beside a log that is watched, and the lag by the last sample.

``coterie fetch --sample-end-offsets`` appends them to a file beside the folders of partitions. A
step reads what the file has grown by; only the last sample of each partition stays in memory.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

from coterie.base.user_files import open_regular
from coterie.insight.offsets.end_offsets import (
    OLD_SAMPLES_HEADING,
    SAMPLES_FILE,
    SAMPLES_HEADING,
    Sample,
    csv_rows,
)
from coterie.insight.offsets.log_starts import OUT_OF_RANGE
from coterie.insight.questions.lag import AHEAD, OK
from coterie.log.folders import Listing, unreadable

HEADINGS = (SAMPLES_HEADING, OLD_SAMPLES_HEADING)
NOT_KNOWN = Sample(None, None)
Row = dict[str, Any]


class EndOffsets:
    """The last sample of each partition, as of the files that were read.

    Attributes
    ----------
    last : dict
        By topic and partition.
    log_starts : dict
        The log start offset of each partition as of the sample before the last: the log may not
        have what was committed before the last one yet.
    """

    def __init__(self) -> None:
        self.last: dict[tuple[str, int], Sample] = {}
        self.log_starts: dict[tuple[str, int], int] = {}
        self._read: dict[str, tuple[int, int, str]] = {}  # of a file: number, bytes, heading

    def read(self, listing: Listing) -> bool:
        """Read what is new in the files beside a log's partitions; return whether there was any.

        A file with another heading is ignored.

        Raises
        ------
        CoterieError
            A file cannot be read, or has a wrong line.
        """
        folders = {os.path.dirname(os.path.dirname(segment.path)) for segment in listing.segments}
        return any([self._read_file(os.path.join(folder, SAMPLES_FILE)) for folder in folders])

    def _read_file(self, path: str) -> bool:
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                size, (number, known, heading) = status.st_size, self._read.get(path, (0, 0, ""))
                is_same = number == status.st_ino and known <= size  # it may be written anew
                start = known if is_same else 0
                file.seek(start)
                data = file.read(size - start)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unreadable(path, error) from error
        if start == 0:
            heading = next((text for text in HEADINGS if data.startswith(text.encode())), "")
            if not heading:
                return False
        whole = data.rfind(b"\n") + 1
        text = data[:whole].decode("utf-8", "replace")
        for key, sample in csv_rows(text if start == 0 else heading + text, path):
            before = self.last.get(key, NOT_KNOWN)
            starts = [one.start_offset or 0 for one in (before, sample)]  # a topic made anew: 0
            self.log_starts[key] = min(starts)
            self.last[key] = sample
        self._read[path] = status.st_ino, start + whole, heading
        return whole > 0

    def put_lags(self, rows: Iterable[Row]) -> None:
        """Set the end offset and the lag of rows of ``metrics``, by the last sample.

        The lag is the number of records before the sampled end offset that the group has not
        committed yet. A commit from before the sample that is beyond it has none, as for ``lag``.
        """
        for row in rows if self.last else ():
            sample = self.last.get((row["topic"], row["partition"]))
            if sample is None or sample.offset is None or row["offset"] is None:
                continue
            row["end_offset"] = sample.offset
            committed_ms, lag = row["commit_timestamp"], sample.offset - row["offset"]
            is_later = None not in (committed_ms, sample.time_ms) and committed_ms > sample.time_ms
            is_ahead = lag < 0 and not is_later
            row["lag"] = None if is_ahead else max(lag, 0)
            row["lag_status"] = AHEAD if is_ahead else OK

    def findings(self, rows: Iterable[Row]) -> Counter[tuple[str, ...]]:
        """Return the findings that samples show, by group and kind; one for each topic."""
        topics = {
            (row["group_id"], row["topic"])
            for row in (rows if self.last else ())
            if row["offset"] is not None
            and row["offset"] < self.log_starts.get((row["topic"], row["partition"]), 0)
        }
        return Counter((group, OUT_OF_RANGE) for group, _ in topics)
