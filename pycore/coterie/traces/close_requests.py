"""Order requests that came within a millisecond of each other by what the broker answered.

A request log does not say which of two such requests of different connections came first, but the
answers often do: a join that was answered with the next generation came after the one that began
the rebalance. So the trace is run, and two close requests of a group are swapped if more answers
are then those of the broker. Only the first wrong answer of each group is looked at, because the
others may follow from it. Costs a run of the trace for each attempt, up to ``EVENTS_MAX`` events.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from coterie.errors import CoterieError
from coterie.traces.diff import compare_responses
from coterie.traces.trace import run_trace
from coterie.wire.exchanges import Exchange

__all__ = ["Step", "in_answered_order"]

EVENTS_MAX = 1_000_000  # played for all attempts together
ATTEMPTS = 8  # for one wrong answer
CLOSE_MS = 1.0  # times in a log are cut to milliseconds
Step = tuple[Exchange, dict[str, Any], "dict[str, Any] | None"]
Lines = list[dict[str, Any]]


def in_answered_order(
    steps: list[Step], lines_of: Callable[[list[Step]], tuple[Lines, Lines]]
) -> list[Step]:
    """Return the steps in an order with fewer wrong answers, if there is one.

    ``lines_of`` makes a trace and the broker's responses; the id of a response is the number of its
    step, from 1 on.
    """
    left = EVENTS_MAX - len(steps)
    wrong = wrong_answers(*lines_of(steps)) if left >= 0 else []
    given_up: set[str | None] = set()
    while True:
        at = next((at for at in wrong if _group(steps[at]) not in given_up), None)
        if at is None:
            return steps
        for first, second in close_pairs(steps, at):
            left -= len(steps)
            if left < 0:
                return steps
            other = swapped(steps, first, second)
            other_wrong = wrong_answers(*lines_of(other))
            if len(other_wrong) < len(wrong):
                steps, wrong = other, other_wrong
                break
        else:
            given_up.add(_group(steps[at]))


def wrong_answers(trace: Lines, expected: Lines) -> list[int]:
    """Return the places of the steps that are answered differently than by the broker, in order.

    A trace that cannot be run is as good as one with right answers: no order of it is better.
    """
    try:
        differences = list(compare_responses(expected, run_trace(trace)))
    except CoterieError:
        return []
    lines = (difference.expected or difference.actual or {} for difference in differences)
    return sorted(line["id"] - 1 for line in lines)


def close_pairs(steps: Sequence[Step], at: int) -> Iterator[tuple[int, int]]:
    """Yield neighbours of a group that may have come in the other order, the nearest first.

    Both came before the response at ``at``. Requests without a group belong to every group.
    """
    group, sent_ms = _group(steps[at]), steps[at][0].sent_ms
    own = [
        number
        for number, step in enumerate(steps)
        if _group(step) in (group, None) and step[0].handled_ms <= sent_ms + CLOSE_MS
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


def _group(step: Step) -> str | None:
    group: str | None = step[1].get("group_id")
    return group
