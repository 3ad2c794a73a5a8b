"""Clients that come and go: counted, and called flapping by a rule.

A client is its instance id, or its client id and host; its member ids change. The rule: so many
joins and leaves within so long a time. One that came back under a new member id made two at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.insight.causes import Cause, who

ARRIVALS = ("joined", "replaced")
DEPARTURES = ("left_or_evicted", "left", "evicted")
BOTH = ("restarted", "restarted_left", "restarted_evicted")
OTHER = ("subscription_changed", "rejoined_first")
Row = dict[str, Any]


class Move(NamedTuple):
    """One thing that a client did; ``joins`` and ``leaves`` count 0 or 1."""

    at_ms: int | None
    joins: int
    leaves: int
    log_offset: int
    cause: Cause


def moves_of(rows: list[Row]) -> dict[str, list[Move]]:
    """Return what each client did, in order of the log."""
    found: dict[str, list[Move]] = {}
    for row in rows:
        for cause in row.get("causes", ()):
            what = cause["what"]
            if what in ARRIVALS + DEPARTURES + BOTH + OTHER:
                joins, leaves = what in ARRIVALS + BOTH, what in DEPARTURES + BOTH
                move = Move(row["timestamp"], joins, leaves, row["log_offset"], cause)
                found.setdefault(who(cause), []).append(move)
    return found


def flaps(moves: dict[str, list[Move]], count: int, window_ms: int) -> Iterator[Row]:
    """Yield a row for each stretch in which a client joined and left too often."""
    for client, theirs in moves.items():
        timed = [move for move in theirs if move.at_ms is not None]
        points = [move for move in timed for _ in range(move.joins + move.leaves)]
        stretch: list[int] = []
        for first in range(len(points) - count + 1):
            last = first + count - 1
            if points[last].at_ms - points[first].at_ms > window_ms:  # type: ignore[operator]
                continue
            if stretch and first > stretch[1]:
                yield _flap(client, points[stretch[0] : stretch[1] + 1])
                stretch = []
            stretch = [stretch[0] if stretch else first, last]
        if stretch:
            yield _flap(client, points[stretch[0] : stretch[1] + 1])


def _flap(client: str, points: list[Move]) -> Row:
    begin, end = points[0].at_ms, points[-1].at_ms
    assert begin is not None
    assert end is not None
    return {
        "event": "flapping",
        "timestamp": begin,
        "until": end,
        "log_offset": points[0].log_offset,
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
        yield {
            "event": "client",
            "timestamp": min(times, default=None),
            "until": max(times, default=None),
            "cause": f"{client}: joined {joins}, left {leaves}",
            "causes": [theirs[-1].cause],
            "count": _rebalances(theirs),
        }


def _rebalances(moves: list[Move]) -> int:
    """Return in how many records a client had a part."""
    return len({move.log_offset for move in moves})
