"""Move requests before a timer that fired late on the broker.

A timer of a trace fires when it is due. That of a busy broker fires later, and requests in between
are answered as if it were not due. So a group's requests of this time are moved to the millisecond
before the timer; their order, and the requests of other groups, stay. A request that waited for a
lock when the timer fired may have come after it: then it is moved to the end of its wait instead.
Sources: SystemTimer, DelayedOperationPurgatory, CoordinatorRuntime: timers have their own threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from coterie.coordinator.close_requests import Step, group_of

ATTEMPTS = 8  # timers that may be the late one, for one wrong answer
JUST_MS = 1e-3  # before the timer: behind whatever else the trace has in that millisecond
LATE_MS = 1000.0  # before the request; a join's answer shows the end of the rebalance itself


def moves(steps: Sequence[Step], at: int, changed_ms: Iterable[int]) -> Iterator[list[Step]]:
    """Yield the steps as they are if a timer fired late, and the answer at ``at`` shows it.

    ``changed_ms`` are the times, of the log, at which the trace changes the state of the group.
    """
    exchange = steps[at][0]
    first_ms, answered_ms = exchange.handled_ms - LATE_MS, exchange.answered_ms
    due = {due_ms for due_ms in changed_ms if first_ms <= due_ms <= answered_ms}
    for due_ms in sorted(due, reverse=True)[:ATTEMPTS]:
        for waited in (False, True):
            yield moved(steps, group_of(steps[at]), due_ms, answered_ms, waited=waited)


def moved(
    steps: Sequence[Step], group: str | None, due_ms: int, fired_ms: float, *, waited: bool
) -> list[Step]:
    """Return the steps with those of a group that came before a timer fired moved before it.

    ``waited``: those that may have waited until the timer had fired are moved behind it.
    """
    out = []
    for exchange, event, answer in steps:
        step = exchange, event, answer
        if group_of(step) == group and due_ms <= exchange.handled_ms <= fired_ms:
            last_ms = exchange.handled_ms + exchange.local_ms
            at_ms = last_ms if waited and last_ms > fired_ms else due_ms - JUST_MS
            step = replace(exchange, handled_ms=at_ms), event, answer
        out.append(step)
    return sorted(out, key=lambda step: step[0].handled_ms)
