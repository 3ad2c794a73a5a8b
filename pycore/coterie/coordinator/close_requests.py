"""Swap requests that came within a millisecond of each other.

A request log does not say which of two such requests of different connections came first, but the
answers often do: a join that was answered with the next generation came after the one that began
the rebalance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from coterie.wire.exchanges import Exchange

ATTEMPTS = 8  # for one wrong answer
CLOSE_MS = 1.0  # times in a log are cut to milliseconds
Step = tuple[Exchange, dict[str, Any], "dict[str, Any] | None"]


def group_of(step: Step) -> str | None:
    """Return the group of a request; None: it is about no group, or several."""
    group: str | None = step[1].get("group_id")
    return group


def swaps(steps: Sequence[Step], at: int) -> Iterator[list[Step]]:
    """Yield the orders of the steps that may give another answer at ``at``, the nearest first."""
    for first, second in close_pairs(steps, at):
        yield swapped(steps, first, second)


def close_pairs(steps: Sequence[Step], at: int) -> Iterator[tuple[int, int]]:
    """Yield neighbours of a group that may have come in the other order, the nearest first.

    Both came before the response at ``at``. Requests without a group belong to every group.
    """
    group, sent_ms = group_of(steps[at]), steps[at][0].sent_ms
    own = [
        number
        for number, step in enumerate(steps)
        if group_of(step) in (group, None) and step[0].handled_ms <= sent_ms + CLOSE_MS
    ]
    pairs = [
        (first, second)
        for first, second in itertools.pairwise(own)
        if _are_close(steps, first, second)
    ]
    pairs.sort(key=lambda pair: min(abs(pair[0] - at), abs(pair[1] - at)))
    yield from pairs[:ATTEMPTS]


def swapped(steps: Sequence[Step], first: int, second: int) -> list[Step]:
    """Return the steps with the first one behind the second one, and at its time."""
    exchange, event, answer = steps[first]
    moved = replace(exchange, handled_ms=steps[second][0].handled_ms), event, answer
    return [*steps[:first], *steps[first + 1 : second + 1], moved, *steps[second + 1 :]]


def _are_close(steps: Sequence[Step], first: int, second: int) -> bool:
    one, other = steps[first][0], steps[second][0]
    between = (step[0].connection for step in steps[first + 1 : second + 1])
    return other.handled_ms - one.handled_ms < CLOSE_MS and one.connection not in between
