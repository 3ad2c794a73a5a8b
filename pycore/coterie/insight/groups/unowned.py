"""How long partitions had no owner, from the assignments of consecutive generations of a group.

A member of an eager group gives up all partitions when it joins again, and gets its next ones with
the generation's record. A member of a cooperative group says in its subscription which partitions
it still owns: those that stay with it are never without an owner; one that moves is given up after
one generation and assigned in the next. A member that is gone owned its partitions until it left
or was evicted. The time without any member does not count: ``explain`` shows it as such.

The log has the time of each generation, and when its joins were complete
(``currentStateTimestamp``). It does not have when a member gave up its partitions, so each time is
a bound: not before the record before, nor before the partition's last commit, and not longer before
the joins were complete than the longest rebalance timeout of the members.

Sources: ConsumerCoordinator.onJoinPrepare, ClassicGroup.rebalanceTimeoutMs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from coterie.base.consumer_protocol import owned_partitions, read_subscription
from coterie.errors import CorruptData

Place = tuple[str, int]
Row = dict[str, Any]


class Unowned(NamedTuple):
    """Partition-milliseconds without an owner until a generation, at least and at most.

    ``began_here`` partitions of these were given up in the rebalance of this generation, for at
    most ``here_most_ms`` together.
    """

    least_ms: int
    most_ms: int
    began_here: int
    here_most_ms: int

    def within(self, duration_ms: int) -> Unowned:
        """Return the bounds if it is known how long the rebalance took."""
        here_ms = min(self.here_most_ms, self.began_here * duration_ms)
        most_ms = self.most_ms - self.here_most_ms + here_ms
        return Unowned(min(self.least_ms, most_ms), most_ms, self.began_here, here_ms)


class Loss(NamedTuple):
    """When a partition lost its owner: not before, not after (ms; None: by the next joins)."""

    earliest_ms: int
    latest_ms: int | None
    here: bool


class OwnershipTracker:
    """Follows the owners of a group's partitions from record to record."""

    def __init__(self) -> None:
        self.owners: dict[Place, str] = {}
        self.unowned: dict[Place, Loss] = {}
        self.before_ms: int | None = None

    def take(
        self, record: Row, state: Row | None, commits: Mapping[Place, int] | None = None
    ) -> Unowned | None:
        """Take the next record; return what it ends, None: nothing is known.

        ``commits``: when each partition was last committed since the record before, ms.
        """
        at_ms = record["timestamp"]
        before_ms, self.before_ms = self.before_ms, at_ms
        assigned = assignments(state) if state else None
        if not assigned or state is None:
            self.owners, self.unowned = {}, {}
            return None
        owner_of = {place: member for member, places in assigned.items() for place in places}
        is_next = record["generation"] != record["previous_generation"]
        if at_ms is None or before_ms is None or at_ms < before_ms:
            self.owners, self.unowned = owner_of, {}
            return None
        new_id = {old: new for _, old, new in record["replaced"]}
        owners = {place: new_id.get(member, member) for place, member in self.owners.items()}
        if not is_next:  # a static member was replaced, or the record was written again
            self.owners = owner_of
            return None
        joined_ms = joins_complete(state, before_ms, at_ms)
        self._lose(state, owners, owner_of, (before_ms, joined_ms, at_ms), commits or {})
        ended = {place: loss for place, loss in self.unowned.items() if place in owner_of}
        self.unowned = {
            place: loss._replace(here=False)
            for place, loss in self.unowned.items()
            if place not in owner_of
        }
        self.owners = owner_of
        return sum_of(ended.values(), at_ms)

    def _lose(
        self,
        state: Row,
        owners: Mapping[Place, str],
        owner_of: Mapping[Place, str],
        times: tuple[int, int, int],
        commits: Mapping[Place, int],
    ) -> None:
        """Note the partitions that lost their owner before or with this generation."""
        before_ms, joined_ms, at_ms = times
        still_owned = {member["member_id"]: owned_at_join(member) for member in state["members"]}
        timeout_ms = max(member["rebalance_timeout_ms"] for member in state["members"])
        earliest_ms = max(before_ms, joined_ms - timeout_ms) if timeout_ms > 0 else before_ms
        cooperative = "cooperative" in (state["protocol"] or "")
        for place, loss in self.unowned.items():
            if loss.latest_ms is None:
                self.unowned[place] = loss._replace(latest_ms=joined_ms)
        for place, member in owners.items():
            # Its owner committed it, so it still had it.
            from_ms = min(max(earliest_ms, commits.get(place, 0)), joined_ms)
            if member not in still_owned:
                self.unowned[place] = Loss(from_ms, joined_ms, True)
            elif place not in still_owned[member]:
                # A cooperative member that does not say what it owns may have kept it.
                latest_ms = at_ms if cooperative and not still_owned[member] else joined_ms
                self.unowned[place] = Loss(from_ms, latest_ms, True)
            elif owner_of.get(place) != member:
                self.unowned[place] = Loss(at_ms, None, False)


def sum_of(losses: Any, at_ms: int) -> Unowned:
    """Return the times from losses of owners to a generation."""
    least_ms = most_ms = began_here = here_most_ms = 0
    for loss in losses:
        latest_ms = at_ms if loss.latest_ms is None else loss.latest_ms
        most = at_ms - min(loss.earliest_ms, at_ms)
        least_ms += at_ms - min(latest_ms, at_ms)
        most_ms += most
        if loss.here:
            began_here += 1
            here_most_ms += most
    return Unowned(min(least_ms, most_ms), most_ms, began_here, here_most_ms)


def joins_complete(state: Row, before_ms: int, at_ms: int) -> int:
    """Return when all members had joined a generation: when its group began to wait for a sync."""
    since_ms = state["current_state_timestamp"]
    return at_ms if since_ms is None else min(max(since_ms, before_ms), at_ms)


def assignments(state: Row) -> dict[str, set[Place]] | None:
    """Return the assigned partitions of each member; None: they cannot be read."""
    if state["protocol_type"] != "consumer":
        return None
    assigned: dict[str, set[Place]] = {}
    try:
        for member in state["members"]:
            assigned[member["member_id"]] = places_of(owned_partitions(member["assignment"]))
    except CorruptData:
        return None
    return assigned


def owned_at_join(member: Row) -> set[Place]:
    """Return the partitions that a member owned when it joined, by its subscription."""
    try:
        return places_of(read_subscription(member["subscription"]).owned)
    except CorruptData:
        return set()


def places_of(by_topic: Mapping[str, list[int]]) -> set[Place]:
    return {(topic, number) for topic, numbers in by_topic.items() for number in numbers}
