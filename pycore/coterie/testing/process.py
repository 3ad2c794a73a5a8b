"""Programs that block, in virtual time: processes that run, pause and die.

The program of a process is plain code. While it waits, the clock moves on and other processes run.
All run in one thread, one at a time, so a run always takes the same course.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from coterie._core.structures.schedule import LAST_CALLS, MOST_CALLS, Waiter
from coterie.base.extras import missing_module
from coterie.base.schedule import Schedule
from coterie.errors import ArgumentError, CoterieError, shown

_undying: list[Any] = []  # programs that catch GreenletExit, which would run on when they are freed


class Process(Waiter):
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

    _called: set[str]  # the last calls of the program
    _calls_when_dead = 0

    def __repr__(self) -> str:
        return f"<Process {self.name}>"

    def _look_at_call(self, calls: int) -> None:
        """Refuse a call of a dead program, and one too many; take note of the last ones before.

        The cleanup of a dead program must not wait. A program that makes :data:`MOST_CALLS` calls
        while no time passes would never end, nor would one that catches what ends it.
        """
        if not self.alive:
            self._end_program()
        if calls == MOST_CALLS - LAST_CALLS + 1:
            self._called = set()
        self._called.add(_name_of_call())
        if calls <= MOST_CALLS:
            return
        names = ", ".join(sorted(self._called))
        error = CoterieError(
            f"{self.name} has made {MOST_CALLS} calls at {self.now_ms} ms ({names}), and no time "
            "passes: let its loop wait, by the timeout of poll or by sleep"
        )
        if self._program:  # not in it, where an application may catch it, and go on
            self._hub.throw(error)
        raise error

    def _end_program(self) -> NoReturn:
        import greenlet

        self._calls_when_dead += 1
        if self._calls_when_dead > LAST_CALLS and self._hub is not None:
            _undying.append(greenlet.getcurrent())
            self._hub.throw(
                CoterieError(
                    f"{self.name} is dead, but its program goes on: let it catch Exception, not "
                    "BaseException or all exceptions, where it calls its client"
                )
            )
        raise greenlet.GreenletExit

    def start(self, program: Callable[..., Any], *args: Any) -> None:
        """Run a program in this process; its exceptions reach whoever advances the clock."""
        try:
            import greenlet
        except ModuleNotFoundError as error:
            raise missing_module(error) from error
        if self._program is not None:
            raise CoterieError(f"{self!r} has a program already")
        self._hub = greenlet.getcurrent()
        self._program = greenlet.greenlet(program)
        self.call_later(0, self._program.switch, *args)


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
