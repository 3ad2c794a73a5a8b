"""Commits below the log start offset: records were deleted that the group had not read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coterie.insight.groups.causes import counted
from coterie.insight.offsets.divergence import CommitAfter, EvidenceSource, with_evidence
from coterie.insight.records.partition_view import PartitionView

OUT_OF_RANGE = "out_of_range"
Row = dict[str, Any]


def below_log_start(
    view: PartitionView, log_starts: Mapping[tuple[str, int], int]
) -> Iterator[Row]:
    """Yield each committed offset below its partition's log start, with its commit.

    ``log_starts`` are older than the end of the log: what was deleted since may have been read.
    """
    yield from with_evidence(view, _commits_below(view, log_starts))


def _commits_below(
    view: PartitionView, log_starts: Mapping[tuple[str, int], int]
) -> Iterator[tuple[Row, EvidenceSource]]:
    if view.at_ms is not None:  # the group may have committed since
        return
    for group, state in view.group_rows.items():
        for row in state["offsets"]:
            place, offset = (row["topic"], row["partition"]), row["offset"]
            start = log_starts.get(place, 0)
            if offset >= start:
                continue
            yield (
                {
                    **{"kind": OUT_OF_RANGE, "group_id": group, "topic": place[0]},
                    **{"partition": place[1], "offset": offset, "log_start": start},
                    **{"lowest_offset": offset, "highest_offset": start, "loop": place[0]},
                    "detail": f"committed {offset}, the log starts at {start}: "
                    f"{lost_text(start - offset)}",
                },
                CommitAfter((group, *place), offset),
            )


def lost_text(count: int) -> str:
    return f"{counted(count, 'record')} deleted before the group read them"
