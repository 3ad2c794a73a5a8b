"""Rows of ``explain`` for removed offsets and for topics that were created again.

A broker's log names the reason. Without one, the records rule reasons out:

- An offset expires ``offsets.retention.minutes`` after its group became empty, or after its last
  commit. The least value is 1 minute (GroupCoordinatorConfig). A commit of OffsetCommit version 2
  to 4 may have a shorter retention of its own; such commits are not known here.
- While a consumer group is subscribed to a topic, its offsets do not expire, and no tool can delete
  them (GroupCoordinator.handleDeleteOffsets, OffsetMetadataManager.deleteOffsets). So the topic was
  deleted. Other groups with members, as of Kafka Connect, do not lose offsets otherwise at all.
- All offsets of an empty group expire at the same time (GroupMetadata.removeExpiredOffsets), and
  the group with them.
- Offsets of one topic that several groups lose at the same moment are those of a deleted topic,
  unless they can have expired.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.errors import CorruptData
from coterie.insight.brokerlogs.lines import REQUESTS, SERVER, BrokerLogLine
from coterie.insight.brokerlogs.removal_lines import (
    EXPIRED,
    GROUP_DELETED,
    OFFSETS_DELETED,
    TOPIC_CREATED,
    TOPIC_DELETED,
    RemovalLines,
)
from coterie.insight.groups.causes import RECORDS, counted, hosts_in_words, partition_text
from coterie.insight.groups.timeline import DELETED, EMPTY
from coterie.insight.offsets.removals import MOMENT_MS, Removal, Resumption
from coterie.insight.records.partition_view import GroupHistory
from coterie.insight.render.tables import shortened
from coterie.log.consumer_protocol import read_subscription

OFFSETS_REMOVED, TOPIC_RECREATED = "offsets_removed", "topic_recreated"
REMOVED = "removed"  # deleted or expired: the log does not show which
MIN_RETENTION_MS = 60_000
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
    removals
        The removals of each group.
    neighbours
        The same for all groups of the partition, requested or not.
    lines
        The lines of the broker's logs about removals.
    """

    def __init__(
        self,
        removals: Mapping[str, Sequence[Removal]],
        neighbours: Mapping[str, Sequence[Removal]],
        lines: RemovalLines,
    ) -> None:
        self.removals = removals
        self.lines = lines
        by_time = sorted(
            (removal.from_ms, group, tuple(removal.partitions))
            for group, theirs in neighbours.items()
            for removal in theirs
        )
        self.times = [at_ms for at_ms, _, _ in by_time]
        self.neighbours = [(group, topics) for _, group, topics in by_time]

    def rows(self, group: str, history: GroupHistory | None, events: list[Row]) -> Iterator[Row]:
        """Yield the rows of a group, and set the reasons of its deletions.

        ``events``: its events by its records, in log order; those of deletions are changed.
        """
        places = [event["log_offset"] for event in events]
        deletions = {id(event) for event in events if event["event"] == DELETED}
        for removal in self.removals.get(group, ()):
            at = bisect_left(places, removal.log_offset)
            deletion = _deletion_with(removal, events, bisect_left(places, removal.last_offset))
            group_state = GroupState(history, events[:at], removal, deletion is not None)
            reason = self.reason(removal, group_state)
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
        """Set the reason of a deletion of a group that had no offsets."""
        at_ms = event["timestamp"]
        lines = [] if at_ms is None else self.lines.about(group, (), at_ms, at_ms)
        if lines:
            set_reason(event, reason_of(lines), 0)

    def reason(self, removal: Removal, state: GroupState) -> Reason:
        """Return why offsets were removed: by a broker's log, or else by the records."""
        group, topics = removal.group, tuple(removal.partitions)
        lines = self.lines.about(group, topics, removal.from_ms, removal.until_ms)
        if state.cannot_have_expired or state.is_subscribed:
            lines = [line for line in lines if line.what != EXPIRED]
        if lines:
            return reason_of(lines)
        others = self.others(removal)
        if state.is_subscribed:
            return Reason(TOPIC_DELETED, "the group's members used it, and nothing else removes it")
        if others and (state.cannot_have_expired or state.stayed):
            if state.is_deleted:
                text = f"{others} lost offsets of the same topic at the same moment"
                return Reason(REMOVED, f"deleted, not expired: {state.since}; {text}")
            return Reason(TOPIC_DELETED, f"{others} lost offsets of it at the same moment")
        if state.cannot_have_expired:
            what = GROUP_DELETED if state.is_deleted else OFFSETS_DELETED
            by = "" if state.is_deleted else " by a tool or with their topic"
            return Reason(what, f"deleted{by}, not expired: {state.since}")
        if state.stayed:
            text = "all offsets of an empty group expire at once"
            return Reason(OFFSETS_DELETED, f"deleted by a tool or with their topic: {text}")
        text = f"{others} lost offsets of the same topic at the same moment" if others else ""
        return Reason(REMOVED, "; ".join(filter(None, (f"expired or deleted {state.since}", text))))

    def others(self, removal: Removal) -> str:
        """Return how many other groups lost offsets of the same topic at once; empty: none."""
        topics = tuple(removal.partitions)
        if len(topics) != 1 or removal.from_ms < 0:
            return ""
        start = bisect_left(self.times, removal.from_ms - MOMENT_MS)
        stop = bisect_left(self.times, removal.until_ms + MOMENT_MS + 1)
        groups = {group for group, theirs in self.neighbours[start:stop] if theirs == topics}
        count = len(groups - {removal.group})
        return counted(count, "other group") if count else ""

    def recreations(self, removal: Removal, reason: Reason) -> Iterator[Row]:
        """Yield a row for each topic that was created again after the removal of its offsets.

        A coordinator refuses commits to a topic that does not exist. So if the topic was deleted,
        a later commit shows that it was created again. If it may have been deleted, lower offsets
        suggest it.
        """
        by_topic: dict[str, list[Resumption]] = {topic: [] for topic in removal.partitions}
        for commit in removal.resumed:
            by_topic[commit.topic].append(commit)
        for topic, commits in by_topic.items():
            until_ms = commits[0].at_ms if commits else None
            created = self.lines.creation(topic, removal.from_ms, until_ms)
            is_lower = all(commit.offset < removal.offset_of(commit) for commit in commits)
            if reason.what == TOPIC_DELETED and (commits or created):
                yield recreation_row(topic, commits, removal, created)
            elif reason.is_uncertain and commits and (created or is_lower):
                yield recreation_row(topic, commits, removal, created, "perhaps ")


class GroupState:
    """The state of a group when offsets of it were removed.

    Attributes
    ----------
    is_deleted : bool
        Whether the group was deleted with the offsets.
    is_subscribed : bool
        Whether the group had members that used all topics of the offsets.
    stayed : bool
        Whether it was an empty group of a known protocol, and stayed.
    cannot_have_expired : bool
        Whether the offsets were removed earlier than any retention ends.
    since : str
        How long after which event they were removed, as text.
    """

    def __init__(
        self, history: GroupHistory | None, before: list[Row], removal: Removal, is_deleted: bool
    ) -> None:
        self.is_deleted = is_deleted
        last = before[-1] if before and before[-1]["event"] != DELETED else None
        state = None if last is None else state_at(history, last["log_offset"])
        members = (state or {}).get("members", ())
        self.is_subscribed = bool(members) and uses_all(state or {}, removal.partitions)
        is_empty = state is not None and not members and bool(state["protocol_type"])
        self.stayed = is_empty and not is_deleted
        base_ms, event = removal.committed_ms, "their last commit"
        if is_empty:
            base_ms, event = became_empty_ms(before), "the group became empty"
        self.cannot_have_expired = False
        self.since = "at a time that the log does not show"
        if base_ms >= 0 and removal.until_ms >= base_ms:
            elapsed_ms = removal.until_ms - base_ms
            self.cannot_have_expired = elapsed_ms < MIN_RETENTION_MS
            self.since = f"{duration(elapsed_ms)} after {event}"
            if self.cannot_have_expired:
                self.since += ", and the least retention is 1 min"


def state_at(history: GroupHistory | None, log_offset: int) -> Row | None:
    """Return the classic group as of a record; None: the record is of a newer protocol."""
    rows = [] if history is None else history.generations
    at = bisect_left(rows, log_offset, key=lambda row: int(row["log_offset"]))
    if history is None or at == len(rows) or rows[at]["log_offset"] != log_offset:
        return None
    return history.state(at)


def uses_all(state: Row, topics: Iterable[str]) -> bool:
    """Whether a classic group with members keeps the offsets of all these topics."""
    if state["protocol_type"] != "consumer":
        return True
    subscribed: set[str] = set()
    try:
        for member in state["members"]:
            subscribed.update(read_subscription(member["subscription"]).topics)
    except CorruptData:
        return False
    return subscribed.issuperset(topics)


def became_empty_ms(before: list[Row]) -> int:
    """Return when a group became empty for the last time; -1: not known."""
    at_ms = -1
    for event in reversed(before):
        if event["event"] != EMPTY:
            break
        at_ms = -1 if event["timestamp"] is None else event["timestamp"]
    return at_ms


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
    """Return the row of a removal of offsets."""
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
    """Return a reason as text, with who asked for it and the log that names it."""
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
    """Give the row of a group's deletion its reason."""
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


def duration(elapsed_ms: int) -> str:
    """Format a duration: in seconds below two minutes, then in minutes, hours or days."""
    if elapsed_ms < 120_000:
        return f"{elapsed_ms / 1000:.1f} s"
    for size_ms, unit in ((86_400_000, "d"), (3_600_000, "h")):
        if elapsed_ms >= 2 * size_ms:
            return f"{elapsed_ms / size_ms:.1f} {unit}"
    return f"{elapsed_ms / 60_000:.1f} min"


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
