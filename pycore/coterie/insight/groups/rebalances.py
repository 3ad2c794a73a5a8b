"""The definition of a rebalance, for all questions (docs/explain.md).

A rebalance is a completed generation: the log has the group's record under a new number, because
the leader's assignment arrived or the last member left. Groups of the newer protocols have epochs
instead. A static member's replacement without a new generation is counted separately. Neither a
record that repeats its number nor a generation that never completed counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from coterie.insight.groups import protocol_switches
from coterie.insight.groups.epochs import EpochTimeline
from coterie.insight.records.group_log import GroupRecord
from coterie.insight.records.partition_view import GroupHistory, PartitionView

Row = dict[str, Any]


def is_rebalance(row: Mapping[str, Any]) -> bool:
    """Whether a row counts; it is of ``GroupHistory.generations`` or of a timeline."""
    return row.get("generation") not in (None, 0, row.get("previous_generation"))


def replacements(row: Mapping[str, Any]) -> int:
    """Return the number of static members that a timeline's row replaces without a rebalance."""
    causes = () if is_rebalance(row) else row.get("causes", ())
    return sum(cause["what"] == "replaced" for cause in causes)


def rebalances(
    view: PartitionView, history: GroupHistory | None, newer: Sequence[GroupRecord] = ()
) -> list[Row]:
    """Return the rows of a group's rebalances since ``view.complete_from_ms``.

    ``newer``: the group's records of a newer protocol; their rows follow the classic ones. A
    change of the protocol is no rebalance: the members keep their partitions until the next one.
    """
    return rebalances_of(view, history, *protocol_switches.epochs_of(history, newer))


def rebalances_of(
    view: PartitionView,
    history: GroupHistory | None,
    switched: Collection[int],
    of_newer: EpochTimeline,
) -> list[Row]:
    """Return :func:`rebalances` from :func:`protocol_switches.epochs_of`, without a replay."""
    classic = [] if history is None else history.generations
    rows = [row for index, row in enumerate(classic) if index not in switched]
    rows += of_newer.rows
    return [row for row in rows if is_rebalance(row) and counts(view, row)]


def counts(view: PartitionView, row: Mapping[str, Any]) -> bool:
    """Whether a record is of the requested time and the log is complete for it."""
    at_ms = row["timestamp"]
    return view.is_requested(at_ms, row["log_offset"]) and view.is_complete_at(at_ms)
