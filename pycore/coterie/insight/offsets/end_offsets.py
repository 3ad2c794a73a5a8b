"""Read end offsets of topics: lines of kafka-get-offsets, or samples over time.

The file has either lines ``topic:partition:offset``, as Kafka's tool prints them, without times;
or CSV under a heading with ``topic``, ``partition``, ``offset`` (or ``end_offset``) and, for
samples, ``time`` (or ``timestamp``): ISO 8601 with zone, or epoch ms. ``start_offset`` may have
the log start offset.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.base.times import parse_time
from coterie.base.user_files import read_text
from coterie.errors import CoterieError

LINE = re.compile(r"([^,]+):(-?\d+):(-?\d*)")
OFFSET_NAMES = ("offset", "end_offset", "log_end_offset")
TIME_NAMES = ("time", "timestamp")
START_NAME = "start_offset"
SAMPLES_FILE = "end-offsets.csv"  # of `coterie fetch --sample-end-offsets`
OLD_SAMPLES_HEADING = "time,topic,partition,offset\n"
SAMPLES_HEADING = "time,topic,partition,offset,start_offset\n"
HEADING = "give topic:partition:offset lines, or CSV under a heading: [time,]topic,partition,offset"
MAX_OFFSET = (1 << 63) - 1


class Sample(NamedTuple):
    """An end offset (None: not known) and its time (None: not given); the log start offset."""

    time_ms: int | None
    offset: int | None
    start_offset: int | None = None


@dataclass(frozen=True)
class EndOffsets:
    """Samples of each partition by time.

    Attributes
    ----------
    timed : bool
        Whether samples have times; False: each partition has one sample.
    samples : dict
        (topic, partition) -> its samples by ascending time.
    """

    timed: bool
    samples: dict[tuple[str, int], tuple[Sample, ...]] = field(default_factory=dict)


def read_end_offsets(path: str | os.PathLike[str]) -> EndOffsets:
    """Read end offsets from a file; see the module.

    An offset that is empty or -1 is not known. The last line for a partition and time counts.

    Raises
    ------
    CoterieError
        The file cannot be read, or has a wrong line; the message names it.
    """
    name = os.fspath(path)
    try:
        text = read_text(name)
    except OSError as error:
        raise CoterieError(f"{name}: cannot be read: {error.strerror}") from error
    except CoterieError as error:
        raise CoterieError(f"{name}: {error}") from None
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        raise CoterieError(f"{name}: nothing in it; {HEADING}")
    by_key: dict[tuple[str, int], dict[int | None, Sample]] = {}
    parse = _lines if LINE.fullmatch(first) else csv_rows
    for key, sample in parse(text, name):
        by_key.setdefault(key, {})[sample.time_ms] = sample
    samples = {
        key: tuple(by_time[time] for time in sorted(by_time, key=lambda ms: ms or 0))
        for key, by_time in by_key.items()
    }
    return EndOffsets(any(None not in by_time for by_time in by_key.values()), samples)


def _lines(text: str, file: str) -> Iterator[tuple[tuple[str, int], Sample]]:
    """Yield (topic, partition) and the sample of each line of kafka-get-offsets."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise _wrong(file, number, f"{line!r:.60} is not topic:partition:offset")
        topic, partition, offset = match.groups()
        key = topic, _partition(partition, file, number)
        yield key, Sample(None, _offset(offset, file, number))


def csv_rows(text: str, file: str) -> Iterator[tuple[tuple[str, int], Sample]]:
    """Yield (topic, partition) and the sample of each row of a CSV."""
    rows = csv.reader(io.StringIO(text))
    heading = [cell.strip().lower() for cell in next(row for row in rows if "".join(row).strip())]
    offset_name = next((name for name in OFFSET_NAMES if name in heading), None)
    time_name = next((name for name in TIME_NAMES if name in heading), None)
    if offset_name is None or not {"topic", "partition"} <= set(heading):
        raise _wrong(file, rows.line_num, HEADING)
    for cells in rows:
        if not "".join(cells).strip():
            continue
        number = rows.line_num
        if len(cells) != len(heading):
            raise _wrong(file, number, f"{len(cells)} cells, its heading has {len(heading)}")
        row = {name: cell.strip() for name, cell in zip(heading, cells, strict=True)}
        time = None if time_name is None else _time(row[time_name], file, number)
        if not row["topic"]:
            raise _wrong(file, number, "it names no topic")
        key = row["topic"], _partition(row["partition"], file, number)
        offsets = (row[offset_name], row.get(START_NAME, ""))
        yield key, Sample(time, *(_offset(text, file, number) for text in offsets))


def _partition(text: str, file: str, number: int) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) >= 1 << 31:
        raise _wrong(file, number, f"{text!r:.40} is no partition")
    return int(text)


def _offset(text: str, file: str, number: int) -> int | None:
    if text in ("", "-", "-1"):
        return None
    if not re.fullmatch(r"\d+", text) or int(text) > MAX_OFFSET:
        raise _wrong(file, number, f"{text!r:.40} is no offset")
    return int(text)


def _time(text: str, file: str, number: int) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise _wrong(file, number, str(error)) from error


def _wrong(file: str, number: int, what: str) -> CoterieError:
    return CoterieError(f"{file}: line {number}: {what}")
