"""Wait until a group has a state or a number of members; describe what a group waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from coterie.base.arguments import text, whole, within
from coterie.consumer_groups import DescribedConsumerGroup
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.server.services.groups import GroupView

STATES = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    *("Assigning", "Reconciling"),  # of consumer groups
)
_MAX_MEMBERS = 2**31 - 1
TIMEOUT_S = 10  # where a caller does not say
_MAX_TIMEOUT_S = 86_400.0
_KINDS = {"join": "joins", "sync": "syncs"}  # of timers that a rebalance waits for


class GroupCondition:
    """The condition of a wait: a group's state, its number of members, or both.

    Raises
    ------
    ArgumentError
        Neither is set, or one has a wrong value.
    """

    def __init__(self, group_id: Any, *, state: Any = None, members: Any = None) -> None:
        self.group_id = text(group_id, "group_id")
        if state is None and members is None:
            raise ArgumentError("state or members is missing: one of them must be set")
        if state is not None and (not isinstance(state, str) or state not in STATES):
            raise ArgumentError(f"state must be one of {', '.join(STATES)}, not {shown(state)}")
        self._state: str | None = state
        self._members = None if members is None else within(members, "members", 0, _MAX_MEMBERS)

    def is_met(self, group: GroupView | None) -> bool:
        """Whether a group meets it; a group that does not exist is Dead and has no members."""
        state, members = ("Dead", 0) if group is None else (group.state, len(group.members))
        return self._state in (None, state) and self._members in (None, members)

    def __str__(self) -> str:
        """Return the condition as text: ``Stable with 2 members``."""
        parts = [] if self._state is None else [self._state]
        if self._members is not None:
            parts.append(f"with {_members_text(self._members)}")
        return " ".join(parts)


def timeout_of(timeout_s: Any) -> float:
    """Return a time-out in seconds; ArgumentError if it is not one."""
    time_s = timeout_s if isinstance(timeout_s, float) else whole(timeout_s, "timeout_s")
    if not 0 <= time_s <= _MAX_TIMEOUT_S:
        raise ArgumentError(
            f"timeout_s must be from 0 to {_MAX_TIMEOUT_S:.0f}, not {shown(timeout_s)}"
        )
    return float(time_s)


def pending_work(group: GroupView | None, now_ms: int, holding: Sequence[str] = ()) -> str:
    """Describe what a group waits for: ``waits for joins until 3000; the clock is at 0``.

    ``holding``: the members that an automatic clock waits for.
    """
    clock = f"the clock is at {now_ms}"
    if holding:
        clock += f" and waits for {', '.join(holding)}"
    if group is None:
        return f"waits for nothing: it does not exist; {clock}"
    if isinstance(group, DescribedConsumerGroup):
        late = [
            member.member_id
            for member in group.members
            if member.member_epoch != group.assignment_epoch
        ]
        if late:
            return f"waits for {', '.join(late)} to reach epoch {group.assignment_epoch}; {clock}"
        return f"waits for {'heartbeats' if group.members else 'nothing'}; {clock}"
    rebalance = [timer for timer in group.timers if timer.kind in _KINDS]
    if rebalance:
        first = min(rebalance, key=lambda timer: timer.deadline_ms)
        return f"waits for {_KINDS[first.kind]} until {first.deadline_ms}; {clock}"
    if group.timers:
        deadline_ms = min(timer.deadline_ms for timer in group.timers)
        return f"waits for heartbeats until {deadline_ms}; {clock}"
    return f"waits for nothing; {clock}"


def state_text(group: GroupView | None) -> str:
    """Return a group's state and members: ``PreparingRebalance with 1 member``."""
    if group is None:
        return "Dead with 0 members"
    return f"{group.state} with {_members_text(len(group.members))}"


def _members_text(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


class GroupWaits:
    """The callers that wait for a group; their groups are checked only after a change.

    It is an object on the cluster's clock, so that groups are checked after each move of it.
    """

    def __init__(
        self,
        snapshot: Callable[[str], GroupView | None],
        describe: Callable[[str], str],
        now_ms: int,
    ) -> None:
        self.now_ms = now_ms
        self._snapshot, self._describe = snapshot, describe
        self._waiting: set[asyncio.Event] = set()
        self._loop = asyncio.get_running_loop()
        self._is_looking = False

    # As part of a clock

    def next_deadline_ms(self) -> int | None:
        """Return None: nothing is scheduled."""
        return None

    def advance(self, now_ms: int) -> None:
        self.now_ms = now_ms

    # Waits

    def notice(self) -> None:
        """Check the groups once in this iteration of the loop, as something has changed."""
        if self._waiting and not self._is_looking:
            self._is_looking = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._is_looking = False
        for event in self._waiting:
            event.set()

    async def wait(self, condition: GroupCondition, timeout_s: float) -> GroupView | None:
        """Return the group once it meets a condition.

        Raises
        ------
        CoterieError
            The group does not meet it within ``timeout_s`` of the wall clock.
        """
        event = asyncio.Event()
        self._waiting.add(event)
        end_s = self._loop.time() + timeout_s
        try:
            while not condition.is_met(group := self._snapshot(condition.group_id)):
                event.clear()
                await asyncio.wait_for(event.wait(), end_s - self._loop.time())
            return group
        except TimeoutError:
            raise CoterieError(
                f"group {condition.group_id!r} is {state_text(group)}, not {condition}, after "
                f"{timeout_s:g} s; it {self._describe(condition.group_id)}"
            ) from None
        finally:
            self._waiting.remove(event)
