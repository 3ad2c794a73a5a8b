"""Kafka's assignors of the classic protocol: what a group's leader gives to each member.

The results are those of Kafka's client, down to the order in which a leader writes them. Where that
order comes from Java's hash tables, :func:`~coterie.testing.assignors.base.hash_order` computes it.
Where replicas have racks, ``range`` and the sticky ones match them with those of members.
"""

from __future__ import annotations

from coterie.testing.assignors.base import Assignor, Partitions
from coterie.testing.assignors.by_turns import RangeAssignor, RoundRobinAssignor
from coterie.testing.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = ["ASSIGNORS", "Assignor", "Partitions"]

ASSIGNORS: dict[str, type[Assignor]] = {
    each.name: each
    for each in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
