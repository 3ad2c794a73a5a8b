"""What counts as a rebalance: one definition for all questions (docs/explain.md).

A rebalance is a generation that completed: the group's record stands in the log under a new
number, because the leader's assignment came in or because the last member had gone. A group of a
newer protocol has epochs in their place. A static member's takeover that makes no generation
counts apart; a record that repeats its number, and a generation that never completed, do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.insight.groups import epochs, protocol_switches
from coterie.insight.records.group_log import GroupRecord
from coterie.insight.records.partition_view import Life, PartitionView

Row = dict[str, Any]


def is_rebalance(row: Mapping[str, Any]) -> bool:
    """Whether a record of a group counts: a row of ``Life.generations`` or of a timeline."""
    return row.get("generation") not in (None, 0, row.get("previous_generation"))


def replacements(row: Mapping[str, Any]) -> int:
    """Return how many static members a row of a timeline replaces without a rebalance."""
    causes = () if is_rebalance(row) else row.get("causes", ())
    return sum(cause["what"] == "replaced" for cause in causes)


def rebalances(
    view: PartitionView, life: Life | None, newer: Sequence[GroupRecord] = ()
) -> list[Row]:
    """Return the records of a group that count, since ``view.begins_ms``.

    ``newer``: its records of a newer protocol; they stand after the classic ones. A change of the
    protocol is none: the members keep what they have until the next rebalance.
    """
    changed = protocol_switches.switches(life, newer)
    classic = [] if life is None else life.generations
    rows = [row for index, row in enumerate(classic) if index not in changed]
    rows += epochs.timeline(newer, protocol_switches.told_epochs(changed, life))
    return [row for row in rows if is_rebalance(row) and counts(view, row)]


def counts(view: PartitionView, row: Mapping[str, Any]) -> bool:
    """Whether a record came in the time in which all is known that is asked for."""
    return view.is_asked(row["timestamp"]) and view.is_whole_at(row["timestamp"])
