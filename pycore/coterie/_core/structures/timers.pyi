from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

_Column = npt.ArrayLike

@final
class TimerWheel:
    """Timers on a virtual clock, any number of them, singly and in bulk.

    Parameters
    ----------
    now_ms
        Start of the clock, in milliseconds of whatever epoch the caller uses (any int64).

    Notes
    -----
    Arming, re-arming and cancelling are O(1). An advance costs what fires, however far it goes.
    A handle is valid until its timer fires or is cancelled, and never names another timer
    afterwards; in a copy, or a pickle, it names the same one. In every method, a number that is not
    an integer of 64 bits is an ArgumentError.
    One thread at a time: without a lock calls run one after another, in an undefined order.
    Source: ``SystemTimer.java``, ``TimingWheel.java``; timers with the same deadline fire in the
    order of arming, while in Kafka their order depends on the wheel's levels.

    Examples
    --------
    >>> wheel = TimerWheel()
    >>> handles = wheel.add_many([10_000, 6_000], keys=[1, 2])
    >>> wheel.rearm(handles[0], 16_000)
    True
    >>> wheel.advance(10_000)
    array([2])
    >>> wheel.next_deadline_ms()
    16000
    >>> wheel
    <TimerWheel: 1 timers, now_ms=10000>
    """

    def __new__(cls, now_ms: int = 0) -> Self: ...
    def __len__(self) -> int:
        """How many timers are armed."""
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def now_ms(self) -> int:
        """The virtual time, in ms: where the last :meth:`advance` went."""
    def add(self, deadline_ms: int, key: int) -> int:
        """Arm a timer for a deadline (ms) and return its handle.

        ``key`` is any int64; :meth:`advance` returns it. A deadline in the past fires at the next
        advance.
        """
    def rearm(self, handle: int, deadline_ms: int) -> bool:
        """Give an armed timer a new deadline (ms), as if it was armed now; return True.

        False, without an effect, if the timer has fired or was cancelled.
        """
    def cancel(self, handle: int) -> bool:
        """Cancel a timer and return True; False if it has fired or was cancelled before."""
    def add_many(self, deadlines_ms: _Column, keys: _Column) -> npt.NDArray[np.int64]:
        """Arm timers, in order, and return their handles, int64 of shape (n,).

        Parameters
        ----------
        deadlines_ms, keys
            int64 of shape (n,).

        Raises
        ------
        ArgumentError
            The columns differ in length, or are not one-dimensional columns of integers.
        """
    def rearm_many(self, handles: _Column, deadlines_ms: _Column) -> npt.NDArray[np.bool_]:
        """Call :meth:`rearm` for each pair, in order; return the answers, bool of shape (n,)."""
    def cancel_many(self, handles: _Column) -> npt.NDArray[np.bool_]:
        """Call :meth:`cancel` for each handle, in order; return the answers, bool of shape (n,)."""
    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline of an armed timer, exactly; None without timers."""
    def advance(self, now_ms: int) -> npt.NDArray[np.int64]:
        """Move the clock to ``now_ms``; return the keys of the timers due by then, int64 (n,).

        They are in order of deadline, then of arming. Timers whose deadline had already passed
        when they were armed come first.

        Raises
        ------
        ArgumentError
            ``now_ms`` lies before the present virtual time.
        """
