"""Which member of a consumer group has which partition, from record to record.

A member owns what its record of the current assignment has, and what it still has to give up. The
coordinator gives a partition to its next owner when the member before has given it up. So the log
has both times, and only one is a bound: a client stops reading a partition between the order to
give it up and its answer. The time without any member does not count, nor does that of a partition
that no member is to own.
Source: CurrentAssignmentBuilder, ConsumerGroup.addPartitionEpochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.insight.groups.causes import counted
from coterie.insight.records.group_log import GroupRecord

Place = tuple[str, int]  # topic id, number
Row = dict[str, Any]
REVOKING = "unrevoked_partitions"  # the state of a member that has to give up partitions


class Lost(NamedTuple):
    """When a partition lost its owner: not before, not after, ms."""

    earliest_ms: int
    latest_ms: int


class Revocation(NamedTuple):
    """A member that had to give up partitions.

    ``record`` says so, ``member`` is the member as of it. ``until_ms`` None: it had not by the end
    of the log; ``is_gone``: the member was gone then.
    """

    member: Row
    places: frozenset[Place]
    record: GroupRecord
    until_ms: int | None = None
    is_gone: bool = False

    def lasted_ms(self, end_ms: int) -> int:
        """Return how long it lasted; ``end_ms``: of the log."""
        return (end_ms if self.until_ms is None else self.until_ms) - self.record.timestamp

    @property
    def timed_out(self) -> bool:
        """Whether the member is gone, after its rebalance timeout; a classic member has none."""
        timeout_ms: int = self.member["rebalance_timeout_ms"]
        may_be_fenced = self.is_gone and self.member["upgraded"]
        return may_be_fenced and 0 <= timeout_ms <= self.lasted_ms(0)

    @property
    def timeout_text(self) -> str:
        """The partitions and the rebalance timeout of one that timed out, as text."""
        places = counted(len(self.places), "partition")
        timeout_ms = self.member["rebalance_timeout_ms"]
        return f"{places} within its rebalance timeout of {timeout_ms / 1000:.1f} s"


class OwnedPartitions:
    """Follows the partitions of the members of one group.

    ``ended`` gets the revocations that end, in order. ``revoking`` has the others, by member id.
    ``left_with`` has what each member that goes still owned.
    """

    def __init__(self, ended: list[Revocation]) -> None:
        self.ended = ended
        self.ended_last: Revocation | None = None  # by the last record
        self.owned: dict[str, frozenset[Place]] = {}
        self.targets: dict[str, frozenset[Place]] = {}
        self.target_counts: Counter[Place] = Counter()  # in the targets of how many members
        self.lost: dict[Place, Lost] = {}
        self.revoking: dict[str, Revocation] = {}
        self.left_with: dict[str, frozenset[Place]] = {}

    def take(self, record: GroupRecord, member_id: str, row: Row | None) -> tuple[int, int]:
        """Take a member's current assignment, None: it is gone.

        Return the partition-milliseconds without an owner that it ends: at least, at most.
        """
        at_ms = record.timestamp
        pending = frozenset() if row is None else places_of(row["pending_revocation"])
        now = pending if row is None else pending | places_of(row["current_assignment"])
        before = self.owned.pop(member_id, frozenset())
        if now:
            self.owned[member_id] = now
        if row is None:
            self.left_with[member_id] = before
        revocation, self.ended_last = self.revoking.get(member_id), None
        for place in before - now:
            was_revoked = revocation is not None and place in revocation.places
            since_ms = revocation.record.timestamp if revocation and was_revoked else at_ms
            self.lost[place] = Lost(min(since_ms, at_ms), at_ms)
        self._revoke(record, member_id, row, pending)
        least_ms = most_ms = 0
        for place in now - before:
            lost = self.lost.pop(place, None)
            if lost is not None and min(at_ms, lost.earliest_ms) >= 0:
                least_ms += max(at_ms - lost.latest_ms, 0)
                most_ms += max(at_ms - lost.earliest_ms, 0)
        return least_ms, most_ms

    def _revoke(
        self, record: GroupRecord, member_id: str, row: Row | None, pending: frozenset[Place]
    ) -> None:
        """End the member's revocation if it gave up what it had to, or is gone; begin the next."""
        before = self.revoking.get(member_id)
        if before is not None and not before.places & pending:
            ended = before._replace(until_ms=record.timestamp, is_gone=row is None)
            self.ended.append(ended)
            self.ended_last = ended
            del self.revoking[member_id]
        if row is not None and pending and member_id not in self.revoking:
            self.revoking[member_id] = Revocation(row, pending, record)

    def timed_out(self, member_id: str) -> str | None:
        """Return what a member that just went did not give up in time, as text; None: nothing."""
        last = self.ended_last
        if last is None or last.member["member_id"] != member_id or not last.timed_out:
            return None
        return last.timeout_text

    def take_target(self, member_id: str, row: Row | None) -> None:
        self.target_counts.subtract(self.targets.pop(member_id, ()))
        places = frozenset() if row is None else places_of(row["target_assignment"])
        if places:
            self.targets[member_id] = places
            self.target_counts.update(places)

    def target_computed(self) -> None:
        for place in [place for place in self.lost if self.target_counts[place] <= 0]:
            del self.lost[place]
        self.target_counts = +self.target_counts


def places_of(topics: Iterable[Row]) -> frozenset[Place]:
    return frozenset(
        (topic["topic_id"], number) for topic in topics for number in topic["partitions"]
    )
