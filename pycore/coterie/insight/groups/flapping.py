"""Clients that come and go: counted, and called flapping by a rule.

A client is its instance id, or its client id and host; its member ids change. The rule: so many
joins and leaves within so long a time, each after one of the other kind: several members of one
client that start together do not flap. One that came back under a new member id left and joined at
once. A static member that was taken over did neither; that is counted by itself.
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
from coterie.insight.records.partition_view import Life

ARRIVALS = ("joined",)
DEPARTURES = ("left_or_evicted", "left", "evicted")
TAKEN_OVER = "replaced"
OTHER = ("subscription_changed", "rejoined_first")
Row = dict[str, Any]


class Move(NamedTuple):
    """One thing that a client did; ``joins``, ``leaves`` and ``takeovers`` count 0 or 1."""

    at_ms: int | None
    joins: int
    leaves: int
    log_offset: int
    cause: Cause
    takeovers: int = 0
    in_rebalance: bool = True


def moves_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Move]]:
    """Return what each client did, in order of the log."""
    found: dict[str, list[Move]] = {}
    for row in rows:
        for cause in row.get("causes", ()):
            what = cause["what"]
            if what in (*ARRIVALS, *DEPARTURES, *RESTARTED, TAKEN_OVER, *OTHER):
                joins, leaves = what in ARRIVALS + RESTARTED, what in DEPARTURES + RESTARTED
                place = row["timestamp"], joins, leaves, row["log_offset"], cause
                move = Move(*place, what == TAKEN_OVER, is_rebalance(row))
                found.setdefault(client_of(cause), []).append(move)
    return found


def moves_in(life: Life, without: Container[int] = ()) -> dict[str, list[Move]]:
    """Return who came and went in a group, by its records alone; none of them is decoded.

    ``without``: numbers of records in which nobody did, whatever it looks like.
    """
    rows = []
    for index, record in enumerate(life.generations):
        if index in without:
            continue
        begins_late = index == 0 and (record["generation"] or 0) > 1
        nobody_moves = begins_late or record["tombstone"]
        causes = [] if nobody_moves else list(members_of(life, record))
        rows.append({**record, "causes": causes})
    return moves_of(rows)


def flaps(moves: dict[str, list[Move]], count: int, window_ms: int) -> Iterator[Row]:
    """Yield a row for each stretch in which a client joined and left too often."""
    for client, theirs in moves.items():
        points = turns(theirs)
        times = [move.at_ms for move in points if move.at_ms is not None]  # all have one
        stretch: list[int] = []
        for first in range(len(points) - count + 1):
            last = first + count - 1
            if times[last] - times[first] > window_ms:
                continue
            if stretch and first > stretch[1]:
                yield _flap(named(client, theirs), points[stretch[0] : stretch[1] + 1])
                stretch = []
            stretch = [stretch[0] if stretch else first, last]
        if stretch:
            yield _flap(named(client, theirs), points[stretch[0] : stretch[1] + 1])


def turns(moves: list[Move]) -> list[Move]:
    """Return a client's joins and leaves that have a time, each after one of the other kind."""
    points: list[Move] = []
    joined = None
    for move in moves:
        if move.at_ms is None:
            continue
        # What came back in one generation had gone before it came.
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
    """Yield a row a client, those first that had a part in most rebalances."""
    ranked = sorted(moves.items(), key=lambda item: (-_rebalances(item[1]), item[0]))
    for client, theirs in ranked:
        times = [move.at_ms for move in theirs if move.at_ms is not None]
        joins, leaves = sum(m.joins for m in theirs), sum(m.leaves for m in theirs)
        taken = sum(m.takeovers for m in theirs)
        told = [f"joined {joins}", *([f"replaced {taken}"] if taken else []), f"left {leaves}"]
        yield {
            "event": "client",
            "timestamp": min(times, default=None),
            "until": max(times, default=None),
            "cause": f"{named(client, theirs)}: {', '.join(told)}",
            "causes": [theirs[-1].cause],
            "count": _rebalances(theirs),
        }


def named(client: str, moves: list[Move]) -> str:
    """Return a client with its hosts; of a static member where all that took it over are known."""
    if moves[0].cause["group_instance_id"] is None:
        return client
    came = [move.cause for move in moves if move.joins or move.takeovers]
    return client + hosts_in_words(map(host_of, came))


def _rebalances(moves: list[Move]) -> int:
    """Return in how many rebalances a client had a part."""
    return len({move.log_offset for move in moves if move.in_rebalance})
