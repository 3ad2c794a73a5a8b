"""Findings in the metadata records of groups, for the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from coterie.insight.groups import flapping, protocol_switches
from coterie.insight.groups.causes import client_of, client_text
from coterie.insight.groups.outages import Outage
from coterie.insight.groups.shared_group_ids import SharedGroupId
from coterie.insight.offsets.commit_findings import AGAIN
from coterie.insight.questions.server_log import JOINED
from coterie.insight.questions.server_log_lines import REQUESTS, BrokerLogLine
from coterie.insight.records.partition_view import Client, GroupHistory, PartitionView
from coterie.insight.tables import shortened

GENERATION_GAP, STATIC_FIGHT, FLAPPING = "generation_gap", "static_fight", "flapping"
MEMBERS = 20  # ids of members in a row
Row = dict[str, Any]


class Takeover(NamedTuple):
    """A record in which a static member has a new member id."""

    row: Row
    old: str
    new: str


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
            "loop": AGAIN,
        }


def static_fights(
    view: PartitionView,
    history: GroupHistory,
    limit: int,
    window_ms: int,
    broker_log_lines: Iterable[BrokerLogLine],
) -> Iterator[Row]:
    """Yield each static id that is taken over too often, with the takeover at the limit."""
    by_instance: dict[str, list[Takeover]] = {}
    for row in history.generations:
        if not view.is_complete_at(time_of(row)):
            continue
        for instance, old, new in row["replaced"]:
            by_instance.setdefault(instance, []).append(Takeover(row, old, new))
    clients = joined_by(broker_log_lines, history.group)
    for instance, takeovers in by_instance.items():
        times = [time_of(takeover.row) or 0 for takeover in takeovers]
        spans = [
            index
            for index in range(limit - 1, len(times))
            if times[index] - times[index - limit + 1] <= window_ms
        ]
        if not spans:
            continue
        row, first = takeovers[spans[0]].row, takeovers[spans[0] - limit + 1].row
        rivals_text, client_rows = rivals(history, takeovers, clients)
        yield {
            "kind": STATIC_FIGHT,
            "group_id": history.group,
            "detail": f"{shortened(instance)} taken over {len(takeovers)} times{rivals_text}",
            "count": len(takeovers),
            "group_instance_id": instance,
            "clients": client_rows,
            **record_of(row, first),
            **{"first": times[0], "last": times[-1], "loop": AGAIN},
            "members": list(dict.fromkeys(takeover.new for takeover in takeovers))[-MEMBERS:],
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
    return client_text(client[0], client[1])


def how_often(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def flapping_clients(
    view: PartitionView, count: int, window_ms: int, outages: Iterable[Outage]
) -> Iterator[Row]:
    """Yield each client that left and came back too often, not only because of outages."""
    for group in dict.fromkeys([*view.histories, *view.newer_by_group]):
        history = view.histories.get(group)
        switched, of_newer = protocol_switches.epochs_in(view, group)
        moves = {} if history is None else flapping.moves_in(history, switched)
        rows = [*of_newer.rows, *protocol_switches.rows_of(history, switched)]
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
        own_moves = flapping.without_outages(moves, outages)
        for flap in flapping.flaps(own_moves, count, window_ms):
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
                **{"first": flap["timestamp"], "last": flap["until"]},
                "members": flap["members"][-MEMBERS:],
                **{"client": client_of(cause), "periods": flap["periods"], "loop": AGAIN},
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
