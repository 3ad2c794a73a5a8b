"""Find in a broker's server log when it removed offsets by itself; no request shows that.

Expired offsets are removed by the broker's clean-up, and the offsets of a deleted topic some time
after the deletion. A line stands for one offsets partition since 4.0, and a trace's clean-up for
all of them: a group of another partition may go up to one check interval early.
Source: GroupMetadataManager.scala, GroupCoordinatorShard.java (the messages of both).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from coterie.base.log_layouts import LogReader

_REMOVED = re.compile(
    r"\[Group[^]]*\]:? (?:"
    r"Removed [1-9]\d* expired offsets"
    r"|Generated [1-9]\d* tombstone records while cleaning up group metadata"
    r"|Group .* transitioned to Dead in generation -?\d+"
    r"|Removed [1-9]\d* offsets associated with deleted partitions: (?P<deleted>.*?)\.(?:[\s\"]|$)"
    r"|Generated [1-9]\d* tombstone records in \d+ milliseconds while deleting offsets for "
    r"partitions \[(?P<shard_deleted>.*?)\])"
)


class Removal(NamedTuple):
    """When the broker removed offsets; without partitions: by its clean-up."""

    at_ms: float
    partitions: tuple[tuple[str, int], ...] = ()


def removals(lines: Iterable[str]) -> Iterator[Removal]:
    """Yield the removals in a server log, in order; equal ones of one millisecond once."""
    last = None
    for at_ms, match in LogReader().search(lines, _REMOVED):
        names = match["deleted"] or match["shard_deleted"] or ""
        pairs = (name.rpartition("-") for name in names.split(", ") if name)
        partitions = tuple(sorted((topic, int(number)) for topic, _, number in pairs))
        removal = Removal(at_ms, partitions)
        if removal != last:
            yield removal
        last = removal


def shows_deletion(seen: Collection[Removal], topic: str, since_ms: float) -> bool:
    """Return whether the offsets of a topic were removed at a known time, from this one on."""
    return any(
        at_ms >= since_ms - 1 and any(name == topic for name, _ in partitions)
        for at_ms, partitions in seen
    )
