"""A virtual clock with timers, tasks and locks. No I/O, no real time.

Calls run in order of their time, then in the order in which they were scheduled, so a scenario
always takes the same course. :class:`Task` runs a generator like a thread: it yields a number of ms
to sleep, or a :class:`Gate` to wait at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from coterie._core.structures.schedule import BULK, Call, Schedule, TooManySteps

__all__ = [
    "BULK", "Call", "Gate", "Lock", "PausingClock", "Routine", "Schedule", "Task", "TooManySteps",
]  # fmt: skip

Routine = Generator["int | Gate", None, Any]
"""The code of a task: it yields ms to sleep, or a gate to wait at."""


class PausingClock:
    """A clock that can be paused, for periodic work.

    A timer that falls due during a pause is armed again for the remaining time when the clock
    resumes. Timers that are due later cost nothing.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._paused_ms = 0
        self._paused_at_ms: int | None = None
        self._overdue: dict[int, tuple[int, Callable[[], None]]] = {}
        self._timers: dict[int, Call] = {}
        self._keys = 0

    @property
    def now_ms(self) -> int:
        """The schedule's time less all pauses, ms."""
        now_ms = self._schedule.now_ms if self._paused_at_ms is None else self._paused_at_ms
        return now_ms - self._paused_ms

    def call_later(self, ms: int, function: Callable[[], None]) -> int:
        """Call a function ``ms`` of this clock from now; return its key."""
        key = self._keys = self._keys + 1
        self._arm(key, self.now_ms + ms, function)
        return key

    def cancel(self, key: int) -> None:
        """Cancel a call; one that was made is ignored."""
        self._overdue.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def pause(self) -> None:
        self._paused_at_ms = self._schedule.now_ms

    def resume(self) -> None:
        """Let the clock run again."""
        if self._paused_at_ms is not None:
            self._paused_ms += self._schedule.now_ms - self._paused_at_ms
            self._paused_at_ms = None
        overdue, self._overdue = self._overdue, {}
        for key, (due_ms, function) in overdue.items():
            self._arm(key, due_ms, function)

    def _arm(self, key: int, due_ms: int, function: Callable[[], None]) -> None:
        remaining_ms = due_ms - self.now_ms
        self._timers[key] = self._schedule.call_later(
            remaining_ms, self._due, key, due_ms, function
        )

    def _due(self, key: int, due_ms: int, function: Callable[[], None]) -> None:
        del self._timers[key]
        if due_ms <= self.now_ms:
            function()
        elif self._paused_at_ms is None:
            self._arm(key, due_ms, function)
        else:
            self._overdue[key] = due_ms, function


class Gate:
    """A place where tasks wait until it is opened."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def add(self, task: Task) -> None:
        self._tasks.append(task)

    def open(self) -> None:
        """Resume all waiting tasks, in the order in which they came."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.schedule.call_soon(task.step)


class Lock:
    """A lock that tasks acquire in the order of their requests."""

    __slots__ = ("_locked", "_queue")

    def __init__(self) -> None:
        self._locked = False
        self._queue: deque[Gate] = deque()

    def acquire(self) -> Routine:
        if self._locked:
            turn = Gate()
            self._queue.append(turn)
            yield turn  # release() opens it and leaves the lock locked for this task
        self._locked = True

    def release(self) -> None:
        """Release the lock, or pass it to the first waiting task."""
        if self._queue:
            self._queue.popleft().open()
        else:
            self._locked = False


class Task:
    """A generator that runs in virtual time, like a thread.

    Parameters
    ----------
    schedule : Schedule
        The clock.
    run : generator
        Its code, which runs at once up to its first wait.
    """

    __slots__ = ("_run", "schedule")

    def __init__(self, schedule: Schedule, run: Routine) -> None:
        self.schedule = schedule
        self._run: Routine | None = run
        self.step()

    def step(self) -> None:
        if self._run is None:
            return
        try:
            wait = next(self._run)
        except StopIteration:
            self._run = None
            return
        if isinstance(wait, Gate):
            wait.add(self)
        else:
            self.schedule.call_later(wait, self.step)

    @property
    def done(self) -> bool:
        return self._run is None

    def kill(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()
