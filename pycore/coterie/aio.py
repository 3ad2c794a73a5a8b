"""Pending answers in asyncio tests. The library itself never awaits anything.

``wait`` is for asynchronous code under test while a driver task moves the virtual clock: it yields
to the other tasks until the answer is there.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from coterie.base.arguments import milliseconds
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.coordinator.pending import Pending
from coterie.errors import ArgumentError, shown

__all__ = ["drive", "wait"]

T = TypeVar("T")


async def wait(pending: Pending[T]) -> T:
    """Return the response once another task has made the coordinator answer.

    Raises
    ------
    NotAnswered
        The request was replaced or dropped: it will never be answered.

    Examples
    --------
    >>> coordinator = GroupCoordinator()
    >>> async def join():
    ...     fields = {"protocol_type": "consumer", "protocols": {"range": b""}}
    ...     return (await wait(coordinator.join_group("g", **fields))).generation_id
    >>> async def test():
    ...     return (await asyncio.gather(join(), drive(coordinator, until_ms=5_000)))[0]
    >>> asyncio.run(test())
    1
    """
    if not isinstance(pending, Pending):
        raise ArgumentError(f"pending must be what a request returned, not {shown(pending)}")
    while pending.status == "waiting":
        await asyncio.sleep(0)
    return pending.response


async def drive(coordinator: GroupCoordinator, *, until_ms: int) -> None:
    """Move the clock from deadline to deadline; yield to the other tasks before each.

    Examples
    --------
    >>> coordinator = GroupCoordinator()
    >>> asyncio.run(drive(coordinator, until_ms=60_000))
    >>> coordinator.now_ms
    60000
    """
    if not isinstance(coordinator, GroupCoordinator):
        raise ArgumentError(f"coordinator must be a GroupCoordinator, not {shown(coordinator)}")
    until_ms = milliseconds(until_ms, "until_ms")
    while True:
        await asyncio.sleep(0)
        deadline_ms: Any = coordinator.next_deadline_ms()
        if deadline_ms is None or deadline_ms > until_ms:
            coordinator.advance(max(until_ms, coordinator.now_ms))
            return
        coordinator.advance(max(deadline_ms, coordinator.now_ms))
