from collections.abc import Callable
from typing import Any, Self, final

from typing_extensions import disjoint_base

BULK: int
MOST_CALLS: int
LAST_CALLS: int

class TooManySteps(Exception):
    """The cost of a run exceeds its limit; the message says where, and what to change."""

@disjoint_base
class Call:
    """A call that is due at a time."""

    def cancel(self) -> None:
        """Do not make the call; one that was made is ignored."""

@disjoint_base
class Timer(Call):
    """A call of a process: a paused one makes it later, and a dead one never."""

@disjoint_base
class Schedule:
    """Call functions at times of a virtual clock, in ms from 0.

    Parameters
    ----------
    most_steps : int, optional
        How many steps a run may take. Each scheduled call is a step; more expensive work adds to
        them by :meth:`spend`. Beyond the limit every further step raises :class:`TooManySteps`.

    Attributes
    ----------
    now_ms : int
        The time.
    steps : int
        Steps taken so far.
    """

    def __new__(cls, most_steps: int | None = None) -> Self: ...
    @property
    def now_ms(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def most_steps(self) -> int | None: ...
    @property
    def next_ms(self) -> int | None:
        """When something is due next, ms; None: nothing is."""
    def spend(self, items: int) -> None:
        """Count work on many items: a step, and one more for each :data:`BULK` of them.

        Raises
        ------
        TooManySteps
            The limit is passed.
        """
    def call_soon(self, function: Callable[..., None], *args: Any) -> None:
        """Call a function now, after everything already scheduled for now."""
    def call_later(self, ms: int, function: Callable[..., None], *args: Any) -> Call:
        """Call a function ``ms`` from now; return the call, which can be cancelled."""
    def call_at(self, at_ms: int, function: Callable[..., None], *args: Any) -> Call:
        """Call a function at a time, or now if it has passed; return the call."""
    def run_until(self, at_ms: int) -> None:
        """Advance to a time: run everything due by then, including what is scheduled on the way."""
    def step(self, limit_ms: int | None = None) -> bool:
        """Run what is due next, up to the limit; return whether there was anything.

        If nothing is due by the limit, the clock moves to it.
        """

@final
class Future:
    """A result that comes later.

    Attributes
    ----------
    done : bool
        Whether the result has come.
    value
        The result; None before.
    """

    @property
    def done(self) -> bool: ...
    @property
    def value(self) -> Any: ...
    def set(self, value: Any = None) -> None:
        """Set the result, and resume the process that waits for it; a second call is ignored."""

@disjoint_base
class Waiter:
    """What waits in virtual time: a program, or the caller, who runs the clock meanwhile."""

    schedule: Schedule
    name: str
    alive: bool
    paused: bool
    _program: Any
    _hub: Any
    def __new__(cls, schedule: Schedule, name: str) -> Self: ...
    @property
    def now_ms(self) -> int:
        """The time of the clock, in ms."""
    def check_alive(self) -> None:
        """Begin a call of the program: raise what ends it if the process is dead.

        A subclass has ``_look_at_call``, which gets the number of the call at this time if it is
        one of the last that may be made, or if the process is dead.
        """
    def call_later(self, ms: int, function: Callable[..., Any], *args: Any) -> Timer:
        """Call a function ``ms`` from now, unless the process is dead by then."""
    def wait(self, future: Future, timeout_ms: int | None = None) -> bool:
        """Wait for a result; return whether it has come before a timeout, if any.

        Raises
        ------
        CoterieError
            Nothing is scheduled that could bring the result.
        """
    def sleep(self, ms: int) -> None:
        """Let time pass."""
    def pause(self) -> None:
        """Stop the process as a stop-the-world collection does: all its threads."""
    def resume(self) -> None:
        """Let it go on: what has fallen due is done now."""
    def kill(self) -> None:
        """End the process at once, without a goodbye."""
