"""Rows of ``explain`` for removed offsets and for topics that were created again.

A broker's log names the reason. Without one, ``coterie.insight.offsets.removal_reasons`` decides by
the records. Two more facts help:

- The retention is not known, so any retention of at least 1 minute counts, the least value of
  ``offsets.retention.minutes`` (GroupCoordinatorConfig).
- Offsets of one topic that several groups lose at the same moment are those of a deleted topic,
  unless they can have expired.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from coterie.base.caching import cached_property
from coterie.base.times import format_time
from coterie.insight.groups.causes import RECORDS, counted, hosts_in_words, partition_text
from coterie.insight.groups.timeline import DELETED
from coterie.insight.offsets.key_removals import KeyRemovals
from coterie.insight.offsets.removal_reasons import (
    EXPLICIT,
    MIN_RETENTION_MS,
    REBALANCE,
    UNKNOWN,
    GroupBefore,
    Neighbours,
    Way,
    parts_of,
)
from coterie.insight.offsets.removals import (
    MOMENT_MS,
    OffsetCount,
    Removal,
    Resumption,
    offset_counts,
    removals_of,
)
from coterie.insight.offsets.rewinds import TOPIC_RECREATED
from coterie.insight.questions.removal_lines import (
    EXPIRED,
    GROUP_DELETED,
    OFFSETS_DELETED,
    TOPIC_CREATED,
    TOPIC_DELETED,
    RemovalLines,
)
from coterie.insight.questions.server_log_lines import REQUESTS, SERVER, BrokerLogLine
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.tables import duration, shortened

OFFSETS_REMOVED = "offsets_removed"
REMOVED = "removed"  # deleted or expired: the log does not show which
REBALANCES = "Kafka 2.4 to 2.8.1, 3.0.0, 3.1.0"  # that expire offsets meanwhile
WITHOUT_OFFSETS = "it had no offsets, so the broker's next check removed it, or a tool deleted it"
TOPICS_NAMED = 3
PARTITIONS_NAMED = 12
REMOVED_FOR = " removed: "  # between the offsets and the reason, in a text
Row = dict[str, Any]


@dataclass(frozen=True)
class Reason:
    """Why offsets or a group were removed.

    Attributes
    ----------
    what : str
        A key of ``causes.WHATS``.
    evidence : str
        What shows it, as text; empty: a broker's log.
    request, line : BrokerLogLine or None
        The lines of the request log and of the server log.
    """

    what: str
    evidence: str = ""
    request: BrokerLogLine | None = None
    line: BrokerLogLine | None = None

    @property
    def cause(self) -> Row:
        """The reason as an entry of a row's ``causes``."""
        by = self.request
        line = by or self.line
        return {
            "what": self.what,
            "member_id": None,
            "client_id": by and by.client_id,
            "client_host": by and by.client_host,
            "group_instance_id": None,
            "detail": (by.detail if by else self.evidence) or None,
            "source": RECORDS if line is None else line.source,
        }

    @property
    def is_uncertain(self) -> bool:
        """Whether the records leave open if a tool or the deletion of a topic removed offsets."""
        return self.what == OFFSETS_DELETED and self.request is None and self.line is None

    def fields(self) -> Row:
        """Return the fields of a row that have the reason."""
        return {"causes": [self.cause], "reason": self.line and self.line.detail}


class RemovalEvents:
    """The removals of one partition of the offsets topic.

    Parameters
    ----------
    view, removed
        The requested groups of the partition, and their removals.
    neighbours
        The removals of all groups of the partition, requested or not.
    lines
        The lines of the broker's logs about removals.
    """

    def __init__(
        self,
        view: PartitionView,
        removed: KeyRemovals,
        neighbours: KeyRemovals,
        lines: RemovalLines,
    ) -> None:
        self.view = view
        self.removed = removed
        self.removals = removals_of(removed)
        self.lines = lines
        self.neighbours = Neighbours(
            self.removals if neighbours is removed else removals_of(neighbours)
        )

    @cached_property
    def counts(self) -> Mapping[str, OffsetCount]:
        return offset_counts(self.removed)

    def rows(self, group: str, events: list[Row]) -> Iterator[Row]:
        """Yield the rows of a group, and set the reasons of its deletions.

        ``events``: its events by its records, in log order; those of deletions are changed.
        """
        places = [event["log_offset"] for event in events]
        deletions = {id(event) for event in events if event["event"] == DELETED}
        moments = self.removals.get(group, ())
        for removal, before in chain.from_iterable(parts_of(self.view, one) for one in moments):
            deletion = _deletion_with(removal, events, bisect_left(places, removal.last_offset))
            reason = self.reason(removal, before)
            yield removal_row(removal, reason)
            if deletion is not None:
                deletions.discard(id(deletion))
                set_reason(deletion, reason, removal.count)
            for row in self.recreations(removal, reason):
                if row["log_offset"] is None:  # known from a broker's log alone
                    row["place"] = place_by_time(row, events, removal.last_offset)
                yield row
        for event in events:
            if id(event) in deletions:
                self.explain_deletion(group, event)

    def explain_deletion(self, group: str, event: Row) -> None:
        """Set the reason of a deletion of a group without offsets."""
        at_ms = event["timestamp"]
        lines = [] if at_ms is None else self.lines.about(group, (), at_ms, at_ms)
        has_offsets = group in self.counts and self.counts[group].after(event["log_offset"]) > 0
        if lines:
            set_reason(event, reason_of(lines), 0)
        elif not has_offsets and self.view.is_complete_at(at_ms):
            set_reason(event, Reason(REMOVED, WITHOUT_OFFSETS), 0)

    def reason(self, removal: Removal, before: GroupBefore) -> Reason:
        """Return why offsets were removed: by a broker's log, or else by the records."""
        group, topics = removal.group, tuple(removal.partitions)
        ways = before.ways(removal, MIN_RETENTION_MS)
        expired, deleted = ways[0].expired, any(way.deleted for way in ways)
        since, is_early = elapsed(removal, before, ways)
        lines = self.lines.about(group, topics, removal.from_ms, removal.until_ms)
        if not expired and (is_early or not deleted):
            lines = [line for line in lines if line.what != EXPIRED]
        if lines:
            return reason_of(lines)
        others = self.neighbours.others(removal)
        if expired:
            return Reason(REMOVED, expired_in_words(removal, before, ways, since, others))
        if not deleted:
            return Reason(TOPIC_DELETED, "the group's members used it, and nothing else removes it")
        if is_early and not before.pending:
            since += ", and the least retention is 1 min"
        at_once = "lost offsets of the same topic at the same moment"
        if others and before.ended:
            return Reason(REMOVED, f"deleted, not expired: {since}; {others} {at_once}")
        if others:
            return Reason(TOPIC_DELETED, f"{others} lost offsets of it at the same moment")
        if is_early or not before.keeps_offsets:
            what = GROUP_DELETED if before.ended else OFFSETS_DELETED
            by = "" if before.ended else " by a tool or with their topic"
            return Reason(what, f"deleted{by}, not expired: {since}")
        text = "all offsets of an empty group expire at once"
        return Reason(OFFSETS_DELETED, f"deleted by a tool or with their topic: {text}")

    def recreations(self, removal: Removal, reason: Reason) -> Iterator[Row]:
        """Yield a row for each topic that was created again after the removal of its offsets.

        A topic id that changed shows it. A coordinator refuses commits to a topic that does not
        exist. So if the topic was deleted, a later commit shows it, too. If it may have been
        deleted, lower offsets suggest it.
        """
        by_topic: dict[str, list[Resumption]] = {topic: [] for topic in removal.partitions}
        for commit in removal.resumed:
            by_topic[commit.topic].append(commit)
        for topic, commits in by_topic.items():
            until_ms = commits[0].at_ms if commits else None
            created = self.lines.creation(topic, removal.from_ms, until_ms)
            is_lower = all(commit.offset < removal.offset_of(commit) for commit in commits)
            is_known = reason.what == TOPIC_DELETED and (commits or created)
            if is_known or any(commit.anew for commit in commits):
                yield recreation_row(topic, commits, removal, created)
            elif reason.is_uncertain and commits and (created or is_lower):
                yield recreation_row(topic, commits, removal, created, "perhaps ")


def elapsed(removal: Removal, before: GroupBefore, ways: Sequence[Way]) -> tuple[str, bool | None]:
    """Return how long after which event offsets were removed, and whether any retention is longer.

    As text, and None if that is not known. Retention counts from when the group became empty, or
    from the last commit of these offsets. While a transaction is undecided, it does not count.
    """
    if before.pending:
        count = sum(row.pending for row in removal.rows)
        of = "them" if count == len(ways) else f"{count} of them"
        return f"Kafka 4.x expires none while a transaction with commits of {of} is open", True
    base_ms, event = removal.committed_ms, "their last commit"
    head = before.head
    empty_ms = head["current_state_timestamp"] if head["state"] == "Empty" else None
    if empty_ms is not None and all(way.rule in ("empty_since", UNKNOWN) for way in ways):
        base_ms, event = empty_ms, "the group became empty"
    if base_ms < 0 or removal.until_ms < base_ms:
        return "an unknown time after their last commit", None
    elapsed_ms = removal.until_ms - base_ms
    return f"{duration(elapsed_ms)} after {event}", elapsed_ms < MIN_RETENTION_MS


def expired_in_words(
    removal: Removal, before: GroupBefore, ways: Sequence[Way], since: str, others: str
) -> str:
    """Return that offsets may have expired, and what else may have removed them."""
    rules = {way.rule for way in ways if way.expired}
    times = {row.expire_ms for row in removal.rows if row.expire_ms is not None}
    text = f"expired or deleted {since}"
    if rules == {REBALANCE}:
        text = f"expired as the group rebalanced ({REBALANCES}), or deleted: {since}"
    elif rules == {EXPLICIT}:
        last = format_time(max(times))
        way = "or deleted" if any(way.deleted for way in ways) else "or deleted with their topic"
        text = f"expired at the expire time of the commits, {last}, {way}: {since}"
    elif before.stayed and not removal.left:
        text += "; an undecided transaction may keep the group"
    at_once = "lost offsets of the same topic at the same moment"
    return f"{text}; {others} {at_once}" if others else text


def _deletion_with(removal: Removal, events: list[Row], at: int) -> Row | None:
    """Return the deletion of the group that came with a removal; None: the group stayed."""
    event = events[at] if at < len(events) else None
    if event is None or event["event"] != DELETED or event["timestamp"] is None:
        return None
    return event if abs(event["timestamp"] - removal.until_ms) <= MOMENT_MS else None


def reason_of(lines: list[BrokerLogLine]) -> Reason:
    """Return the reason that the most exact line gives, with the other log's line about it."""
    what = lines[0].what
    by_source = {line.source: line for line in reversed(lines) if line.what == what}
    return Reason(what, "", by_source.get(REQUESTS), by_source.get(SERVER))


def removal_row(removal: Removal, reason: Reason) -> Row:
    return {
        "event": OFFSETS_REMOVED,
        "timestamp": None if removal.from_ms < 0 else removal.from_ms,
        "until": None if removal.until_ms < 0 else removal.until_ms,
        "log_offset": removal.log_offset,
        "generation": None,
        "member_count": None,
        "cause": offsets_text(removal) + REMOVED_FOR + reason_text(reason),
        "count": removal.count,
        "topics": sorted(removal.partitions),
        "file": removal.file,
        "position": removal.position,
        **reason.fields(),
    }


def offsets_text(removal: Removal) -> str:
    """Return the number of removed offsets, and their partitions or topics."""
    places = [
        (topic, number) for topic, numbers in removal.partitions.items() for number in numbers
    ]
    of = partition_text((shortened(topic), number) for topic, number in places)
    if len(places) > PARTITIONS_NAMED:
        topics = list(map(shortened, sorted(removal.partitions)))
        of = ", ".join(topics[:TOPICS_NAMED])
        of += f" and {len(topics) - TOPICS_NAMED} more" if len(topics) > TOPICS_NAMED else ""
    return f"{counted(removal.count, 'offset')} of {of}"


WORDS = {
    GROUP_DELETED: "the group was deleted",
    OFFSETS_DELETED: "deleted",
    TOPIC_DELETED: "the topic was deleted",
    EXPIRED: "expired",
}


def reason_text(reason: Reason) -> str:
    """Return a reason as text, with its requester and the log that names it."""
    text = WORDS.get(reason.what, "")
    if reason.request is not None:
        text += f" by {who_asked(reason.request)} [{REQUESTS}]"
    elif reason.line is not None:
        text += f" [{SERVER}]"
    elif reason.what == TOPIC_DELETED:
        text += f": {reason.evidence}"
    else:
        text = reason.evidence
    return text


def who_asked(line: BrokerLogLine) -> str:
    """Return the client of a request, with its host and its principal."""
    name = shortened(line.client_id or "a client without an id")
    return f"{name}{hosts_in_words([line.client_host])}" + (
        f" as {shortened(line.detail)}" if line.detail else ""
    )


def set_reason(event: Row, reason: Reason, offsets: int) -> None:
    its = f" with {counted(offsets, 'offset')}" if offsets else ""
    if reason.what == EXPIRED:
        why = "its last offsets expired" if offsets else "it had no offsets left"
        text = f"the group was removed{its}: {why} [{SERVER}]"
    elif reason.what == GROUP_DELETED and (reason.request, reason.line) != (None, None):
        text = reason_text(reason).replace("was deleted", f"was deleted{its}", 1)
    else:
        text = f"the group was removed{its}: {reason_text(reason)}"
    event.update(reason.fields(), cause=text)


def recreation_row(
    topic: str,
    commits: list[Resumption],
    removal: Removal,
    created: BrokerLogLine | None,
    perhaps: str = "",
) -> Row:
    """Return the row of a topic that was created again, with the first commits to it, if any."""
    first = commits[0] if commits else None
    at_ms = created.at_ms if created is not None else -1 if first is None else first.at_ms
    text = f"{shortened(topic)} was {'' if created else perhaps}created again"
    by_request = created is not None and created.source == REQUESTS
    if created is not None:
        by = f" by {who_asked(created)}" if by_request else ""
        text += f"{by} [{created.source}]"
    if commits:
        text += f"; first commits since: {first_commits(topic, commits, removal)}"
    reason = Reason(
        TOPIC_CREATED, "", created if by_request else None, None if by_request else created
    )
    return {
        "event": TOPIC_RECREATED,
        "timestamp": None if at_ms < 0 else at_ms,
        "log_offset": first and first.log_offset,
        "place": removal.last_offset if first is None else first.log_offset,
        "generation": None,
        "member_count": None,
        "cause": text,
        "count": len(commits),
        "topics": [topic],
        "file": first and first.file,
        "position": first and first.position,
        **reason.fields(),
        "reason": None,
    }


def place_by_time(row: Row, events: Iterable[Row], least: int) -> int:
    """Return the log offset of the last event that is not later than a row."""
    at_ms = row["timestamp"]
    earlier = [
        int(event["log_offset"])
        for event in events
        if event["timestamp"] is not None and event["timestamp"] <= at_ms
    ]
    return max([least, *earlier])


def first_commits(topic: str, commits: list[Resumption], removal: Removal) -> str:
    """Return the first commits to a topic after a removal, each with the removed offset."""
    parts = [
        f"{shortened(topic)}-{commit.partition} {commit.offset}"
        + (f" (before {removal.offset_of(commit)})" if removal.offset_of(commit) >= 0 else "")
        for commit in commits[:TOPICS_NAMED]
    ]
    if len(commits) > TOPICS_NAMED:
        parts.append(f"{len(commits) - TOPICS_NAMED} more")
    return ", ".join(parts)


def compare_partitions(rows: Iterable[Row]) -> None:
    """Change the reasons of removals that were those of a deleted topic, by the rows of all groups.

    Each partition of the offsets topic is answered by itself. So only all rows together show that
    groups of several partitions lost the offsets of one topic at the same moment.
    """
    by_topic: dict[str, list[Row]] = {}
    deletions: dict[str, list[Row]] = {}
    for row in rows:
        if row["event"] == DELETED:
            deletions.setdefault(row["group_id"], []).append(row)
        if row["event"] == OFFSETS_REMOVED and len(row["topics"]) == 1 and is_inferred(row):
            by_topic.setdefault(row["topics"][0], []).append(row)
    for removals in by_topic.values():
        for at_once in moments(removals):
            whats = {row["causes"][0]["what"] for row in at_once}
            groups = {row["group_id"] for row in at_once}
            if len(groups) > 1 and whats & {TOPIC_DELETED, OFFSETS_DELETED}:
                others = counted(len(groups) - 1, "other group")
                reason = Reason(TOPIC_DELETED, f"{others} lost offsets of it at the same moment")
                for row in at_once:
                    if row["causes"][0]["what"] != TOPIC_DELETED:
                        change_reason(row, reason, deletions.get(row["group_id"], ()))


def is_inferred(row: Row) -> bool:
    """Whether the reason of a removal with a known time comes from the records alone."""
    return row["timestamp"] is not None and row["causes"][0]["source"] == RECORDS


def moments(removals: list[Row]) -> Iterator[list[Row]]:
    """Yield the removals of each moment; see ``offsets.removals.MOMENT_MS``."""
    at_once: list[Row] = []
    for row in sorted(removals, key=lambda row: int(row["timestamp"])):
        if at_once and row["timestamp"] - at_once[-1]["timestamp"] > MOMENT_MS:
            yield at_once
            at_once = []
        at_once.append(row)
    yield at_once


def change_reason(row: Row, reason: Reason, deletions: Iterable[Row]) -> None:
    """Change the reason of a removal, and of the deletion of the group with it."""
    for deletion in deletions:
        at_ms = deletion["timestamp"]
        is_of_moment = at_ms is not None and abs(at_ms - row["until"]) <= MOMENT_MS
        if is_of_moment and deletion["causes"] == row["causes"]:
            set_reason(deletion, reason, row["count"])
    removed, _, _ = row["cause"].partition(REMOVED_FOR)
    row.update(reason.fields(), cause=removed + REMOVED_FOR + reason_text(reason))
