"""Programs that block, in virtual time: processes that run, pause and die.

The program of a process is plain code. While it waits, the clock moves on and other processes run.
All run in one thread, one at a time, so a run always takes the same course.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from coterie.errors import ArgumentError, CoterieError, shown
from coterie.extras import missing_module
from coterie.schedule import Call, Schedule

__all__ = ["MOST_CALLS", "Future", "Process", "Timer", "process_of"]

MOST_CALLS = 100_000  # of a program, while no time passes
LAST_CALLS = 100  # of these, which an error names


class Future:
    """A result that comes later.

    Attributes
    ----------
    done : bool
        Whether the result has come.
    value
        The result; None before.
    """

    __slots__ = ("_waiter", "done", "value")

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self._waiter: Callable[[], Any] | None = None

    def set(self, value: Any = None) -> None:
        """Set the result, and resume the process that waits for it; a second call is ignored."""
        if self.done:
            return
        self.done, self.value = True, value
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter()


class Timer(Call):
    """A call of a process at a time of the clock."""

    __slots__ = ("_process",)

    def __init__(
        self, process: Process, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        self._process, self.function, self.args = process, function, args

    def run(self) -> None:
        """Make the call; a paused process makes it later, and a dead one never."""
        process = self._process
        if process.paused:
            process._overdue.append(self)
        elif process.alive and self.function is not None:
            self.function(*self.args)


class Process:
    """A process: a program that may block, and calls that are due later.

    Without a program, what waits in the name of the process runs the clock itself; so a test can
    use a client directly, and a simulation can run many.

    Parameters
    ----------
    schedule : Schedule
        The clock that all processes share.
    name : str
        For messages.

    Attributes
    ----------
    alive : bool
        Whether it has not been killed.
    paused : bool
        Whether it stands still. What falls due meanwhile is done when it resumes, in order.
    """

    def __init__(self, schedule: Schedule, name: str) -> None:
        self.schedule, self.name = schedule, name
        self.alive, self.paused = True, False
        self._overdue: deque[Timer] = deque()
        self._program: Any = None  # its greenlet
        self._hub: Any = None  # the greenlet that runs the clock
        self._waits = 0  # counts waits and their ends
        self._calls_ms = self._calls = 0  # calls of the program at this time
        self._called: set[str] = set()  # the last ones

    def __repr__(self) -> str:
        return f"<Process {self.name}>"

    @property
    def now_ms(self) -> int:
        """The time of the clock, in ms."""
        return self.schedule.now_ms

    def check_alive(self) -> None:
        """Begin a call of the program: raise what ends it if the process is dead.

        The cleanup of a dead program must not wait. A program that makes :data:`MOST_CALLS` calls
        while no time passes would never end.
        """
        if not self.alive:
            import greenlet

            raise greenlet.GreenletExit
        now_ms = self.schedule.now_ms
        if now_ms != self._calls_ms:
            self._calls_ms, self._calls = now_ms, 0
        self._calls += 1
        if self._calls > MOST_CALLS - LAST_CALLS:
            self._look_at_call()

    def _look_at_call(self) -> None:
        """Take note of one of the last calls that may be made now, and refuse the one after."""
        if self._calls == MOST_CALLS - LAST_CALLS + 1:
            self._called = set()
        self._called.add(_name_of_call())
        if self._calls <= MOST_CALLS:
            return
        names = ", ".join(sorted(self._called))
        error = CoterieError(
            f"{self.name} has made {MOST_CALLS} calls at {self.now_ms} ms ({names}), and no time "
            "passes: let its loop wait, by the timeout of poll or by sleep"
        )
        if self._program:  # not in it, where an application may catch it, and go on
            self._hub.throw(error)
        raise error

    # Calls that are due later

    def call_later(self, ms: int, function: Callable[..., Any], *args: Any) -> Timer:
        """Call a function ``ms`` from now, unless the process is dead by then."""
        timer = Timer(self, function, args)
        self.schedule.add(self.schedule.now_ms + ms, timer)
        return timer

    # The program

    def start(self, program: Callable[..., Any], *args: Any) -> None:
        """Run a program in this process, from now on; what it raises, the clock's caller gets."""
        try:
            import greenlet
        except ModuleNotFoundError as error:
            raise missing_module(error) from error
        if self._program is not None:
            raise CoterieError(f"{self!r} has a program already")
        self._hub = greenlet.getcurrent()
        self._program = greenlet.greenlet(program)
        self.call_later(0, self._program.switch, *args)

    def wait(self, future: Future, timeout_ms: int | None = None) -> bool:
        """Wait for a result; return whether it has come within the time (None: no limit).

        Raises
        ------
        CoterieError
            Nothing is scheduled that could bring the result.
        """
        if future.done:
            return True
        if not self._program:
            return self._run_clock(future, timeout_ms)
        wait = self._waits = self._waits + 1
        timer = None if timeout_ms is None else self.call_later(timeout_ms, self._resume, wait)
        future._waiter = partial(self.call_later, 0, self._resume, wait)
        self._hub.switch()
        future._waiter = None
        if timer is not None:
            timer.cancel()
        return future.done

    def sleep(self, ms: int) -> None:
        """Let time pass."""
        if not self._program:
            self._run_clock(Future(), ms)
            return
        self._waits += 1
        self.call_later(ms, self._resume, self._waits)
        self._hub.switch()

    def _resume(self, wait: int) -> None:
        if wait == self._waits:  # else the result and the timeout came at the same time
            self._waits += 1
            self._program.switch()

    def _run_clock(self, future: Future, timeout_ms: int | None) -> bool:
        limit_ms = None if timeout_ms is None else self.now_ms + timeout_ms
        while not future.done and self.schedule.step(limit_ms):
            pass
        if not future.done and limit_ms is None:
            raise CoterieError(f"{self!r} waits, and nothing is left to happen")
        return future.done

    # Pauses and death

    def pause(self) -> None:
        """Stop the process as a stop-the-world collection does: all its threads."""
        self.paused = True

    def resume(self) -> None:
        """Let it go on: what has fallen due is done now."""
        self.paused = False
        while self._overdue and not self.paused and self.alive:
            self._overdue.popleft().run()

    def kill(self) -> None:
        """End the process at once, without a goodbye."""
        self.alive = False
        self._overdue.clear()
        program, self._program = self._program, None
        if program:  # it has begun and has not ended
            program.throw()


def _name_of_call() -> str:
    """Return the name of the public function of this package that the program has called."""
    frame: FrameType | None = sys._getframe(1)
    name = ""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("coterie."):
        own = frame.f_code.co_name
        name = name if own.startswith("_") else own
        frame = frame.f_back
    return name


def process_of(schedule: Schedule, process: Any, name: str) -> Process:
    """Return a given process, or a new one without a program if it is None."""
    if process is None:
        return Process(schedule, name)
    if not isinstance(process, Process):
        raise ArgumentError(f"process must be a Process, not {shown(process)}")
    return process
