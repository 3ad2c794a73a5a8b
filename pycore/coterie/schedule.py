"""A virtual clock with timers, tasks and locks. No I/O, no real time.

Calls run in order of their time, then in the order in which they were scheduled, so a scenario
always takes the same course. :class:`Task` runs a generator like a thread: it yields a number of ms
to sleep, or a :class:`Gate` to wait at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import Any

BULK = 16  # cheap items, such as offsets of a commit, that cost about as much as one step
Routine = Generator["int | Gate", None, Any]
"""The code of a task: it yields ms to sleep, or a gate to wait at."""


class TooManySteps(Exception):
    """The cost of a run exceeds its limit; the message says where, and what to change."""


class Call:
    """A call that is due at a time.

    Attributes
    ----------
    function : function or None
        None: it is cancelled.
    """

    __slots__ = ("args", "function")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function: Callable[..., Any] | None = function
        self.args = args

    def cancel(self) -> None:
        """Do not make the call; one that was made is ignored."""
        self.function, self.args = None, ()

    def run(self) -> None:
        """Make the call, unless it is cancelled."""
        if self.function is not None:
            self.function(*self.args)


class Schedule:
    """Call functions at times of a virtual clock, in ms from 0.

    Parameters
    ----------
    most_steps : int, optional
        How many steps a run may take. Each scheduled call is a step; more expensive work adds to
        them by :meth:`spend`. Beyond the limit every further step raises :class:`TooManySteps`.

    Attributes
    ----------
    steps : int
        Steps taken so far.
    """

    def __init__(self, most_steps: int | None = None) -> None:
        self.now_ms = 0
        self.steps = 0
        self.most_steps = most_steps
        self._due: dict[int, list[Call]] = {}  # by time, in the order of scheduling
        self._times: list[int] = []  # the keys of _due, a heap
        self._soon: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def spend(self, items: int) -> None:
        """Count work on many items: a step, and one more for each :data:`BULK` of them.

        Raises
        ------
        TooManySteps
            The limit is passed.
        """
        self.steps += 1 + items // BULK
        if self.most_steps is not None and self.steps > self.most_steps:
            raise TooManySteps(
                f"the run takes more than {self.most_steps} steps; shorten the times between "
                "events, or lengthen intervals and timeouts"
            )

    def call_soon(self, function: Callable[..., None], *args: Any) -> None:
        """Call a function now, after everything already scheduled for now."""
        self.spend(0)
        self._soon.append((function, args))

    def call_later(self, ms: int, function: Callable[..., None], *args: Any) -> Call:
        """Call a function ``ms`` from now; return the call, which can be cancelled."""
        return self.add(self.now_ms + ms, Call(function, args))

    def call_at(self, at_ms: int, function: Callable[..., None], *args: Any) -> Call:
        """Call a function at a time, or now if it has passed; return the call."""
        return self.add(at_ms, Call(function, args))

    def add(self, at_ms: int, call: Call) -> Call:
        """Make a call at a time, or now if it has passed; return it."""
        self.steps += 1
        if self.most_steps is not None and self.steps > self.most_steps:
            self.spend(0)
        calls = self._due.get(at_ms)
        if calls is None:
            self._due[at_ms] = [call]
            heappush(self._times, at_ms)
        else:
            calls.append(call)
        return call

    @property
    def next_ms(self) -> int | None:
        """The time of the next call, which may be cancelled; None if there is none."""
        if self._soon:
            return self.now_ms
        return self._times[0] if self._times else None

    def run_until(self, at_ms: int) -> None:
        """Advance to a time: run everything due by then, including what is scheduled on the way."""
        while self.step(at_ms):
            pass

    def step(self, limit_ms: int | None = None) -> bool:
        """Run what is due next, up to the limit; return whether there was anything.

        If nothing is due by the limit, the clock moves to it.
        """
        soon, times = self._soon, self._times
        if soon:
            self._run_soon()
            return True
        while times and (limit_ms is None or times[0] <= limit_ms):
            at_ms, ran = heappop(times), False
            for call in self._due.pop(at_ms):
                if call.function is None:
                    continue  # it is cancelled, perhaps by one before it
                ran = True
                if at_ms > self.now_ms:
                    self.now_ms = at_ms
                call.run()
                if soon:
                    self._run_soon()
            if ran:
                return True
        self.now_ms = max(limit_ms or 0, self.now_ms)
        return False

    def _run_soon(self) -> None:
        soon = self._soon
        while soon:
            function, args = soon.popleft()
            function(*args)


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
        """Stop the clock."""
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
        """Make a task wait."""
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
        """Wait for the lock, and take it."""
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
        """Run up to the next wait."""
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
        """Whether it has ended."""
        return self._run is None

    def kill(self) -> None:
        """Stop the task at its present wait."""
        run, self._run = self._run, None
        if run is not None:
            run.close()
