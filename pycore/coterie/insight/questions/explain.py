"""The life of a group as a timeline: generations with their causes, commits between, who flaps.

Rows of a group stand in order of the log, then what sums it up: ``flapping``, ``client`` (those
that cause most rebalances first), ``summary``. What the records do not tell is said so, or told by
a broker's logs (``coterie.insight.brokerlogs``). Where single groups are asked for, what all groups
of their partition did is told by its batches alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from coterie.insight.brokerlogs import server_log
from coterie.insight.groups import causes, epochs, flapping, outages, protocol_switches
from coterie.insight.groups.rebalances import counts, is_rebalance, replacements
from coterie.insight.groups.timeline import (
    DELETED,
    EMPTY,
    GENERATION,
    RECORDED,
    SOURCE,
    bound_waits,
)
from coterie.insight.offsets.commit_spans import Between, CommitSpans, Span
from coterie.insight.offsets.rewinds import MEMBERS, NOBODY, RESET, REWIND, UNKNOWN
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.commit_requests import BatchesTell
from coterie.insight.records.group_log import GroupRecord
from coterie.insight.records.partition_view import Life, PartitionView, RecordFilter
from coterie.insight.render.tables import shortened
from coterie.times import format_time

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
    "requests": "int64",  # that committed; null: no commits, or the batches do not tell
    "duration_ms": "int64",  # of `empty`: without members; of others: without an assignment
    "duration_source": "string",  # server log: so long; records: at most; null: see the event
    "file": "string",
    "position": "int64",
}
EVENTS = (
    *(GENERATION, "static_replacement", "rewritten", EMPTY, DELETED),
    *("commits", "epoch", REWIND, RESET, outages.CHANGE, outages.SILENCE),
    *(
        protocol_switches.UPGRADED,
        protocol_switches.DOWNGRADED,
        epochs.STATIC_LEAVE,
        epochs.MEMBER_CHANGED,
    ),
    *(server_log.REFUSED, "flapping", "client", "summary"),
)
COMMITS = "commits"
WATCH, REQUESTS = "watch", "requests"  # what is kept, beside the commits
WITHOUT_MEMBERS = (EMPTY, protocol_switches.UPGRADED, protocol_switches.DOWNGRADED)
CAUSES_IN_WORDS = 3
Row = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """What counts as flapping, and what a broker's logs say (``server_log.Told``)."""

    flap_count: int = 4
    flap_window_ms: int = 600_000
    told: tuple[server_log.BrokerLogLine, ...] = ()


def aggregates(view: PartitionView, ask: Ask) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return what counts commits and looks for outages while the log goes by."""
    return Lives(view, ask).aggregates()


def rows(view: PartitionView, ask: Ask) -> Iterator[Row]:
    """Yield the rows of each group, groups in Java's order of their ids."""
    lives = Lives(view, ask)
    lives.read()
    for group in view.group_ids:
        for row in lives.rows_of(group):
            yield {name: row.get(name) for name in FIELDS} | {
                "group_id": group,
                "offsets_partition": view.number,
                "causes": row.get("causes", []),
            }


class Lives:
    """What of a partition the lives of all its groups are told from."""

    def __init__(self, view: PartitionView, ask: Ask) -> None:
        self.view = view
        self.ask = ask
        told: dict[str, list[server_log.BrokerLogLine]] = {}
        for one in ask.told:
            told.setdefault(one.group, []).append(one)
        self.loads = [one.at_ms for one in told.pop("", ()) if one.generation == view.number]
        newer = view.newer_records.by_group()
        self.indexes = {group: server_log.Index(told.get(group, ())) for group in view.group_ids}
        self.events = {
            group: self.events_of(group, newer.get(group, ()), bool(told.get(group)))
            for group in view.group_ids
        }

    def aggregates(self) -> dict[str, tuple[RecordFilter, Aggregate]]:
        """Return what counts commits and looks for outages while the log goes by."""
        view = self.view
        found: tuple[Aggregate, ...] = (
            outages.Watch(view.trusted_from_ms, self.loads, in_parts=view.in_parts),
            BatchesTell(),
            CommitSpans(view, self.events),
        )
        names = WATCH, REQUESTS, COMMITS
        return {name: (view.record_filter, one) for name, one in zip(names, found, strict=True)}

    def read(self) -> None:
        """Have the log go by."""
        seen = aggregates_of(self.view, lambda view, ask: self.aggregates(), self.ask)
        self.committed: CommitSpans = seen[COMMITS]
        self.outages = seen[WATCH].outages(self.view)
        self.tell_requests: bool = seen[REQUESTS].tell

    def events_of(self, group: str, newer: Sequence[GroupRecord], is_told: bool) -> list[Row]:
        """Return what the records of a group tell, in order of its log."""
        events = protocol_switches.timeline_of(self.view.lives.get(group), newer)
        self.forget_gaps(events)
        if is_told:
            self.indexes[group].tell(events)
            for row in events:
                row["cause"] = row["cause"] if not row["causes"] else in_words(row)
        return sorted(events, key=lambda row: int(row["log_offset"]))

    def rows_of(self, group: str) -> list[Row]:
        """Return the rows of a group, in order of the log, and what sums it up."""
        life = self.view.lives.get(group)
        spans = self.committed.spans(group)
        among = self.in_order(spans)
        bound_waits(among)
        away = self.without_coordinator(life, among)
        among = sorted([*away, *among, *self.set_back(spans)], key=lambda row: row["log_offset"])
        among = self.indexes[group].with_refusals(among)
        asked = [row for row in among if self.view.is_asked(row["timestamp"])]
        whole = [row for row in asked if self.view.is_whole_at(row["timestamp"])]
        return [*asked, *sum_up(whole, self.ask), self.summary(whole, group)]

    def forget_gaps(self, events: list[Row]) -> None:
        """Say of generations that are not there where compaction may have taken them."""
        for before, row in pairwise(events):
            if not self.view.is_whole_at(before["timestamp"]):
                gaps = [one for one in row["causes"] if one["what"] == "gap"]
                for one in gaps:
                    one["what"] = "compacted"
                if gaps:
                    row["cause"] = in_words(row)

    def summary(self, rows: list[Row], group: str) -> Row:
        """Return a group's life in one row: counted since all of it is known."""
        counted = [row for row in rows if counts(self.view, row)]
        times = [row[name] for row in rows for name in ("timestamp", "until") if row.get(name)]
        waits = [row for row in counted if row["event"] == GENERATION]
        known = [row["duration_ms"] for row in waits if row.get(SOURCE) == server_log.SERVER]
        return {
            "event": "summary",
            "timestamp": min(times, default=None),
            "until": max(times, default=None),
            "count": sum(map(is_rebalance, counted)),
            "duration_ms": sum(known) if known else None,
            SOURCE: server_log.SERVER if known and len(waits) == len(known) else None,
            "cause": self.summary_text(counted, group),
        }

    def summary_text(self, rows: list[Row], group: str) -> str:
        """Return a group's life in one line."""
        begins_ms = self.view.begins_ms
        text = [causes.counted(sum(map(is_rebalance, rows)), "rebalance")]
        if taken := sum(map(replacements, rows)):
            text.append(f"{causes.counted(taken, 'static replacement')} without one")
        count, requests = self.committed.counted(group)
        text.append(committed(requests if self.tell_requests else None, count))
        text += without_members(rows)
        if begins_ms is not None and begins_ms == self.view.trusted_from_ms:
            text.append(f"since {format_time(begins_ms)}; compacted before")
        return ", ".join(text)

    def in_order(self, spans: list[Between]) -> list[Row]:
        """Return events in order of the log, with the commits between them as one row each time."""
        found: list[Row] = []
        for span, event in spans:
            if span.rows:
                found.append(commit_row(span, self.tell_requests))
            if event is not None:
                found.append(event)
        return found

    def set_back(self, spans: list[Between]) -> Iterator[Row]:
        """Yield what was set back, or from outside of the group."""
        first = next((event for _, event in spans if event is not None), None)
        began = first is None or (first["generation"] or 0) <= 1
        who = NOBODY if began and self.view.trusted_from_ms is None else UNKNOWN
        had_members = False
        all_told = self.view.trusted_from_ms is None
        for span, event in spans:
            if not all_told and self.begins_whole(span, event):
                # The state of that time is whole: a group without a record had no members. What
                # it had before is left out, as compaction may have left it out.
                all_told, who = True, NOBODY if who == UNKNOWN else who
                had_members = who == MEMBERS
            if span.rows:
                yield from span.asked.rows(who, had_members and who == NOBODY)
            if event is not None:
                who = MEMBERS if event["member_count"] else NOBODY
                had_members = had_members or who == MEMBERS

    def begins_whole(self, span: Span, event: Row | None) -> bool:
        """Whether a span is of a time of which compaction took nothing."""
        if span.first_ms is None:
            return event is None or self.view.is_whole_at(event["timestamp"])
        return self.view.is_whole_at(span.first_ms)

    def without_coordinator(self, life: Life | None, rows: list[Row]) -> Iterator[Row]:
        """Yield when the partition had no coordinator, since the group's first record."""
        places = [] if life is None else [row["log_offset"] for row in life.generations]
        for outage in self.outages:
            if outage.log_offset > rows[0]["log_offset"]:
                index = bisect_left(places, outage.log_offset) - 1
                state = None if life is None or index < 0 else life.state(index)
                yield outages.tell(outage, rows, outages.wait_of(state))


def in_words(row: Row) -> str:
    """Return a row's causes in words, once a log has told more of them."""
    text = causes.in_words(row["causes"], CAUSES_IN_WORDS)
    return (
        f"{text}; no members"
        if row["event"] in WITHOUT_MEMBERS and not row["member_count"]
        else text
    )


def commit_row(span: Span, tell_requests: bool = True) -> Row:
    """Return a row that counts neighbouring commits of a group."""
    requests = span.requests if tell_requests else None
    partitions = causes.counted(span.partitions, "partition")
    named = ", ".join(map(shortened, span.topics[:3])) + (
        f" and {len(span.topics) - 3} more" if len(span.topics) > 3 else ""
    )
    text = [f"{committed(requests, span.count)} to {partitions} of {named}"] if span.count else []
    for number, word in ((span.aborted, "aborted"), (span.pending, "pending")):
        text += [f"{causes.counted(number, 'offset')} of an {word} transaction"] if number else []
    if span.gone:
        text.append(f"{causes.counted(span.gone, 'offset')} deleted or expired")
    return {
        "event": COMMITS,
        "timestamp": span.from_ms,
        "until": span.until_ms,
        "log_offset": span.log_offset,
        "cause": "; ".join(text),
        "count": span.count,
        "requests": requests,
        "file": span.file,
        "position": span.position,
    }


def committed(requests: int | None, offsets: int) -> str:
    """Return how many commits there were, where batches tell, and of how many offsets."""
    if requests is None:
        return f"{causes.counted(offsets, 'offset')} committed"
    of = "" if requests == offsets else f" of {causes.counted(offsets, 'offset')}"
    return causes.counted(requests, "commit") + of


def sum_up(rows: list[Row], ask: Ask) -> Iterator[Row]:
    """Yield who flaps, and who causes rebalances."""
    moves = flapping.moves_of(rows)
    yield from flapping.flaps(moves, ask.flap_count, ask.flap_window_ms)
    yield from flapping.clients(moves)


def without_members(rows: list[Row]) -> Iterator[str]:
    """Yield how long a group was without members, if it was."""
    changes = (
        DELETED,
        protocol_switches.UPGRADED,
        protocol_switches.DOWNGRADED,
        epochs.EPOCH_EVENT,
    )
    ends = [row for row in rows if row["event"] in (*RECORDED, *changes)]
    empty = [row for row in ends if row["event"] == EMPTY]
    if empty:
        spent = sum(row.get("duration_ms") or 0 for row in empty)
        when = [f"for {spent / 1000:.1f} s"] if spent else []
        when += ["at the end of the log"] if ends[-1] is empty[-1] else []
        yield f"without members {' and '.join(when)}"
