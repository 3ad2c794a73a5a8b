"""The timeline of a group: generations with their causes, commits between them, flapping clients.

A group's rows are in log order, followed by its summaries: ``flapping``, ``client`` (ordered by
the rebalances that they cause), ``summary``. Anything that records do not show is unknown, or taken
from a broker's logs (``coterie.insight.questions``). If only some groups are requested, the
partition's other groups are known from its batches alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

from coterie.base.times import format_time
from coterie.insight.groups import (
    causes,
    departures,
    episodes,
    epochs,
    flapping,
    outages,
    protocol_switches,
)
from coterie.insight.groups.epochs import Gone
from coterie.insight.groups.member_changes import MEMBER_CHANGED
from coterie.insight.groups.protocol_switches import row_in_words
from coterie.insight.groups.rebalances import counts, is_rebalance, replacements
from coterie.insight.groups.reconciliation import MEMBER
from coterie.insight.groups.timeline import (
    DELETED,
    EMPTY,
    GENERATION,
    RECORDED,
    SOURCE,
    bound_waits,
)
from coterie.insight.groups.topic_names import topic_names
from coterie.insight.offsets.commit_spans import Between, CommitSpans, Span
from coterie.insight.offsets.key_removals import KeyRemovals
from coterie.insight.offsets.rewinds import (
    MEMBERS,
    OUTSIDE,
    RESET,
    REWIND,
    TOPIC_RECREATED,
    UNKNOWN,
)
from coterie.insight.parameters import check_bounds, parameter
from coterie.insight.questions import explain_members, server_log
from coterie.insight.questions import server_log_phrases as phrases
from coterie.insight.questions.explain_removals import OFFSETS_REMOVED, RemovalEvents
from coterie.insight.questions.removal_lines import RemovalLines
from coterie.insight.questions.server_log_lines import SERVER, BrokerLogLine
from coterie.insight.records.aggregates import (
    Aggregate,
    AggregatesByName,
    aggregates_of,
    run_aggregates,
)
from coterie.insight.records.commit_requests import RequestBatches
from coterie.insight.records.group_log import GroupRecord
from coterie.insight.records.partition_view import GroupHistory, PartitionView, RecordFilter
from coterie.insight.tables import duration, shortened
from coterie.log.clock import ClockStep, ClockSteps
from coterie.log.joined import place_of as joined_place

NAME = "explain"
FIELDS = {
    "group_id": "string",
    "offsets_partition": "int32",
    "event": "string",  # of EVENTS
    "timestamp": "timestamp",  # of the record; the first of several; null: it has none
    "until": "timestamp",  # last of several; end of a time without members, of a reconciliation
    "log_offset": "int64",
    "generation": "int32",  # of newer groups: the epoch
    "previous_generation": "int32",
    "member_count": "int32",
    "protocol": "string",
    "leader": "string",
    "cause": "string",  # in words
    "causes": [causes.CAUSE],
    "reason": "string",  # the coordinator's own, from its log
    "count": "int64",  # offsets committed or set; joins and leaves; rebalances
    "topics": ["string"],  # of commits and removals; of a topic that was created again
    "requests": "int64",  # that committed; null: no commits, or batches do not show it
    "duration_ms": "int64",  # without members or an assignment; by how much a clock went back
    "duration_source": "string",  # server log: exact; records: upper bound; null: see the event
    "file": "string",
    "position": "int64",
    "unowned_least_ms": "int64",  # partition-milliseconds without an owner: at least
    "unowned_most_ms": "int64",  # at most
    "target_at": "timestamp",  # of an epoch: when its target assignment was computed
    "unreconciled": "int64",  # members that had not reached the epoch by the next one, or the end
    "last_members": [MEMBER],  # these members, at most 20; or the last one that reached it
}
SUMMARIES = (episodes.EPISODE, "flapping", "client", departures.DEPARTURES, "summary")
CLOCK_BACK, ANOTHER_PARTITION = "clock_back", "another_partition"
EVENTS = (
    *(GENERATION, "static_replacement", "rewritten", EMPTY, DELETED),
    *("commits", "epoch", REWIND, RESET, OFFSETS_REMOVED, TOPIC_RECREATED),
    *(outages.CHANGE, outages.SILENCE, CLOCK_BACK, ANOTHER_PARTITION),
    *(
        protocol_switches.UPGRADED,
        protocol_switches.DOWNGRADED,
        epochs.STATIC_LEAVE,
        MEMBER_CHANGED,
    ),
    server_log.REFUSED,
    *SUMMARIES,
)
COMMITS = "commits"
OUTAGES, REQUESTS = "outages", "requests"  # aggregates, beside the commits
REMOVALS, OF_ALL_GROUPS = "removals", "removals of all groups"
CLOCK = "clock"
Row = dict[str, Any]


@dataclass(frozen=True)
class Parameters:
    """What counts as flapping, and lines of a broker's logs."""

    flap_count: int = parameter(
        4, "A client that joins and leaves so often within --flap-window is flapping.", least=2
    )
    flap_window_ms: int = parameter(600_000, "See --flap-count.", option="--flap-window")
    broker_log_lines: tuple[BrokerLogLine, ...] = ()

    def __post_init__(self) -> None:
        check_bounds(self)


def aggregates(
    view: PartitionView, parameters: Parameters
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    return PartitionTimelines(view, parameters).aggregates()


def rows(view: PartitionView, parameters: Parameters) -> Iterator[Row]:
    """Yield the rows of each group, groups in Java's order of their ids."""
    timelines = PartitionTimelines(view, parameters)
    timelines.read()
    for group in view.group_ids:
        for row in timelines.rows_of(group):
            yield {name: row.get(name) for name in FIELDS} | {
                "group_id": group,
                "offsets_partition": view.number,
                "causes": row.get("causes", []),
                "topics": row.get("topics", []),
                "last_members": row.get("last_members", []),
            }


class PartitionTimelines:
    def __init__(self, view: PartitionView, parameters: Parameters) -> None:
        self.view = view
        self.parameters = parameters
        lines_by_group: dict[str, list[BrokerLogLine]] = {}
        for line in parameters.broker_log_lines:
            lines_by_group.setdefault(line.group, []).append(line)
        of_any_group = lines_by_group.pop("", [])
        self.loads = [
            line.at_ms
            for line in of_any_group
            if line.what == phrases.LOADED and line.generation == view.number
        ]
        # Before Kafka 2.5, a line about a static member does not name its group.
        replaced = [line for line in of_any_group if line.what == phrases.REPLACED]
        self.logged_groups = frozenset(lines_by_group)
        self.removal_lines = RemovalLines(parameters.broker_log_lines, view.number)
        newer = view.newer_by_group
        self.indexes = {
            group: server_log.BrokerLogIndex([*lines_by_group.get(group, ()), *replaced])
            for group in view.group_ids
        }
        self.gone: dict[str, list[Gone]] = {}  # of newer groups
        self.events = {
            group: self.events_of(
                group, newer.get(group, ()), bool(replaced or lines_by_group.get(group))
            )
            for group in view.group_ids
        }

    def aggregates(self) -> dict[str, tuple[RecordFilter, Aggregate]]:
        view = self.view
        unfilled: tuple[Aggregate, ...] = (
            outages.OutageDetector(view.trusted_from_ms, self.loads),
            RequestBatches(),
            CommitSpans(view, self.events),
        )
        names = OUTAGES, REQUESTS, COMMITS
        filled_together = {
            name: (view.record_filter, aggregate)
            for name, aggregate in zip(names, unfilled, strict=True)
        }
        filled_together[REMOVALS] = view.record_filter, KeyRemovals()
        filled_together[CLOCK] = view.record_filter, ClockSteps()
        return filled_together

    def of_all_groups(self) -> dict[str, tuple[RecordFilter, Aggregate]]:
        """Return the aggregate of the removals of all groups, requested or not."""
        whole = self.view.whole()
        if whole is self.view:
            return {}
        return {OF_ALL_GROUPS: (whole.record_filter, KeyRemovals())}

    def read(self, more: AggregatesByName | None = None) -> dict[str, Any]:
        """Fill the aggregates, and more of another question; call it before :meth:`rows_of`."""
        unfilled = {**self.aggregates(), **(more or {})}
        filled = aggregates_of(self.view, lambda view, parameters: unfilled, self.parameters)
        self.commit_spans: CommitSpans = filled[COMMITS]
        self.outages = filled[OUTAGES].outages(self.view)
        self.counts_requests: bool = filled[REQUESTS].one_request_each
        self.clock_steps: list[ClockStep] = filled[CLOCK].steps
        removed: KeyRemovals = filled[REMOVALS]
        if any(removed.rows()):
            filled = filled | run_aggregates(self.view, self.of_all_groups())
        neighbours: KeyRemovals = filled.get(OF_ALL_GROUPS, removed)
        self.removal_events = RemovalEvents(self.view, removed, neighbours, self.removal_lines)
        return filled

    def events_of(self, group: str, newer: Sequence[GroupRecord], has_lines: bool) -> list[Row]:
        """Return the events that a group's records show, in log order."""
        history = self.view.histories.get(group)
        switched, of_newer = protocol_switches.epochs_of(history, newer)
        self.gone[group] = of_newer.gone
        events = protocol_switches.joined_rows(history, switched, of_newer)
        self.mark_compacted_gaps(events)
        if has_lines:
            self.indexes[group].annotate(events)
            for row in events:
                row["cause"] = row["cause"] if not row["causes"] else row_in_words(row)
        return sorted(events, key=lambda row: int(row["log_offset"]))

    def rows_of(self, group: str) -> list[Row]:
        """Return the rows of a group in log order, followed by its summaries."""
        history = self.view.histories.get(group)
        spans = self.commit_spans.spans(group)
        merged = self.in_order(spans)
        bound_waits(merged)
        suggest = group not in self.logged_groups
        events = [event for _, event in spans if event is not None]
        gone = (
            []
            if history is None
            else explain_members.follow(history, events, self.commit_spans, suggest=suggest)
        )
        if suggest and self.gone[group]:
            names = topic_names(self.view)
            gone += explain_members.follow_consumers(
                self.gone[group], events, self.commit_spans, group, names
            )
        removal_rows = self.removal_events.rows(group, events)
        set_back = map(self.indexes[group].with_committer, self.set_back(spans))
        merged = sorted([*merged, *set_back, *removal_rows], key=place_of)
        of_partition = [
            *self.without_coordinator(history, merged),
            *self.clock_rows(merged),
            *self.partition_rows(merged),
        ]
        merged = sorted([*of_partition, *merged], key=place_of)
        merged = self.indexes[group].with_refusals(merged)
        requested = [row for row in merged if self.is_requested(row)]
        complete = [row for row in requested if self.view.is_complete_at(row["timestamp"])]
        sums = list(sum_up(complete, self.parameters, self.outages))
        if suggest:
            sums += departures.summary(
                member
                for member in gone
                if self.view.is_requested(member.gone_ms, member.log_offset)
                and self.view.is_complete_at(member.gone_ms)
            )
        return [*requested, *sums, self.summary(complete, group)]

    def clock_rows(self, rows: list[Row]) -> Iterator[Row]:
        """Yield where the time goes back in the partition, since the group's first record."""
        for step in self.clock_steps:
            if rows and step.log_offset > place_of(rows[0]):
                yield {
                    "event": CLOCK_BACK,
                    "timestamp": step.after_ms,
                    "log_offset": step.log_offset,
                    "cause": f"{step.in_words()}: rows are in log order",
                    "generation": None,
                    "member_count": None,
                    "duration_ms": step.by_ms,
                    "file": step.file,
                    "position": step.position,
                }

    def partition_rows(self, rows: list[Row]) -> Iterator[Row]:
        """Yield where the group's records go on in another partition."""
        for before, row in pairwise(rows):
            old, new = (joined_place(self.view.order, place_of(one))[0] for one in (before, row))
            if old != new:
                yield {name: row.get(name) for name in ("timestamp", "file", "position")} | {
                    "event": ANOTHER_PARTITION,
                    "log_offset": place_of(row),
                    "cause": f"from here on in partition {new} of __consumer_offsets, before in "
                    f"{old}: the topic was grown, and the group began anew, without its offsets",
                    "generation": None,
                    "member_count": None,
                }

    def is_requested(self, row: Row) -> bool:
        """Whether a row is of the requested time; commits before it have a row of their own."""
        at_ms = row["until"] if row["event"] == COMMITS else row["timestamp"]
        return self.view.is_requested(at_ms, row["log_offset"])

    def mark_compacted_gaps(self, events: list[Row]) -> None:
        for before, row in pairwise(events):
            if not self.view.is_complete_at(before["timestamp"]):
                gaps = [gap for gap in row["causes"] if gap["what"] == "gap"]
                for gap in gaps:
                    gap["what"] = "compacted"
                if gaps:
                    row["cause"] = row_in_words(row)

    def summary(self, rows: list[Row], group: str) -> Row:
        """Return the summary row of a group, from when on the log is complete."""
        counted = [row for row in rows if counts(self.view, row)]
        times = [row.get(name) for row in rows for name in ("timestamp", "until")]
        known = [ms for ms in times if ms is not None]
        waits = [row for row in counted if row["event"] == GENERATION]
        known_ms = [row["duration_ms"] for row in waits if row.get(SOURCE) == SERVER]
        return {
            "event": "summary",
            "timestamp": min(known, default=None),
            "until": max(known, default=None),
            "count": sum(map(is_rebalance, counted)),
            "duration_ms": sum(known_ms) if known_ms else None,
            SOURCE: SERVER if known_ms and len(waits) == len(known_ms) else None,
            "cause": self.summary_text(counted, group),
            **episodes.unowned_of(counted),
        }

    def summary_text(self, rows: list[Row], group: str) -> str:
        complete_from_ms = self.view.complete_from_ms
        text = [causes.counted(sum(map(is_rebalance, rows)), "rebalance")]
        if replaced := sum(map(replacements, rows)):
            text.append(f"{causes.counted(replaced, 'static replacement')} without one")
        count, requests = self.commit_spans.counted(group)
        text.append(committed(requests if self.counts_requests else None, count))
        text += without_members(rows)
        if complete_from_ms is not None and complete_from_ms == self.view.trusted_from_ms:
            text.append(f"since {format_time(complete_from_ms)}; compacted before")
        return ", ".join(text)

    def in_order(self, spans: list[Between]) -> list[Row]:
        """Return the events in log order, with the commits between two events as one row."""
        merged: list[Row] = []
        for span, event in spans:
            if span.rows:
                merged.append(commit_row(span, self.counts_requests))
            if event is not None:
                merged.append(event)
        return merged

    def set_back(self, spans: list[Between]) -> Iterator[Row]:
        """Yield a row for each request that set offsets back, or came from outside of the group."""
        first = next((event for _, event in spans if event is not None), None)
        from_start = first is None or (first["generation"] or 0) <= 1
        who = OUTSIDE if from_start and self.view.trusted_from_ms is None else UNKNOWN
        had_members = False
        is_complete = self.view.trusted_from_ms is None
        for span, event in spans:
            if not is_complete and self.begins_complete(span, event):
                # The log is complete from here on: a group without a record has no members.
                # Members from before do not count, since compaction may have removed them.
                is_complete, who = True, OUTSIDE if who == UNKNOWN else who
                had_members = who == MEMBERS
            if span.rows:
                yield from span.resets.rows(who, had_members and who == OUTSIDE)
            if event is not None:
                who = MEMBERS if event["member_count"] else OUTSIDE
                had_members = had_members or who == MEMBERS or bool(event["generation"])

    def begins_complete(self, span: Span, event: Row | None) -> bool:
        """Whether the log is complete from the beginning of a span on.

        Compaction keeps the newest record of a group; a log that begins late has lost it.
        """
        if self.view.segments[0].base_offset:
            return False
        if span.first_ms is None:
            return event is None or self.view.is_complete_at(event["timestamp"])
        return self.view.is_complete_at(span.first_ms)

    def without_coordinator(self, history: GroupHistory | None, rows: list[Row]) -> Iterator[Row]:
        """Yield the outages of the partition since the group's first record."""
        places = [] if history is None else [row["log_offset"] for row in history.generations]
        for outage in self.outages:
            if rows and outage.log_offset > rows[0]["log_offset"]:
                index = bisect_left(places, outage.log_offset) - 1
                state = None if history is None or index < 0 else history.state(index)
                yield outages.outage_row(outage, rows, outages.rejoin_bound_ms(state))


def place_of(row: Row) -> int:
    """Return the log offset that a row is sorted by."""
    place: int = row["place"] if "place" in row else row["log_offset"]
    return place


def commit_row(span: Span, counts_requests: bool) -> Row:
    """Return the row for a group's commits in a span."""
    requests = span.requests if counts_requests else None
    partitions = causes.counted(span.partitions, "partition")
    named = ", ".join(map(shortened, span.topics[:3])) + (
        f" and {len(span.topics) - 3} more" if len(span.topics) > 3 else ""
    )
    text = [f"{committed(requests, span.count)} to {partitions} of {named}"] if span.count else []
    for offsets, number, word in (
        (span.aborted, span.aborted_transactions, "aborted"),
        (span.pending, span.pending_transactions, "open"),
    ):
        if offsets:
            transactions = causes.counted(number, f"{word} transaction")
            text.append(f"{causes.counted(offsets, 'offset')} of {transactions}")
    return {
        "event": COMMITS,
        "timestamp": span.from_ms if span.first_ms is None else span.first_ms,
        "until": span.until_ms,
        "log_offset": span.log_offset,
        "cause": "; ".join(text),
        "count": span.count,
        "topics": list(span.topics),
        "requests": requests,
        "file": span.file,
        "position": span.position,
    }


def committed(requests: int | None, offsets: int) -> str:
    """Return the number of commits, if batches show it, and of their offsets, as text."""
    if requests is None:
        return f"{causes.counted(offsets, 'offset')} committed"
    of = "" if requests == offsets else f" of {causes.counted(offsets, 'offset')}"
    return causes.counted(requests, "commit") + of


def sum_up(
    rows: list[Row], parameters: Parameters, found_outages: list[outages.Outage]
) -> Iterator[Row]:
    """Yield the rows of episodes, of flapping clients, and of clients that cause rebalances."""
    yield from episodes.episodes(rows)
    moves = flapping.moves_of(rows)
    own_moves = flapping.without_outages(moves, found_outages)
    yield from flapping.flaps(own_moves, parameters.flap_count, parameters.flap_window_ms)
    yield from flapping.clients(moves)


def without_members(rows: list[Row]) -> Iterator[str]:
    """Yield how long a group was without members, as text."""
    changes = (
        DELETED,
        protocol_switches.UPGRADED,
        protocol_switches.DOWNGRADED,
        epochs.EPOCH_EVENT,
    )
    states = [row for row in rows if row["event"] in (*RECORDED, *changes)]
    total_ms = sum(row.get("duration_ms") or 0 for row in states if row["event"] == EMPTY)
    parts = [f"for {duration(total_ms)}"] if total_ms else []
    at_end = list(takewhile(lambda row: row["member_count"] == 0, reversed(states)))
    if at_end:
        since = [row["timestamp"] for row in at_end if row["timestamp"] is not None]
        parts.append(
            f"since {format_time(since[-1])}, at the end of the log"
            if since
            else "at the end of the log"
        )
    if parts:
        yield f"without members {' and '.join(parts)}"
