"""The virtual clock of one scenario: what happens when, and what waits. No I/O, no real time.

What is asked for a moment runs in order of time, then of asking, so that one scenario always takes
the same course. :class:`Task` runs a generator as a thread of that clock: it yields a number of
ms to sleep, or a :class:`Gate` to wait at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from coterie._core.structures.timers import TimerWheel

BULK = 16  # cheap items, such as offsets of a commit, that cost about as much as one step
Run = Generator["int | Gate", None, Any]
"""What a task runs: it yields ms to sleep, or a gate to wait at."""


class TooManySteps(Exception):
    """A run costs more than it may; the text says what, and what to change."""


class Schedule:
    """Functions called at moments of a virtual time, in ms from 0.

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
        self._wheel = TimerWheel(0)
        self._due: dict[int, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        self._soon: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._keys = 0

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
        """Call a function at this moment, after all that was asked for this moment before."""
        self.spend(0)
        self._soon.append((function, args))

    def call_later(self, ms: int, function: Callable[..., None], *args: Any) -> tuple[int, int]:
        """Call a function ``ms`` from now; return what :meth:`cancel` takes."""
        return self.call_at(self.now_ms + ms, function, *args)

    def call_at(self, at_ms: int, function: Callable[..., None], *args: Any) -> tuple[int, int]:
        """Call a function at a moment (now, if it has passed); return what :meth:`cancel` takes."""
        self.spend(0)
        key = self._keys = self._keys + 1
        self._due[key] = function, args
        return self._wheel.add(at_ms, key), key

    def cancel(self, timer: tuple[int, int]) -> None:
        """Call it off; without an effect if it was called."""
        handle, key = timer
        if self._due.pop(key, None) is not None:
            self._wheel.cancel(handle)

    def run_until(self, at_ms: int) -> None:
        """Go to a moment: run all that is due until then, and what follows from it by then."""
        self._run_soon()
        while (deadline := self._wheel.next_deadline_ms()) is not None and deadline <= at_ms:
            self.now_ms = max(deadline, self.now_ms)
            for key in self._wheel.advance(self.now_ms).tolist():
                asked = self._due.pop(key, None)
                if asked is not None:  # else it was called off by one due at the same moment
                    asked[0](*asked[1])
                    self._run_soon()
        self.now_ms = max(at_ms, self.now_ms)

    def _run_soon(self) -> None:
        soon = self._soon
        while soon:
            function, args = soon.popleft()
            function(*args)


class PausingClock:
    """A clock beside a schedule that stands still while it is paused: for what is periodic.

    A timer that falls due while the clock stands is armed again, for what was left, once it goes
    on; so pausing costs nothing for timers that are far away.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._stood_ms = 0
        self._since_ms: int | None = None
        self._after: dict[int, tuple[int, Callable[[], None]]] = {}
        self._timers: dict[int, tuple[int, int]] = {}
        self._keys = 0

    @property
    def now_ms(self) -> int:
        """Its time: the schedule's less what it stood still."""
        since_ms = self._schedule.now_ms if self._since_ms is None else self._since_ms
        return since_ms - self._stood_ms

    def call_later(self, ms: int, function: Callable[[], None]) -> int:
        """Call a function ``ms`` of this clock from now; return what :meth:`cancel` takes."""
        key = self._keys = self._keys + 1
        self._arm(key, self.now_ms + ms, function)
        return key

    def cancel(self, key: int) -> None:
        """Call it off; without an effect if it was called."""
        self._after.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            self._schedule.cancel(timer)

    def pause(self) -> None:
        """Stand still."""
        self._since_ms = self._schedule.now_ms

    def resume(self) -> None:
        """Go on."""
        if self._since_ms is not None:
            self._stood_ms += self._schedule.now_ms - self._since_ms
            self._since_ms = None
        after, self._after = self._after, {}
        for key, (due_ms, function) in after.items():
            self._arm(key, due_ms, function)

    def _arm(self, key: int, due_ms: int, function: Callable[[], None]) -> None:
        left_ms = due_ms - self.now_ms
        self._timers[key] = self._schedule.call_later(left_ms, self._due, key, due_ms, function)

    def _due(self, key: int, due_ms: int, function: Callable[[], None]) -> None:
        del self._timers[key]
        if due_ms <= self.now_ms:
            function()
        elif self._since_ms is None:
            self._arm(key, due_ms, function)
        else:
            self._after[key] = due_ms, function


class Gate:
    """Where tasks wait until something has happened."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Task] = []

    def add(self, task: Task) -> None:
        """Let a task wait here."""
        self._waiting.append(task)

    def open(self) -> None:
        """Let all that wait here go on, in the order in which they came."""
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            task.schedule.call_soon(task.step)


class Lock:
    """A lock that tasks get in the order in which they asked."""

    __slots__ = ("_held", "_turns")

    def __init__(self) -> None:
        self._held = False
        self._turns: deque[Gate] = deque()

    def acquire(self) -> Run:
        """Wait for the lock, and take it."""
        if self._held:
            turn = Gate()
            self._turns.append(turn)
            yield turn  # whoever opens it hands the lock over: it stays held
        self._held = True

    def release(self) -> None:
        """Give the lock back: to the next that waits."""
        if self._turns:
            self._turns.popleft().open()
        else:
            self._held = False


class Task:
    """A generator that runs in virtual time, as a thread would.

    Parameters
    ----------
    schedule : Schedule
        The clock.
    run : generator
        What runs; it begins at once, up to its first wait.
    """

    __slots__ = ("_run", "schedule")

    def __init__(self, schedule: Schedule, run: Run) -> None:
        self.schedule = schedule
        self._run: Run | None = run
        self.step()

    def step(self) -> None:
        """Go on, up to the next wait."""
        if self._run is None:
            return
        try:
            waits = next(self._run)
        except StopIteration:
            self._run = None
            return
        if isinstance(waits, Gate):
            waits.add(self)
        else:
            self.schedule.call_later(waits, self.step)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._run is None

    def kill(self) -> None:
        """End it where it waits, for good."""
        run, self._run = self._run, None
        if run is not None:
            run.close()
