"""What looks wrong in a log: each finding with the record that shows it.

Findings about commits are ``coterie.insight.offsets.commit_findings``; those about groups go
through their metadata records. A live state to compare with is another matter:
``coterie.insight.offsets.divergence``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from coterie.insight.brokerlogs.server_log import JOINED, REQUESTS, BrokerLogLine
from coterie.insight.groups import epochs, flapping, protocol_switches
from coterie.insight.groups.causes import hosts_in_words
from coterie.insight.groups.shared_group_ids import (
    CLIENT,
    Shared,
    several_protocols,
    two_applications,
)
from coterie.insight.offsets.commit_findings import LARGE_METADATA, NO_PROGRESS, REWIND, Findings
from coterie.insight.offsets.divergence import Live, divergences
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.partition_view import Client, Life, PartitionView, RecordFilter
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
    "detail": "string",  # what was found, in words
    "count": "int64",  # records that show it
    "offset": "int64",  # committed by the record
    "previous_offset": "int64",  # committed before it, or by the live state
    "group_instance_id": "string",
    "clients": [CLIENT],  # whom it is about, where that is known; topics null: not known
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
    """A record in which a static member's place went from one member id to another."""

    row: Row
    old: str
    new: str


@dataclass(frozen=True)
class Ask:
    """What to look for, and from what on it counts.

    Attributes
    ----------
    only : tuple of str
        Kinds to look for; empty: all.
    rewind_by : int
        A rewind goes back by so much at least.
    no_progress : int
        So many commits of one offset, one after another, are a finding.
    metadata_bytes : int
        Metadata of more bytes is large (a broker refuses more than 4096 by default).
    takeovers, window_ms : int
        A static id is fought over if it is taken over so many times within so many ms.
    flap_count, flap_window_ms : int
        A client flaps if it joins and leaves, by turns, so many times within so many ms.
    told : tuple of server_log.BrokerLogLine
        What a broker's request log says: who it was that took a static id over.
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
    told: tuple[BrokerLogLine, ...] = ()
    live: Live | None = None


def rows(view: PartitionView, ask: Ask) -> Iterator[Row]:
    """Yield one row a finding, by group as Java sorts them, kind, and place in the log."""
    found: list[Row] = []
    findings = aggregates_of(view, aggregates, ask).get(FINDINGS)
    if findings is not None:
        found += findings.rows()
    if any(wanted(ask, kind) for kind in OF_GROUPS):
        found += group_findings(view, ask)
    found = [row for row in found if view.is_asked(row["timestamp"])]
    if ask.live is not None and wanted(ask, DIVERGENCE):
        found += divergences(view, ask.live)
    order = {kind: number for number, kind in enumerate(KINDS)}
    found.sort(
        key=lambda row: (java_order(row["group_id"]), order[row["kind"]], row.get("log_offset", -1))
    )
    for row in found:
        nothing: Row = {"offsets_partition": view.number, "count": 1, "clients": []}
        yield dict.fromkeys(FIELDS) | nothing | row


def wanted(ask: Ask, kind: str) -> bool:
    """Whether a kind is looked for."""
    return not ask.only or kind in ask.only


def aggregates(view: PartitionView, ask: Ask) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return what looks through commits while the log goes by."""
    if not any(wanted(ask, kind) for kind in (REWIND, NO_PROGRESS, LARGE_METADATA)):
        return {}
    findings = Findings(
        ask.rewind_by if wanted(ask, REWIND) else None,
        ask.no_progress if wanted(ask, NO_PROGRESS) else None,
        ask.metadata_bytes if wanted(ask, LARGE_METADATA) else None,
        view.trusted_from_ms,
    )
    return {FINDINGS: (view.record_filter, findings)}


def group_findings(view: PartitionView, ask: Ask) -> Iterator[Row]:
    """Yield what the metadata records of each group show."""
    for life in view.lives.values():
        if wanted(ask, GENERATION_GAP):
            yield from generation_gaps(life, view.trusted_from_ms)
        if wanted(ask, STATIC_FIGHT):
            yield from static_fights(view, life, ask)
    if wanted(ask, FLAPPING):
        yield from flapping_clients(view, ask)
    if wanted(ask, PROTOCOLS):
        yield from shared_ids(PROTOCOLS, several_protocols(view))
    if wanted(ask, APPLICATIONS):
        yield from shared_ids(APPLICATIONS, two_applications(view))


def time_of(row: Row) -> int | None:
    """Return a metadata record's own timestamp; None: it has none (message format 0)."""
    time: int | None = row["timestamp"]
    return None if time is None or time < 0 else time


def record_of(row: Row, before: Row | None = None) -> Row:
    """Return the fields that name a metadata record, and the one before."""
    return {
        "timestamp": time_of(row),
        "log_offset": row["log_offset"],
        "file": row["file"],
        "position": row["position"],
        "previous_log_offset": None if before is None else before["log_offset"],
    }


def generation_gaps(life: Life, trusted_from_ms: int | None) -> Iterator[Row]:
    """Yield where generations are missing between two records, or go back.

    Where the log was compacted, a record may be gone: what lies before says nothing.
    """
    for before, row in pairwise(life.generations):
        if row["tombstone"] or before["tombstone"]:
            continue
        if trusted_from_ms is not None and (time_of(before) or 0) < trusted_from_ms:
            continue
        was, now = before["generation"], row["generation"]
        if was <= now <= was + 1:
            continue
        told = f"from generation {was} back to {now}"
        if now > was:
            first, last = was + 1, now - 1
            told = f"generation {first} has no record"
            if last > first:
                told = f"generations {first} to {last} have no record"
        yield {
            "kind": GENERATION_GAP,
            "group_id": life.group,
            "detail": told,
            "count": abs(now - was - 1),
            **record_of(row, before),
        }


def static_fights(view: PartitionView, life: Life, ask: Ask) -> Iterator[Row]:
    """Yield each static id that is taken over too often: the takeover that makes it so."""
    taken: dict[str, list[Takeover]] = {}
    for row in life.generations:
        if not view.is_whole_at(time_of(row)):
            continue
        for instance, old, new in row["replaced"]:
            taken.setdefault(instance, []).append(Takeover(row, old, new))
    clients = joined_by(ask.told, life.group)
    for instance, takeovers in taken.items():
        times = [time_of(one.row) or 0 for one in takeovers]
        spans = [
            index
            for index in range(ask.takeovers - 1, len(times))
            if times[index] - times[index - ask.takeovers + 1] <= ask.window_ms
        ]
        if not spans:
            continue
        row, first = takeovers[spans[0]].row, takeovers[spans[0] - ask.takeovers + 1].row
        whose, known = rivals(life, takeovers, clients)
        yield {
            "kind": STATIC_FIGHT,
            "group_id": life.group,
            "detail": f"{shortened(instance)} taken over {len(takeovers)} times{whose}",
            "count": len(takeovers),
            "group_instance_id": instance,
            "clients": known,
            **record_of(row, first),
        }


def joined_by(told: Iterable[BrokerLogLine], group: str) -> dict[str | None, Client]:
    """Return member id -> the client whose JoinGroup got it, by a request log."""
    return {
        one.member_id: Client(one.client_id, one.client_host, None)
        for one in told
        if one.group == group and one.what == JOINED
    }


def rivals(
    life: Life, takeovers: list[Takeover], clients: dict[str | None, Client]
) -> tuple[str, list[Row]]:
    """Return whose takeovers they were, in words and as rows of ``sharing.CLIENT``.

    The records keep the client id and host of the first member (GroupMetadata.replaceStaticMember
    and ClassicGroup.replaceStaticMember), so only a request log tells.
    """
    old = takeovers[0].old
    holder = clients.get(old) or (None if old in life.taken_over else life.clients.get(old))
    known = Counter(client[:2] for one in takeovers if (client := clients.get(one.new)))
    if not known:
        holder_name = "" if holder is None else f", {named(holder)}"
        return (
            f"; the records keep the first client{holder_name}: they cannot tell who took it over",
            [],
        )
    text = [f"by {named(client)} {how_often(number)}" for client, number in known.most_common()]
    if known.total() < len(takeovers):
        text.append(f"{len(takeovers) - known.total()} not in the request log")
    if holder is not None:
        text.append(f"first held by {named(holder)}")
    each = dict.fromkeys([*([holder[:2]] if holder else []), *known])
    rows = [{"client_id": name, "client_host": host, "topics": None} for name, host in each]
    return f": {', '.join(text)} [{REQUESTS}]", rows


def named(client: tuple[str | None, ...]) -> str:
    """Return a client id and host in words."""
    return shortened(client[0] or "a client") + hosts_in_words([client[1]])


def how_often(number: int) -> str:
    """Return how often something was, in words."""
    return "once" if number == 1 else f"{number} times"


def flapping_clients(view: PartitionView, ask: Ask) -> Iterator[Row]:
    """Yield each stretch in which a client of a group came and went too often."""
    newer = view.newer_records.by_group()
    for group in dict.fromkeys([*view.lives, *newer]):
        life, records = view.lives.get(group), newer.get(group, ())
        changed = protocol_switches.switches(life, records)
        moves = {} if life is None else flapping.moves_in(life, changed)
        rows = epochs.timeline(records, protocol_switches.told_epochs(changed, life))
        rows += protocol_switches.rows_of(life, changed)
        rows.sort(key=lambda row: int(row["log_offset"]))
        for client, theirs in flapping.moves_of(rows).items():
            both = [*moves.get(client, ()), *theirs]
            moves[client] = sorted(both, key=lambda move: move.log_offset)
        moves = {
            client: [move for move in theirs if view.is_whole_at(move.at_ms)]
            for client, theirs in moves.items()
        }
        by_offset = {row["log_offset"]: row for row in (*rows, *(life.generations if life else ()))}
        for flap in flapping.flaps(moves, ask.flap_count, ask.flap_window_ms):
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


def shared_ids(kind: str, found: Iterable[Shared]) -> Iterator[Row]:
    """Yield a finding for each group id that several applications share."""
    for one in found:
        yield {
            "kind": kind,
            "group_id": one.group,
            "detail": one.detail,
            "count": one.records,
            "clients": [client.as_row() for client in one.clients],
            **record_of(one.row, one.before),
        }
