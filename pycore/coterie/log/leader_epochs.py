"""Leader epochs of a partition: which leader wrote which offsets.

Each election gives the partition's next leader a higher epoch, and a batch has the epoch of the
leader that appended it. So epochs of one history never fall as offsets rise; where those of two
copies contradict this, the copies have diverged before. A broker also keeps the first offset of
each epoch in ``leader-epoch-checkpoint``, which compaction does not change.
Source: LeaderEpochFileCache, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.base.user_files import FileTooLarge, read_regular
from coterie.log.batch_headers import NO_EPOCH
from coterie.log.trust import named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coterie.log.folders import Segment

CHECKPOINT = "leader-epoch-checkpoint"
CHECKPOINT_BYTES_MAX = 16 << 20
ENTRY = re.compile(r"(\d{1,10}) (\d{1,19})", re.ASCII)
HINT_FROM = 2
SHOWS_THEM = "`coterie compare` shows them, given its copy"
ANOTHER_LED = (
    f"another broker led in between, and may have records that this copy lacks; {SHOWS_THEM}"
)
RESTARTED = (
    "the partition's broker restarted, if it has the only replica; else another broker may have "
    f"led in between, with records that this copy lacks: {SHOWS_THEM}"
)
NO_OFFSET = -1


class EpochSpan(NamedTuple):
    """Offsets that were written under an epoch: at least these."""

    epoch: int
    first: int
    last: int


def spans_of(headers: NDArray[Any]) -> list[EpochSpan]:
    """Return the spans of batches, in log order; batches without an epoch have none."""
    headers = headers[headers["leader_epoch"] != NO_EPOCH]
    if not len(headers):
        return []
    starts = np.flatnonzero(np.diff(headers["leader_epoch"], prepend=NO_EPOCH))
    ends = np.append(starts[1:], len(headers)) - 1
    return [
        EpochSpan(int(head["leader_epoch"]), int(head["base_offset"]), int(tail["last_offset"]))
        for head, tail in zip(headers[starts], headers[ends], strict=True)
    ]


def checkpoint_spans(folder: str, end_offset: int) -> list[EpochSpan]:
    """Return the spans of a folder's checkpoint; none if there is none that can be read.

    An epoch whose leader wrote nothing has a span that ends before it begins. Epochs beyond
    ``end_offset`` are left out: the checkpoint was copied later than the segments.
    """
    try:
        data = read_regular(os.path.join(folder, CHECKPOINT), CHECKPOINT_BYTES_MAX)
        lines = data.decode("ascii").replace("\r\n", "\n").split("\n")
    except (OSError, ValueError, FileTooLarge):
        return []
    entries = [ENTRY.fullmatch(line) for line in lines[2:] if line]
    if lines[0] != "0" or None in entries:
        return []
    pairs = [(int(entry[1]), int(entry[2])) for entry in entries if entry is not None]
    pairs = [pair for pair in pairs if pair[1] <= end_offset]
    starts = [*(start for _, start in pairs), end_offset][1:]
    return [
        EpochSpan(epoch, start, next_start - 1)
        for (epoch, start), next_start in zip(pairs, starts, strict=True)
    ]


def first_contradiction(one: Iterable[EpochSpan], other: Iterable[EpochSpan]) -> int | None:
    """Return an offset up to which two histories may be the same, by their epochs; None: all.

    At the first offset of an epoch in one copy, the other must not have a lower epoch, nor later.
    """
    one, other = list(one), list(other)
    limits = [*_contradictions(one, other), *_contradictions(other, one)]
    return min(limits, default=None)


def _contradictions(one: list[EpochSpan], other: list[EpochSpan]) -> Iterator[int]:
    for epoch, first, last in one:
        if first <= last and any(
            span.epoch < epoch and first <= span.last >= span.first for span in other
        ):
            yield first


class EpochJumps:
    """Finds where the epoch of a log's batches rises by two or more: a hint, not a fault.

    Another broker has led in between, and wrote nothing, or wrote what this copy lacks. Or the
    partition has one replica, and its broker restarted: it raises the epoch once without a leader,
    and once as the leader again. Such epochs only rise by even numbers. Where offsets are missing,
    compaction may have removed the records of the epochs in between.
    Source: PartitionRegistration.merge (each change of the leader, also to none, raises it).
    """

    def __init__(self) -> None:
        self._last: dict[int | None, tuple[int, int]] = {}  # the last epoch, and the next offset
        self._lines: dict[int | None, list[str]] = {}
        self._several_led: set[int | None] = set()  # partitions with more replicas than one

    def add(self, segment: Segment, headers: NDArray[Any]) -> None:
        headers = headers[headers["leader_epoch"] != NO_EPOCH]
        if not len(headers):
            return
        epochs, next_offset = self._last.get(segment.partition, (NO_EPOCH, NO_OFFSET))
        before = np.concatenate([[epochs], headers["leader_epoch"][:-1]])
        follows = np.concatenate([[next_offset], headers["last_offset"][:-1] + 1])
        rise = headers["leader_epoch"] - before.astype(np.int64)
        if np.any((rise > 0) & (rise % 2 == 1) & (before != NO_EPOCH)):
            self._several_led.add(segment.partition)
        for at in np.flatnonzero((rise >= HINT_FROM) & (follows == headers["base_offset"])):
            self._lines.setdefault(segment.partition, []).append(
                f"the leader epoch rises from {before[at]} to {headers['leader_epoch'][at]} at "
                f"offset {headers['base_offset'][at]} ({segment.name}, byte "
                f"{headers['position'][at]})"
            )
        last = headers[-1]
        self._last[segment.partition] = int(last["leader_epoch"]), int(last["last_offset"]) + 1

    def lines(self) -> Iterator[str]:
        """Yield a line for each partition with such a place: the first, and how many there are."""
        for partition, places in self._lines.items():
            more = f" (the first of {len(places)} such places)" if len(places) > 1 else ""
            meaning = ANOTHER_LED if partition in self._several_led else RESTARTED
            yield f"{named(partition)}: {places[0]}{more}: {meaning}"
