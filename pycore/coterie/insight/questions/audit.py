"""What looks wrong in a log: each finding with the record that shows it.

``coterie.insight.offsets.commit_findings`` checks commits; this module checks the metadata records
of groups. ``coterie.insight.offsets.divergence`` compares with a live state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from coterie.insight.brokerlogs.lines import REQUESTS, BrokerLogLine
from coterie.insight.brokerlogs.server_log import JOINED
from coterie.insight.groups import epochs, flapping, protocol_switches
from coterie.insight.groups.causes import hosts_in_words
from coterie.insight.groups.shared_group_ids import (
    CLIENT,
    SharedGroupId,
    several_protocols,
    two_applications,
)
from coterie.insight.offsets.commit_findings import (
    LARGE_METADATA,
    NO_PROGRESS,
    REWIND,
    CommitFindings,
)
from coterie.insight.offsets.divergence import Live, divergences
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.partition_view import Client, GroupHistory, PartitionView, RecordFilter
from coterie.insight.render.tables import shortened
from coterie.ordering import java_order

NAME = "audit"
FINDINGS = "findings"
FIELDS = {
    "kind": "string",  # of KINDS
    "group_id": "string",
    "offsets_partition": "int32",
    "topic": "string",
    "partition": "int32",
    "detail": "string",  # the finding as text
    "count": "int64",  # records that show it
    "offset": "int64",  # committed by the record
    "previous_offset": "int64",  # committed before it, or by the live state
    "group_instance_id": "string",
    "clients": [CLIENT],  # the clients involved, if known; topics null: not known
    "timestamp": "timestamp",
    "log_offset": "int64",  # the record that shows it, and where it lies
    "file": "string",
    "position": "int64",
    "previous_log_offset": "int64",  # the record before it, or the first of several
}
KINDS = {
    "rewind": "a commit that goes back behind the one before it",
    "no_progress": "the same offset committed again and again",
    "large_metadata": "commits that carry much metadata",
    "generation_gap": "generations that no record tells of, or that go back",
    "static_fight": "a static member's id taken over again and again",
    "flapping": "a client that comes and goes again and again",
    "protocols": "one group id, several protocols",
    "applications": "one group id, members whose topics have nothing in common",
    "divergence": "a live state that is not the log's",
}
GENERATION_GAP, STATIC_FIGHT, FLAPPING, PROTOCOLS, APPLICATIONS, DIVERGENCE = list(KINDS)[3:]
OF_GROUPS = (GENERATION_GAP, STATIC_FIGHT, FLAPPING, PROTOCOLS, APPLICATIONS)
Row = dict[str, Any]


class Takeover(NamedTuple):
    """A record in which a static member has a new member id."""

    row: Row
    old: str
    new: str


@dataclass(frozen=True)
class Parameters:
    """What to look for, and the thresholds.

    Attributes
    ----------
    only : tuple of str
        Kinds to look for; empty: all.
    rewind_by : int
        The least number of offsets that a rewind goes back.
    no_progress : int
        The least number of successive commits of one offset that is a finding.
    metadata_bytes : int
        Metadata of more bytes are large (by default, a broker refuses more than 4096).
    takeovers, window_ms : int
        A static id is contested if it is taken over this many times within this window.
    flap_count, flap_window_ms : int
        A client flaps if it joins and leaves alternately this many times within this window.
    broker_log_lines : tuple of server_log.BrokerLogLine
        Lines of a broker's request log: they name the client that took over a static id.
    live : Live or None
        The state to compare with.
    """

    only: tuple[str, ...] = ()
    rewind_by: int = 1
    no_progress: int = 10
    metadata_bytes: int = 1024
    takeovers: int = 3
    window_ms: int = 600_000
    flap_count: int = 4
    flap_window_ms: int = 600_000
    broker_log_lines: tuple[BrokerLogLine, ...] = ()
    live: Live | None = None


def rows(view: PartitionView, parameters: Parameters) -> Iterator[Row]:
    """Yield one row for each finding, by group in Java's order, kind, and position in the log."""
    found_rows: list[Row] = []
    findings = aggregates_of(view, aggregates, parameters).get(FINDINGS)
    if findings is not None:
        found_rows += findings.rows()
    if any(is_wanted(parameters, kind) for kind in OF_GROUPS):
        found_rows += group_findings(view, parameters)
    found_rows = [
        row for row in found_rows if view.is_requested(row["timestamp"], row["log_offset"])
    ]
    if parameters.live is not None and is_wanted(parameters, DIVERGENCE):
        found_rows += divergences(view, parameters.live)
    order = {kind: number for number, kind in enumerate(KINDS)}
    found_rows.sort(
        key=lambda row: (java_order(row["group_id"]), order[row["kind"]], row.get("log_offset", -1))
    )
    for row in found_rows:
        blank: Row = {"offsets_partition": view.number, "count": 1, "clients": []}
        yield dict.fromkeys(FIELDS) | blank | row


def is_wanted(parameters: Parameters, kind: str) -> bool:
    """Whether a kind of finding is requested."""
    return not parameters.only or kind in parameters.only


def aggregates(
    view: PartitionView, parameters: Parameters
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return the aggregate that finds what is wrong in commits."""
    if not any(is_wanted(parameters, kind) for kind in (REWIND, NO_PROGRESS, LARGE_METADATA)):
        return {}
    findings = CommitFindings(
        parameters.rewind_by if is_wanted(parameters, REWIND) else None,
        parameters.no_progress if is_wanted(parameters, NO_PROGRESS) else None,
        parameters.metadata_bytes if is_wanted(parameters, LARGE_METADATA) else None,
        view.trusted_from_ms,
    )
    return {FINDINGS: (view.record_filter, findings)}


def group_findings(view: PartitionView, parameters: Parameters) -> Iterator[Row]:
    """Yield the findings in the metadata records of each group."""
    for history in view.histories.values():
        if is_wanted(parameters, GENERATION_GAP):
            yield from generation_gaps(history, view.trusted_from_ms)
        if is_wanted(parameters, STATIC_FIGHT):
            yield from static_fights(view, history, parameters)
    if is_wanted(parameters, FLAPPING):
        yield from flapping_clients(view, parameters)
    if is_wanted(parameters, PROTOCOLS):
        yield from shared_ids(PROTOCOLS, several_protocols(view))
    if is_wanted(parameters, APPLICATIONS):
        yield from shared_ids(APPLICATIONS, two_applications(view))


def time_of(row: Row) -> int | None:
    """Return a metadata record's own timestamp; None: it has none (message format 0)."""
    time: int | None = row["timestamp"]
    return None if time is None or time < 0 else time


def record_of(row: Row, before: Row | None = None) -> Row:
    """Return the fields that identify a metadata record and the record before it."""
    return {
        "timestamp": time_of(row),
        "log_offset": row["log_offset"],
        "file": row["file"],
        "position": row["position"],
        "previous_log_offset": None if before is None else before["log_offset"],
    }


def generation_gaps(history: GroupHistory, trusted_from_ms: int | None) -> Iterator[Row]:
    """Yield the gaps between the generations of two records, and generations that go back.

    Records before ``trusted_from_ms`` are skipped, since compaction may have removed some.
    """
    for before, row in pairwise(history.generations):
        if row["tombstone"] or before["tombstone"]:
            continue
        if trusted_from_ms is not None and (time_of(before) or 0) < trusted_from_ms:
            continue
        old, new = before["generation"], row["generation"]
        if old <= new <= old + 1:
            continue
        detail = f"from generation {old} back to {new}"
        if new > old:
            first, last = old + 1, new - 1
            detail = f"generation {first} has no record"
            if last > first:
                detail = f"generations {first} to {last} have no record"
        yield {
            "kind": GENERATION_GAP,
            "group_id": history.group,
            "detail": detail,
            "count": abs(new - old - 1),
            **record_of(row, before),
        }


def static_fights(
    view: PartitionView, history: GroupHistory, parameters: Parameters
) -> Iterator[Row]:
    """Yield each static id that is taken over too often, with the takeover at the limit."""
    by_instance: dict[str, list[Takeover]] = {}
    for row in history.generations:
        if not view.is_complete_at(time_of(row)):
            continue
        for instance, old, new in row["replaced"]:
            by_instance.setdefault(instance, []).append(Takeover(row, old, new))
    clients = joined_by(parameters.broker_log_lines, history.group)
    for instance, takeovers in by_instance.items():
        times = [time_of(takeover.row) or 0 for takeover in takeovers]
        spans = [
            index
            for index in range(parameters.takeovers - 1, len(times))
            if times[index] - times[index - parameters.takeovers + 1] <= parameters.window_ms
        ]
        if not spans:
            continue
        row, first = takeovers[spans[0]].row, takeovers[spans[0] - parameters.takeovers + 1].row
        rivals_text, client_rows = rivals(history, takeovers, clients)
        yield {
            "kind": STATIC_FIGHT,
            "group_id": history.group,
            "detail": f"{shortened(instance)} taken over {len(takeovers)} times{rivals_text}",
            "count": len(takeovers),
            "group_instance_id": instance,
            "clients": client_rows,
            **record_of(row, first),
        }


def joined_by(lines: Iterable[BrokerLogLine], group: str) -> dict[str | None, Client]:
    """Return member id -> the client that it was assigned to, by a request log."""
    return {
        line.member_id: Client(line.client_id, line.client_host, None)
        for line in lines
        if line.group == group and line.what == JOINED
    }


def rivals(
    history: GroupHistory, takeovers: list[Takeover], clients: dict[str | None, Client]
) -> tuple[str, list[Row]]:
    """Return the clients of takeovers, as text and as rows of ``shared_group_ids.CLIENT``.

    The records keep the client id and host of the first member (GroupMetadata.replaceStaticMember
    and ClassicGroup.replaceStaticMember), so only a request log names the others.
    """
    old = takeovers[0].old
    holder = clients.get(old) or (None if old in history.taken_over else history.clients.get(old))
    takeover_counts = Counter(
        client[:2] for takeover in takeovers if (client := clients.get(takeover.new))
    )
    if not takeover_counts:
        holder_name = "" if holder is None else f", {named(holder)}"
        return (
            f"; the records keep the first client{holder_name}: they cannot tell who took it over",
            [],
        )
    text = [
        f"by {named(client)} {how_often(number)}"
        for client, number in takeover_counts.most_common()
    ]
    if takeover_counts.total() < len(takeovers):
        text.append(f"{len(takeovers) - takeover_counts.total()} not in the request log")
    if holder is not None:
        text.append(f"first held by {named(holder)}")
    distinct = dict.fromkeys([*([holder[:2]] if holder else []), *takeover_counts])
    rows = [{"client_id": name, "client_host": host, "topics": None} for name, host in distinct]
    return f": {', '.join(text)} [{REQUESTS}]", rows


def named(client: tuple[str | None, ...]) -> str:
    """Return a client id and host as text."""
    return shortened(client[0] or "a client") + hosts_in_words([client[1]])


def how_often(number: int) -> str:
    """Return a number of times as text."""
    return "once" if number == 1 else f"{number} times"


def flapping_clients(view: PartitionView, parameters: Parameters) -> Iterator[Row]:
    """Yield each period in which a client of a group joined and left too often."""
    newer = view.newer_records.by_group()
    for group in dict.fromkeys([*view.histories, *newer]):
        history, records = view.histories.get(group), newer.get(group, ())
        switched = protocol_switches.switches(history, records)
        moves = {} if history is None else flapping.moves_in(history, switched)
        rows = epochs.timeline(records, protocol_switches.switch_epochs(switched, history))
        rows += protocol_switches.rows_of(history, switched)
        rows.sort(key=lambda row: int(row["log_offset"]))
        for client, client_moves in flapping.moves_of(rows).items():
            all_moves = [*moves.get(client, ()), *client_moves]
            moves[client] = sorted(all_moves, key=lambda move: move.log_offset)
        moves = {
            client: [move for move in client_moves if view.is_complete_at(move.at_ms)]
            for client, client_moves in moves.items()
        }
        by_offset = {
            row["log_offset"]: row for row in (*rows, *(history.generations if history else ()))
        }
        for flap in flapping.flaps(moves, parameters.flap_count, parameters.flap_window_ms):
            cause = flap["causes"][0]
            named = {name: cause[name] for name in ("client_id", "client_host")}
            yield {
                "kind": FLAPPING,
                "group_id": group,
                "detail": flap["cause"],
                "count": flap["count"],
                "group_instance_id": cause["group_instance_id"],
                "clients": [named | {"topics": None}],
                **record_of(by_offset[flap["last_log_offset"]], flap),
            }


def shared_ids(kind: str, shared: Iterable[SharedGroupId]) -> Iterator[Row]:
    """Yield a finding for each group id that several applications share."""
    for group_id in shared:
        yield {
            "kind": kind,
            "group_id": group_id.group,
            "detail": group_id.detail,
            "count": group_id.records,
            "clients": [client.as_row() for client in group_id.clients],
            **record_of(group_id.row, group_id.before),
        }
