"""Sessions over columns of heartbeats: which ended, and when, by the timer wheel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie._core.structures.timers import TimerWheel
from coterie.errors import ArgumentError

__all__ = ["session_expirations"]


def session_expirations(
    member: npt.ArrayLike, heartbeat_ms: npt.ArrayLike, timeout_ms: npt.ArrayLike
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Which sessions ended, and when.

    Parameters
    ----------
    member
        (n,): whose heartbeat it is, of any type that sorts.
    heartbeat_ms, timeout_ms
        int64 (n,), or one timeout for all: when it came, and for how long it keeps the session.

    Returns
    -------
    member, ended_ms
        One row for each session that ended, by time: the last of every member among them. A
        heartbeat in the very millisecond of the end comes too late and begins a new session.

    Raises
    ------
    ArgumentError
        Columns of other lengths or types.
    """
    names, number = np.unique(np.asarray(member), return_inverse=True)
    came = np.asarray(heartbeat_ms)
    kept = np.broadcast_to(np.asarray(timeout_ms), came.shape)
    for name, column in (("heartbeat_ms", came), ("timeout_ms", kept)):
        if column.shape != number.shape or (column.size and column.dtype.kind not in "iu"):
            raise ArgumentError(f"{name} must be a column of {number.size} integers")
    if not came.size:
        return names, np.zeros(0, dtype=np.int64)
    order = np.argsort(came, kind="stable")
    number, came, kept = number[order], came[order].astype(np.int64), kept[order].astype(np.int64)
    deadline = np.zeros(names.size, dtype=np.int64)
    handle = np.full(names.size, -1, dtype=np.int64)
    wheel = TimerWheel(int(came[0]))
    ended: list[npt.NDArray[np.int64]] = []
    times: list[npt.NDArray[np.int64]] = []
    starts = np.flatnonzero(np.diff(came, prepend=came[:1] - 1))
    for start, stop in zip(starts, [*starts[1:], came.size], strict=True):
        fired = wheel.advance(int(came[start]))
        if fired.size:
            ended.append(fired)
            times.append(deadline[fired])
        for row in range(start, stop):
            who = number[row]
            deadline[who] = came[row] + kept[row]
            if not wheel.rearm(int(handle[who]), int(deadline[who])):
                handle[who] = wheel.add(int(deadline[who]), int(who))
    if len(wheel):
        ended.append(wheel.advance(max(int(deadline.max()), wheel.now_ms)))
        times.append(deadline[ended[-1]])
    return names[np.concatenate(ended)], np.concatenate(times)
