"""Clients that join and leave: their counts, and which of them are flapping.

A client is identified by its instance id, or by client id and host; its member ids change. It flaps
if it joins and leaves alternately, often enough within a window. So several members of one client
that start together do not flap. A client that came back under a new member id left and joined at
once. The replacement of a static member is neither; it is counted separately.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from coterie.insight.groups.causes import (
    RESTARTED,
    Cause,
    client_of,
    host_of,
    hosts_in_words,
    members_of,
)
from coterie.insight.groups.rebalances import is_rebalance
from coterie.insight.records.partition_view import GroupHistory

ARRIVALS = ("joined",)
DEPARTURES = ("left_or_evicted", "left", "evicted")
TAKEN_OVER = "replaced"
OTHER = ("subscription_changed", "rejoined_first")
Row = dict[str, Any]


class Move(NamedTuple):
    """One action of a client; ``joins``, ``leaves`` and ``takeovers`` are 0 or 1."""

    at_ms: int | None
    joins: int
    leaves: int
    log_offset: int
    cause: Cause
    takeovers: int = 0
    in_rebalance: bool = True


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
    """Yield a row for each period in which a client joined and left too often."""
    for client, client_moves in moves.items():
        alternating = turns(client_moves)
        times = [move.at_ms for move in alternating if move.at_ms is not None]  # all known
        period: list[int] = []
        for first in range(len(alternating) - count + 1):
            last = first + count - 1
            if times[last] - times[first] > window_ms:
                continue
            if period and first > period[1]:
                yield _flap(named(client, client_moves), alternating[period[0] : period[1] + 1])
                period = []
            period = [period[0] if period else first, last]
        if period:
            yield _flap(named(client, client_moves), alternating[period[0] : period[1] + 1])


def turns(moves: list[Move]) -> list[Move]:
    """Return a client's alternating joins and leaves, those with a time."""
    points: list[Move] = []
    joined = None
    for move in moves:
        if move.at_ms is None:
            continue
        # A restarted client left before it joined.
        for kind, times in ((False, move.leaves), (True, move.joins)):
            if times and kind is not joined:
                points.append(move)
                joined = kind
    return points


def _flap(client: str, points: list[Move]) -> Row:
    begin, end = points[0].at_ms, points[-1].at_ms
    assert begin is not None
    assert end is not None
    return {
        "event": "flapping",
        "timestamp": begin,
        "until": end,
        "log_offset": points[0].log_offset,
        "last_log_offset": points[-1].log_offset,
        "cause": f"{client} is flapping: {len(points)} joins and leaves in "
        f"{(end - begin) / 1000:.1f} s",
        "causes": [points[-1].cause],
        "count": len(points),
    }


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
