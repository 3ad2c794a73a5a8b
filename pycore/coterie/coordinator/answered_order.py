"""Order and time the requests of a request log by what the broker answered.

A log does not show everything: the order of close requests (``close_requests``), and when a timer's
thread ran (``late_timers``). So the trace is run, and a change of either kind is made if more
answers are then those of the broker. Only the first wrong answer of each group is looked at,
because the others may follow from it. Costs a run of the trace for each attempt, up to
``EVENTS_MAX`` events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

from coterie.coordinator.close_requests import Step, group_of, swaps
from coterie.coordinator.late_timers import moves
from coterie.coordinator.trace import run_trace
from coterie.coordinator.trace_diff import compare_responses
from coterie.errors import CoterieError

EVENTS_MAX = 1_000_000  # played for all attempts together
CHANGES = frozenset({"transition", "group"})
Lines = list[dict[str, Any]]
LinesOf = Callable[[list[Step]], tuple[Lines, Lines]]


class Run(NamedTuple):
    """A run of a trace.

    ``wrong`` are the places of the steps that are answered differently than by the broker, in
    order. ``changed_at`` are the times at which the state of each group changes.
    """

    wrong: list[int]
    changed_at: dict[str | None, set[int]]


def in_answered_order(
    steps: list[Step], lines_of: LinesOf, start_ms: int
) -> tuple[list[Step], int | None]:
    """Return the steps with fewer wrong answers, if there are such, and the number of these.

    ``lines_of`` makes a trace and the broker's responses; the id of a response is the number of its
    step, from 1 on. ``start_ms`` is the log's time at the trace's time 0. A trace that is too long,
    or cannot be run, is returned as it is, and with None.
    """
    left = EVENTS_MAX - len(steps)
    best = run_of(*lines_of(steps)) if left >= 0 else None
    if best is None:
        return steps, None
    given_up: set[str | None] = set()
    while True:
        at = next((at for at in best.wrong if group_of(steps[at]) not in given_up), None)
        if at is None:
            return steps, len(best.wrong)
        group, better = group_of(steps[at]), None
        changed_ms = {start_ms + at for at in best.changed_at.get(group, ())}
        for other in chain(swaps(steps, at), moves(steps, at, changed_ms)):
            left -= len(steps)
            if left < 0:
                return steps, len(best.wrong)
            run = run_of(*lines_of(other))
            if run is not None and len(run.wrong) < len(best.wrong):
                better, best = other, run
        if better is None:
            given_up.add(group)
        else:
            steps = better


def run_of(trace: Lines, expected: Lines) -> Run | None:
    """Run a trace; None: it cannot be run."""
    try:
        came = list(run_trace(trace))
    except CoterieError:
        return None
    lines = [difference.expected or difference.actual for difference in
             compare_responses(expected, came)]  # fmt: skip
    changed_at: dict[str | None, set[int]] = defaultdict(set)
    for line in came:
        if line["event"] in CHANGES:
            changed_at[line["group_id"]].add(line["at"])
    return Run(sorted(line["id"] - 1 for line in lines if line), changed_at)
