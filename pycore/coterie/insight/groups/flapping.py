"""Clients that join and leave: their counts, and which of them are flapping.

A client is identified by its instance id, or by client id and host; its member ids change. It flaps
if it leaves and comes back, often enough within a window. So several members of one client that
start together do not flap, nor does a client that restarts once and stops. Planned changes are no
flapping either: a roll of a client's members one by one, a roll forth and back, a roll of all
clients. A client that came back under a new member id left and joined at once. The replacement of
a static member is neither; it is counted separately.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from coterie.insight.groups.causes import (
    RESTARTED,
    Cause,
    client_of,
    host_of,
    hosts_in_words,
    members_of,
)
from coterie.insight.groups.outages import BACK_MS, Outage
from coterie.insight.groups.rebalances import is_rebalance
from coterie.insight.records.partition_view import GroupHistory

FORTH_AND_BACK = 2  # moves that a loop has beyond those of a planned roll forth and back
ARRIVALS = ("joined",)
DEPARTURES = ("left_or_evicted", "left", "evicted")
TAKEN_OVER = "replaced"
OTHER = ("subscription_changed", "metadata_changed", "rejoined_first")
NAMED = 3  # clients in a text
Row = dict[str, Any]


class Move(NamedTuple):
    """One action of a client; ``joins``, ``leaves`` and ``takeovers`` are 0 or 1."""

    at_ms: int | None
    joins: int
    leaves: int
    log_offset: int
    cause: Cause
    takeovers: int
    in_rebalance: bool


class Turn(NamedTuple):
    """A move of a client that was away and joins, or that was there and leaves.

    ``members``: how many members of the client were there before it, and after it.
    """

    joins: bool
    move: Move
    members: tuple[int, int]


def moves_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Move]]:
    """Return the actions of each client, in log order."""
    by_client: dict[str, list[Move]] = {}
    for row in rows:
        for cause in row.get("causes", ()):
            what = cause["what"]
            if what in (*ARRIVALS, *DEPARTURES, *RESTARTED, TAKEN_OVER, *OTHER):
                joins, leaves = what in ARRIVALS + RESTARTED, what in DEPARTURES + RESTARTED
                place = row["timestamp"], joins, leaves, row["log_offset"], cause
                move = Move(*place, what == TAKEN_OVER, is_rebalance(row))
                by_client.setdefault(client_of(cause), []).append(move)
    return by_client


def moves_in(history: GroupHistory, without: Container[int] = ()) -> dict[str, list[Move]]:
    """Return the joins and leaves in a group, by its records alone, without decoding them.

    ``without``: numbers of records to skip: a change of protocol only looks like joins and leaves.
    """
    rows = []
    for index, record in enumerate(history.generations):
        if index in without:
            continue
        is_first = index == 0 and not history.from_start
        begins_late = is_first and (record["generation"] or 0) > 1
        nobody_moves = begins_late or record["tombstone"]
        causes = [] if nobody_moves else list(members_of(history, record))
        rows.append({**record, "causes": causes})
    return moves_of(rows)


def flaps(moves: dict[str, list[Move]], count: int, window_ms: int) -> Iterator[Row]:
    """Yield a row for each client that left and came back too often.

    It flaps from a leave to a return, if these two and its moves between them are at least
    ``count``, within the window. Its start and its final leave count as well if they are as near.
    A period is a planned change, and no flapping, if it has not even ``FORTH_AND_BACK`` moves more
    for each member of the client, or if it has just so many and another client at the same time.
    All periods of a client are one row.
    """
    needed = count + count % 2  # from a leave to a return
    least = needed + FORTH_AND_BACK
    periods_of = {
        client: [
            period
            for period in periods_in(turns(client_moves), needed, window_ms)
            if len(period) >= least * members_in(period)
        ]
        for client, client_moves in moves.items()
    }
    for client, periods in periods_of.items():
        others = [
            other for name, of_other in periods_of.items() if name != client for other in of_other
        ]
        chosen = [
            period
            for period in periods
            if len(period) > least or not any(is_with(period, other) for other in others)
        ]
        if chosen:
            yield _flap(named(client, moves[client]), chosen)


def periods_in(points: list[Turn], needed: int, window_ms: int) -> list[list[Turn]]:
    """Return the periods with so many moves from a leave to a return within the window."""
    times = [point.move.at_ms or 0 for point in points]
    flapping = [False] * len(points)
    for first in range(len(points) - needed + 1):
        last = first + needed - 1
        if not points[first].joins and times[last] - times[first] <= window_ms:
            flapping[first : last + 1] = [True] * needed
    edges = [
        at
        for at, (before, after) in enumerate(pairwise(flapping), 1)
        if before != after and times[at] - times[at - 1] <= window_ms
    ]
    for at in edges:
        flapping[at - 1] = flapping[at] = True
    periods: list[list[Turn]] = []
    for at, point in enumerate(points):
        if flapping[at]:
            goes_on = at and flapping[at - 1] and times[at] - times[at - 1] <= window_ms
            if not goes_on:
                periods.append([])
            periods[-1].append(point)
    return periods


def members_in(period: list[Turn]) -> int:
    """Return how many members of the client were there before or after a period, at least 1."""
    return max(1, period[0].members[0], period[-1].members[1])


def is_with(period: list[Turn], other: list[Turn]) -> bool:
    """Whether another period, with at least as many moves, overlaps with a period."""
    (first, last), (other_first, other_last) = span_of(period), span_of(other)
    return len(period) <= len(other) and first <= other_last and other_first <= last


def span_of(period: list[Turn]) -> tuple[int, int]:
    """Return the first and last time of a period (epoch ms)."""
    return period[0].move.at_ms or 0, period[-1].move.at_ms or 0


def turns(moves: list[Move]) -> list[Turn]:
    """Return a client's alternating joins and leaves, those with a time."""
    points: list[Turn] = []
    joined = None
    arrived = {move.cause["member_id"] for move in moves if move.joins or move.takeovers}
    departed = {
        move.cause["detail" if move.joins else "member_id"] for move in moves if move.leaves
    }
    members = len(departed - arrived)  # that were there before the first move
    for move in moves:
        # A restarted client left before it joined.
        for kind, times in ((False, move.leaves), (True, move.joins)):
            before, members = members, members + (times if kind else -times)
            if times and kind is not joined and move.at_ms is not None:
                points.append(Turn(kind, move, (before, members)))
                joined = kind
    return points


def without_outages(
    moves: Mapping[str, list[Move]], outages: Iterable[Outage]
) -> dict[str, list[Move]]:
    """Return the moves without those for which the partition's coordinator is to blame.

    When it is back, members that it does not know join again, and it evicts those that do not.
    """
    spans = [(outage.from_ms, outage.until_ms + BACK_MS) for outage in outages]
    return {client: list(_own_moves(of_client, spans)) for client, of_client in moves.items()}


def _own_moves(moves: Iterable[Move], spans: list[tuple[int, int]]) -> Iterator[Move]:
    away = 0  # members that left because of an outage
    for move in moves:
        at_ms = move.at_ms
        in_outage = at_ms is not None and any(begin <= at_ms <= end for begin, end in spans)
        if move.leaves and in_outage:
            away += 1 - move.joins
        elif move.joins and not move.leaves and away:
            away -= 1
        else:
            yield move


def _flap(client: str, periods: list[list[Turn]]) -> Row:
    points = [point for period in periods for point in period]
    times = [span_of(period) for period in periods]
    first, last = points[0].move, points[-1].move
    return {
        "event": "flapping",
        "timestamp": first.at_ms,
        "until": last.at_ms,
        "log_offset": first.log_offset,
        "last_log_offset": last.log_offset,
        "cause": flapping_text([client], len(points), times),
        "causes": [last.cause],
        "count": len(points),
        "periods": times,
        "members": list(
            dict.fromkeys(point.move.cause["member_id"] for point in points if point.joins)
        ),
    }


def flapping_text(clients: list[str], count: int, periods: list[tuple[int, int]]) -> str:
    """Return the flapping of some clients as text; ``periods``: their times (epoch ms)."""
    periods = joined_spans(periods)
    names = ", ".join(clients[:NAMED])
    if len(clients) > NAMED:
        names += f" and {len(clients) - NAMED} more"
    verb = "is" if len(clients) == 1 else "are"
    in_periods = f"{len(periods)} periods of " if len(periods) > 1 else ""
    total_ms = sum(until_ms - from_ms for from_ms, until_ms in periods)
    together = " together" if len(periods) > 1 else ""
    return (
        f"{names} {verb} flapping: {count} joins and leaves in {in_periods}"
        f"{total_ms / 1000:.1f} s{together}"
    )


def joined_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of time in order, those that overlap as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def clients(moves: dict[str, list[Move]]) -> Iterator[Row]:
    """Yield a row for each client, ordered by the number of rebalances that it took part in."""
    ranked = sorted(moves.items(), key=lambda item: (-_rebalances(item[1]), item[0]))
    for client, client_moves in ranked:
        times = [move.at_ms for move in client_moves if move.at_ms is not None]
        joins, leaves = sum(m.joins for m in client_moves), sum(m.leaves for m in client_moves)
        takeovers = sum(m.takeovers for m in client_moves)
        counts = [
            f"joined {joins}",
            *([f"replaced {takeovers}"] if takeovers else []),
            f"left {leaves}",
        ]
        yield {
            "event": "client",
            "timestamp": min(times, default=None),
            "until": max(times, default=None),
            "cause": f"{named(client, client_moves)}: {', '.join(counts)}",
            "causes": [client_moves[-1].cause],
            "count": _rebalances(client_moves),
        }


def named(client: str, moves: list[Move]) -> str:
    """Return a client's name; a static member's with its hosts, if all of them are known."""
    if moves[0].cause["group_instance_id"] is None:
        return client
    arrivals = [move.cause for move in moves if move.joins or move.takeovers]
    return client + hosts_in_words(map(host_of, arrivals))


def _rebalances(moves: list[Move]) -> int:
    """Return the number of rebalances that a client took part in."""
    return len({move.log_offset for move in moves if move.in_rebalance})
