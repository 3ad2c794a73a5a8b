from typing import final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

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
    A handle names one timer: it stays good until the timer fires or is cancelled, and never
    names another one afterwards. One thread at a time; without a lock calls come one after
    another, in no order that counts. Source: ``SystemTimer.java``, ``TimingWheel.java``; the order
    of timers with one deadline is that of arming, where Kafka's depends on the wheel's levels.
    """

    def __new__(cls, now_ms: int = 0) -> Self: ...
    def __len__(self) -> int:
        """How many timers are armed."""
    @property
    def now_ms(self) -> int:
        """The virtual time, in ms: where the last :meth:`advance` went."""
    def add(self, deadline_ms: int, key: int) -> int:
        """Arm a timer; return its handle. A deadline in the past fires at the next advance.

        Here as in every method a number that is no integer of 64 bits is an ArgumentError.
        """
    def rearm(self, handle: int, deadline_ms: int) -> bool:
        """Arm the timer anew: it fires at the new deadline, after those armed before.

        False, and no effect, where the timer has fired or was cancelled.
        """
    def cancel(self, handle: int) -> bool:
        """Drop the timer; False where it has fired or was cancelled already."""
    def add_many(self, deadlines_ms: _Column, keys: _Column) -> npt.NDArray[np.int64]:
        """Arm timers in order of the columns (int64, one length); return their handles.

        Raises
        ------
        ArgumentError
            The columns differ in length, or are not one-dimensional columns of integers.
        """
    def rearm_many(self, handles: _Column, deadlines_ms: _Column) -> npt.NDArray[np.bool_]:
        """:meth:`rearm` for each pair, in order; which of them were armed."""
    def cancel_many(self, handles: _Column) -> npt.NDArray[np.bool_]:
        """:meth:`cancel` for each, in order; which of them were armed."""
    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline of an armed timer, exactly; None without timers."""
    def advance(self, now_ms: int) -> npt.NDArray[np.int64]:
        """Move the clock to ``now_ms``; the keys of timers due by then, int64.

        In order of deadline, then of arming. Those whose deadline had passed when they were
        armed come first.

        Raises
        ------
        ArgumentError
            ``now_ms`` lies before the present virtual time.
        """
