"""Compare the copies of a log that several brokers have: one row for each partition and copy.

The best copy of a partition has the history that the brokers retain: the highest last leader epoch,
then the highest end offset. Of equal ones it is the one with the fewest batches that cannot be
read, then the one with the most records, since compaction removed least from it, then the first.
Each other copy is compared with the best one, unless it is of another topic: the offsets topic was
deleted and created again. Threads compare the partitions of large logs.
Source: UnifiedLog.endOffsetForEpoch, AbstractFetcherThread (a follower truncates to the leader's
history).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from coterie.base.ordering import partition_order
from coterie.insight.records.common_prefix import Common, common_prefix
from coterie.insight.records.copy_tails import GROUP_FIELDS, Tail, tail_of
from coterie.insight.records.partition_copy import PartitionCopy
from coterie.insight.records.threads import Cancellation
from coterie.log.folders import Listing, Segment
from coterie.log.topic_id import newest_topic
from coterie.state.parallel_scan import UNIT_BYTES_MIN, cores
from coterie.state.replay_engine import Progress

BEST, SAME, BEHIND, DIVERGED, MISSING = "best", "same", "behind", "diverged", "missing"
OTHER_TOPIC = "other_topic"
Row = dict[str, Any]
EPOCH_FIELDS = {"epoch": "int32", "offset": "int64"}
FIELDS: dict[str, Any] = {
    "offsets_partition": "int32",
    "copy": "string",
    "folder": "string",
    "status": "string",
    "start_offset": "int64",
    "end_offset": "int64",
    "last_epoch": "int32",
    "epochs": [EPOCH_FIELDS],
    "common_until": "int64",
    "epoch_here": "int32",
    "epoch_there": "int32",
    "records_only_here": "int64",
    "commits_only_here": "int64",
    "generations_only_here": "int64",
    "records_lacking": "int64",
    "commits_lacking": "int64",
    "generations_lacking": "int64",
    "removed_here": "int64",
    "removed_there": "int64",
    "faults": "int64",
    "only_here": [GROUP_FIELDS],
    "lacking": [GROUP_FIELDS],
    "topic_id": "string",
}
NOTHING = Tail(0, None, [])


def compare(copies: Mapping[str, Listing], progress: Progress) -> Iterator[list[Row]]:
    """Yield the rows of each partition, one for each copy, in the order of the copies."""
    numbers = sorted(
        {number for listing in copies.values() for number in listing.partitions()},
        key=partition_order,
    )
    partitions = {name: listing.partitions() for name, listing in copies.items()}
    topic_id = newest_topic(some for listing in partitions.values() for some in listing.values())
    size = sum(listing.size for listing in copies.values())
    progress.total(size)

    def work(number: int | None) -> tuple[list[Row], int]:
        segments = {name: tuple(partitions[name].get(number, ())) for name in copies}
        read = sum(segment.size for some in segments.values() for segment in some)
        return compare_partition(number, segments, reading, topic_id), read

    threads = 1 if size < 2 * UNIT_BYTES_MIN else cores()
    reading = Cancellation()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for rows, read in pool.map(work, numbers):
                progress.advance(read)
                yield rows
        finally:
            reading.cancel()


def compare_partition(
    number: int | None,
    segments: Mapping[str, Sequence[Segment]],
    reading: Cancellation | None = None,
    topic_id: str | None = None,
) -> list[Row]:
    """Return the rows of one partition; ``topic_id``: of the topic of today, if there are two."""
    copies = [PartitionCopy(name, some, reading) for name, some in segments.items()]
    present = [copy for copy in copies if copy.segments and not is_of_other(copy, topic_id)]
    if not present:
        return [row_of(number, copy, None, None, 0) for copy in copies]
    best = max(present, key=lambda copy: (*rank(copy), copy.records))  # the first of equal ones
    equals = [copy for copy in present if rank(copy) == rank(best)]
    # Equal bytes are not read. So a copy with the damage of the best one counts as whole until it
    # is the best one itself, and meets a copy that is whole.
    compared: dict[str, dict[str, Common]] = {}
    while best.name not in compared:
        prefixes = {copy.name: common_prefix(copy, best) for copy in present if copy is not best}
        compared[best.name] = prefixes
        faults = {name: common.faults_here for name, common in prefixes.items()}
        for name, others in compared.items():
            faults[name] = max((common.faults_there for common in others.values()), default=0)
        best = max(equals, key=lambda copy: (-faults[copy.name], copy.records))
    return [
        row_of(number, copy, best, compared[best.name].get(copy.name), faults.get(copy.name, 0))
        for copy in copies
    ]


def is_of_other(copy: PartitionCopy, topic_id: str | None) -> bool:
    """Whether a copy is known to be of another topic than that with an id."""
    return None not in (copy.topic_id, topic_id) and copy.topic_id != topic_id


def rank(copy: PartitionCopy) -> tuple[int, int]:
    return copy.last_epoch, copy.end_offset


def row_of(
    number: int | None,
    copy: PartitionCopy,
    best: PartitionCopy | None,
    common: Common | None,
    faults: int,
) -> Row:
    """Return the row of a copy; ``common`` is what it has in common with the best one, if any."""
    own, lacking = NOTHING, NOTHING
    if best is None or common is None:
        status = BEST if copy is best else OTHER_TOPIC if copy.segments else MISSING
        common = Common(copy.end_offset, False, 0, 0, 0, 0)
        if best is not None and status == MISSING:
            lacking = tail_of(best, best.start_offset)
    else:
        own, lacking = tail_of(copy, common.until), tail_of(best, common.until)
        status = DIVERGED if common.is_split or own.records else SAME
        if status == SAME and lacking.records:
            status = BEHIND
    return {
        "offsets_partition": number,
        "copy": copy.name,
        "folder": copy.folder or None,
        "status": status,
        "start_offset": copy.start_offset if copy.segments else None,
        "end_offset": copy.end_offset if copy.segments else None,
        "last_epoch": copy.last_epoch if copy.spans else None,
        "epochs": epochs_of(copy),
        "common_until": None if status in (MISSING, OTHER_TOPIC) else common.until,
        "epoch_here": own.first_epoch,
        "epoch_there": lacking.first_epoch,
        "records_only_here": own.records,
        "commits_only_here": own.commits,
        "generations_only_here": own.generations,
        "records_lacking": lacking.records,
        "commits_lacking": lacking.commits,
        "generations_lacking": lacking.generations,
        "removed_here": common.removed_here,
        "removed_there": common.removed_there,
        "faults": copy.faults + faults,
        "only_here": own.groups,
        "lacking": lacking.groups,
        "topic_id": copy.topic_id,
    }


def epochs_of(copy: PartitionCopy) -> list[Row]:
    """Return the first known offset of each leader epoch."""
    first: dict[int, int] = {}
    for epoch, offset, _ in copy.spans:
        first[epoch] = min(offset, first.get(epoch, offset))
    return [{"epoch": epoch, "offset": offset} for epoch, offset in sorted(first.items())]
