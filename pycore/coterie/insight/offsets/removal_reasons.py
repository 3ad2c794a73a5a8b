"""Why offsets were removed, as far as the records show: the one place that decides.

An offset is removed because it expired, because a tool deleted it or its group, or because its
topic was deleted. In short (the rules of expiry: docs/rules/offsets.md#expiration):

- Kafka 0.9 to 2.0 write an expire time into each commit (value version 1). Then the offset expires,
  whatever its group does.
- Since 2.1, the offsets of a group without members expire together, counted from when it became
  empty. If that time is not known, each expires by its own commit. So a group that keeps offsets
  lost the others in another way. It stays without offsets only while a transaction is undecided.
- Since 2.4, offsets of topics that a group with members does not subscribe to expire. 2.4 to 2.8.1,
  3.0.0 and 3.1.0 remove them in any state with members (KAFKA-13636). So while an empty group waits
  for the members of its next generation, all of its old offsets may expire.
- In 4.x, an offset with an undecided transactional commit does not expire; the others do. If one of
  the offsets that went at a moment had such a commit, a deletion removed them. Up to 3.9, the
  commits of transactions do not count: they only keep the group.
- No tool deletes offsets of a topic that a group with members subscribes to, nor any offset of
  another type of group with members.

One cause removes what a group loses at a moment. So all of these offsets expired, or none did; but
where members protect some, which only the deletion of their topics removes, the others are apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from coterie._core.structures.expiry import expiry_rule
from coterie.insight.groups.causes import counted
from coterie.insight.offsets.key_removals import KeyRemoval
from coterie.insight.offsets.removals import MOMENT_MS, Removal
from coterie.insight.records.partition_view import PartitionView
from coterie.state.consumer_protocol_groups import EPOCH_KEYS, newer_groups
from coterie.state.rows import metadata_row, simple_row

EVERY_COMMIT = {"empty_commit", "not_subscribed", "standalone"}
PROTECTED = {"subscribed", "members"}  # no tool deletes such offsets
EXPLICIT, PENDING, REBALANCE = "explicit", "pending_transaction", "rebalance"
UNKNOWN = "unknown"
JOIN_MS = 300_000  # how long members may take to join if the next generation has none
MIN_RETENTION_MS = 60_000  # the least `offsets.retention.minutes` (GroupCoordinatorConfig)
LAST_BEFORE_2_1 = 1  # the version of the values of groups that Kafka wrote before 2.1
Row = dict[str, Any]


def expiry_of(
    head: Row, offset: Mapping[str, Any], *, pending: bool = False
) -> tuple[str, int, bool]:
    """Return an offset's expiry rule, the start of its retention, and whether it never expires.

    The rule of an offset whose commit is not in the log is not known. ``pending``: an undecided
    transaction retains it, as in Kafka 4.x.
    """
    if offset["commit_timestamp"] is None:
        return UNKNOWN, -1, True
    topics = head["subscribed_topics"]
    since_ms = -1 if head["current_state_timestamp"] is None else head["current_state_timestamp"]
    if head["type"] == "classic":
        state, kind = head["state"], head["protocol_type"]
        rule = expiry_rule(kind, state == "Empty", state == "Stable", since_ms, topics is not None)
    else:
        rule = "not_subscribed"
    if rule is None:
        return "members", -1, True
    if rule == "not_subscribed" and offset["topic"] in (topics or ()):
        return "subscribed", -1, True
    if pending:
        return PENDING, -1, True
    base_ms = offset["commit_timestamp"] if rule in EVERY_COMMIT else since_ms
    return rule if offset["expire_timestamp"] is None else EXPLICIT, base_ms, False


class Way(NamedTuple):
    """How an offset may have been removed, beside the deletion of its topic.

    ``rule``, ``base_ms``, ``retained``: as of :func:`expiry_of`. ``expired``, ``deleted``: whether
    it may have expired, and whether a tool may have deleted it.
    """

    rule: str
    base_ms: int
    retained: bool
    expired: bool
    deleted: bool


@dataclass(frozen=True)
class GroupBefore:
    """A group before it lost offsets.

    Attributes
    ----------
    head : dict
        Its own fields, as of ``coterie.state.rows.head_rows``.
    ended : bool
        Whether it was removed with these offsets.
    keeps_offsets : bool
        Whether it certainly has further offsets that would have expired with these.
    is_rebalancing : bool
        Whether members may have been joining it, as it was empty.
    may_be_before_2_1 : bool
        Whether its records may be of Kafka 2.0 or earlier.
    pending : bool
        Whether an undecided transaction had committed one of them, so Kafka 4.x expired none.
    is_known : bool
        Whether ``head`` is certain; else compaction may have removed the group's record.
    """

    head: Row
    ended: bool = False
    keeps_offsets: bool = False
    is_rebalancing: bool = False
    may_be_before_2_1: bool = False
    pending: bool = False
    is_known: bool = True

    @property
    def stayed(self) -> bool:
        """Whether it was an empty group of a known protocol, and stayed."""
        head = self.head
        return head["state"] == "Empty" and bool(head["protocol_type"]) and not self.ended

    def ways(self, removal: Removal, retention_ms: int) -> list[Way]:
        """Return how each of the offsets of a removal may have been removed, under a retention."""
        ways = [self._way(row, retention_ms, removal.until_ms) for row in removal.rows]
        if all(way.expired for way in ways):
            return ways
        return [way._replace(expired=False) for way in ways]

    def _way(self, removal: KeyRemoval, retention_ms: int, removed_ms: int) -> Way:
        commit_ms = removal.commit_ms
        own_ms, is_known = removal.expire_ms, commit_ms is not None
        offset = {
            "topic": removal.key[1],
            "commit_timestamp": 0 if commit_ms is None else commit_ms,
            "expire_timestamp": own_ms,
        }
        rule, base_ms, retained = expiry_of(self.head, offset, pending=self.pending)
        deleted = rule not in PROTECTED
        if rule == PENDING:
            return Way(rule, base_ms, retained, False, deleted)
        if not is_known and (rule in EVERY_COMMIT or (retained and self.may_be_before_2_1)):
            return Way(UNKNOWN, -1, True, True, deleted)
        is_overdue = own_ms is not None and not 0 <= removed_ms < own_ms
        if not retained and rule != EXPLICIT:
            # A clock that went back leaves it open.
            is_overdue = not base_ms <= removed_ms < base_ms + retention_ms
        if retained and not self.may_be_before_2_1:
            is_overdue = False
        if is_overdue and not (rule == "empty_since" and self.keeps_offsets):
            return Way(EXPLICIT if retained else rule, base_ms, False, True, deleted)
        if self.is_rebalancing and (commit_ms is None or removed_ms >= commit_ms + retention_ms):
            return Way(REBALANCE, -1 if commit_ms is None else commit_ms, False, True, True)
        if not is_known or not self.is_known:
            rule, base_ms, retained = UNKNOWN, -1, True
        return Way(rule, base_ms, retained, not self.is_known, deleted)


def parts_of(view: PartitionView, removal: Removal) -> Iterator[tuple[Removal, GroupBefore]]:
    """Yield what one cause removed of the offsets of a moment, with their group as it was before.

    Offsets that only the deletion of their topics removes are a part of their own.
    """
    before = group_before(view, removal)
    ways = before.ways(removal, MIN_RETENTION_MS)
    protected = [row for row, way in zip(removal.rows, ways, strict=True) if not way.deleted]
    others = [row for row, way in zip(removal.rows, ways, strict=True) if way.deleted]
    if not protected or not others or all(way.expired for way in ways):
        yield removal, before
    else:
        for rows in (protected, others):
            part = removal.part(rows)
            yield part, group_before(view, part)


def group_before(view: PartitionView, removal: Removal) -> GroupBefore:
    """Return a group as it was before it lost offsets."""
    history = view.histories.get(removal.group)
    found = head_before(view, removal.group, removal.log_offset)
    head = found or {"type": "classic", **simple_row()}
    is_known = found is not None or view.is_complete_at(removal.from_ms)
    newest = is_of_4x(view)
    # A joined log does not show which partition's transactions its coordinator knew.
    pending = newest and not view.is_joined and any(row.pending for row in removal.rows)
    if history is None:
        ended = _ended_with(view, removal)
        return GroupBefore(head, ended, pending=pending, is_known=is_known)
    rows = history.generations
    at = _index(rows, removal.log_offset)
    after = _index(rows, removal.last_offset)
    value = history.records[at - 1].value if at else None
    following = rows[after] if after < len(rows) else None
    ended = _ended_with(view, removal) or (
        following is not None and following["tombstone"] and _is_at_once(following, removal)
    )
    is_waiting = not newest and head["protocol_type"] == "consumer" and head["state"] == "Empty"
    return GroupBefore(
        head,
        ended,
        removal.left_without_time > 0 and not ended and not (newest and removal.has_transactions),
        is_waiting and following is not None and _joins(following, removal, history.state(after)),
        value is not None and int.from_bytes(value[:2]) <= LAST_BEFORE_2_1,
        pending,
        is_known,
    )


def is_of_4x(view: PartitionView) -> bool:
    """Whether the log, of whatever groups, has records that only Kafka 4.x writes."""
    return view.fold.follows_4x


def head_before(view: PartitionView, group: str, log_offset: int) -> Row | None:
    """Return a group's own fields by its last record before a place; None: there is none."""
    history, newer = view.histories.get(group), view.newer_by_group.get(group)
    last_offset, head = -1, None
    if history is not None:
        at = _index(history.generations, log_offset)
        if at:
            last_offset = history.generations[at - 1]["log_offset"]
            value = history.records[at - 1].value
            own = simple_row() if value is None else metadata_row(value)
            head = {"type": "classic", **own}
    if newer is not None:
        at = bisect_left([place.log_offset for place in newer.places], log_offset)
        values = {one.key: (one.value, one.log_offset, one.timestamp) for one in newer[:at]}
        head = newer_groups(values, {group: last_offset}).get(group, head)
    return head


def _index(rows: Sequence[Row], log_offset: int) -> int:
    return bisect_left(rows, log_offset, key=lambda row: int(row["log_offset"]))


def _ended_with(view: PartitionView, removal: Removal) -> bool:
    """Whether a group of a newer protocol was removed with these offsets."""
    newer = view.newer_by_group.get(removal.group)
    places = [] if newer is None else newer.places
    at = bisect_left(places, removal.log_offset, key=attrgetter("log_offset"))
    at_once = takewhile(
        lambda place: abs(place.timestamp - removal.until_ms) <= MOMENT_MS, places[at:]
    )
    return any(place.version in EPOCH_KEYS and place.value_size < 0 for place in at_once)


def _is_at_once(row: Row, removal: Removal) -> bool:
    at_ms = row["timestamp"]
    return at_ms is not None and abs(at_ms - removal.until_ms) <= MOMENT_MS


def _joins(row: Row, removal: Removal, state: Row | None) -> bool:
    """Whether members may have been joining for a record's generation as offsets were removed."""
    if state is None or row["timestamp"] is None:
        return False
    times = [member["rebalance_timeout_ms"] for member in state["members"]]
    # Members join within the longest time-out; within another, the leader sends the assignment.
    return bool(row["timestamp"] - removal.until_ms <= 2 * max(times, default=JOIN_MS))


class Neighbours:
    """What the groups of a partition lost at the same moment."""

    def __init__(self, removals: Mapping[str, Sequence[Removal]]) -> None:
        by_time = sorted(
            (removal.from_ms, group, tuple(removal.partitions))
            for group, theirs in removals.items()
            for removal in theirs
        )
        self.times = [at_ms for at_ms, _, _ in by_time]
        self.lost = [(group, topics) for _, group, topics in by_time]

    def others(self, removal: Removal) -> str:
        """Return how many other groups lost offsets of the same topic at once; empty: none."""
        topics = tuple(removal.partitions)
        if len(topics) != 1 or removal.from_ms < 0:
            return ""
        start = bisect_left(self.times, removal.from_ms - MOMENT_MS)
        stop = bisect_left(self.times, removal.until_ms + MOMENT_MS + 1)
        groups = {group for group, theirs in self.lost[start:stop] if theirs == topics}
        count = len(groups - {removal.group})
        return counted(count, "other group") if count else ""
