"""Session expiries in columns of heartbeats, by the timer wheel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coterie._core.structures.timers import TimerWheel
from coterie.errors import ArgumentError


def session_expirations(
    member: npt.ArrayLike, heartbeat_ms: npt.ArrayLike, timeout_ms: npt.ArrayLike
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return which sessions ended, and when.

    Parameters
    ----------
    member
        (n,): the member of each heartbeat, of any sortable type.
    heartbeat_ms, timeout_ms
        int64 (n,), or one timeout for all: when it arrived, and how long it extends the session.

    Returns
    -------
    member, ended_ms
        One row for each session that ended, by time, including the last of every member. A
        heartbeat in the same millisecond as the end is too late and begins a new session.

    Raises
    ------
    ArgumentError
        Columns of other lengths or types.
    """
    names, number = np.unique(np.asarray(member), return_inverse=True)
    arrived_ms = np.asarray(heartbeat_ms)
    timeouts_ms = np.broadcast_to(np.asarray(timeout_ms), arrived_ms.shape)
    for name, column in (("heartbeat_ms", arrived_ms), ("timeout_ms", timeouts_ms)):
        if column.shape != number.shape or (column.size and column.dtype.kind not in "iu"):
            raise ArgumentError(f"{name} must be a column of {number.size} integers")
    if not arrived_ms.size:
        return names, np.zeros(0, dtype=np.int64)
    order = np.argsort(arrived_ms, kind="stable")
    number, arrived_ms, timeouts_ms = (
        number[order],
        arrived_ms[order].astype(np.int64),
        timeouts_ms[order].astype(np.int64),
    )
    deadline = np.zeros(names.size, dtype=np.int64)
    handle = np.full(names.size, -1, dtype=np.int64)
    wheel = TimerWheel(int(arrived_ms[0]))
    ended: list[npt.NDArray[np.int64]] = []
    times: list[npt.NDArray[np.int64]] = []
    starts = np.flatnonzero(np.diff(arrived_ms, prepend=arrived_ms[:1] - 1))
    for start, stop in zip(starts, [*starts[1:], arrived_ms.size], strict=True):
        fired = wheel.advance(int(arrived_ms[start]))
        if fired.size:
            ended.append(fired)
            times.append(deadline[fired])
        for row in range(start, stop):
            member_number = number[row]
            deadline[member_number] = arrived_ms[row] + timeouts_ms[row]
            if not wheel.rearm(int(handle[member_number]), int(deadline[member_number])):
                handle[member_number] = wheel.add(int(deadline[member_number]), int(member_number))
    if len(wheel):
        ended.append(wheel.advance(max(int(deadline.max()), wheel.now_ms)))
        times.append(deadline[ended[-1]])
    return names[np.concatenate(ended)], np.concatenate(times)
