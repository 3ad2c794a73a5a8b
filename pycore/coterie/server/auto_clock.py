"""``clock="auto"``: a virtual clock that jumps when clients only wait for it.

It jumps to the next timer that ends a wait. A request waits for the clock if the coordinator
answers it by a timer (JoinGroup, SyncGroup), or a fault delays it. A group lets the clock jump if
each of its members waits, or is gone. The clock never jumps past a timer that would remove another
member: it goes up to there, and on after the member's next heartbeat. So a client may be as slow as
it likes.

A member is gone if its client closed the connection a second ago, if it joined again under another
id over the same connection, or if it was silent for its session timeout by the wall clock, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coterie.consumer_groups import DescribedConsumerMember
from coterie.server.api.call import Call, Origin
from coterie.server.api.table import KEYS
from coterie.server.clock import Timer
from coterie.server.cluster import Cluster

_SETTLE_MS = 50  # of the wall clock: others that are about to join have this long
_CLOSED_MS = 1000  # a client that goes on connects again within that time
_NEVER_MS = 1 << 62
_COMMIT, _JOIN = KEYS["offsetcommit"], KEYS["joingroup"]
_OF_MEMBERS = frozenset(
    KEYS[name]
    for name in ("joingroup", "syncgroup", "heartbeat", "consumergroupheartbeat", "offsetcommit")
)


_Timers = list[tuple[str, str | None, int]]


@dataclass(slots=True)
class _Seat:
    """A member's last request: its connection, and its time by both clocks.

    ``waits``: it had no answer at the last look. ``gone_ms``: when the member counts as gone if it
    sends no other request, by the wall clock; None: when its session ends.
    """

    connection: Origin | None
    clock_ms: int
    wall_ms: int
    waits: bool = False
    gone_ms: int | None = None


class _Group(NamedTuple):
    """The members of a group, and its timers.

    Attributes
    ----------
    waiting
        Those that wait for others or for the clock.
    acting
        Those that may act or have to heartbeat, each with the time of the wall clock from which on
        it counts as gone.
    gone
        The others.
    is_blocked
        Whether only a timer ends the wait.
    timers
        Kind, member (None: the whole group) and deadline of each.
    """

    waiting: Collection[str]
    acting: Mapping[str, int]
    gone: Collection[str]
    is_blocked: bool
    timers: _Timers

    def deadlines_ms(self, members: Collection[str]) -> list[int]:
        """Return when the timers of these members and of the whole group expire."""
        return [at_ms for _, member, at_ms in self.timers if member is None or member in members]


_NOBODY = _Group((), {}, (), False, [])


class _Plan(NamedTuple):
    """The time to which the clock may go, and what waits for it."""

    to_ms: int
    waiting: frozenset[tuple[str, str]]  # group, member
    delayed: frozenset[Call]


class AutoClock:
    """Moves the clock of a server.

    Parameters
    ----------
    cluster
        The state of the server.
    delays
        The requests that faults delay, and until when.
    call_soon
        Calls a function after the present input was handled.
    """

    def __init__(
        self,
        cluster: Cluster,
        delays: Mapping[Call, int],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._cluster, self._delays, self._call_soon = cluster, delays, call_soon
        self._seats: dict[str, dict[str, _Seat]] = {}  # group -> member -> its seat
        self._speaks: dict[Origin, dict[str, str]] = {}  # connection -> group -> its member
        self._is_looking = False
        self._timer: Timer | None = None
        self._settling: _Plan | None = None  # the plan that the timer is for

    # What the server does

    def hear(self, call: Call) -> None:
        """Note whose request comes, before it is handled."""
        if call.api_key in _OF_MEMBERS:
            group_id, member_id = call.body["groupId"], call.body["memberId"]
            if member_id or call.api_key != _COMMIT:
                joins = call.api_key == _JOIN or call.body.get("memberEpoch") == 0
                self._note(call.connection, group_id, member_id, joins)
        self.notice()

    def _note(self, connection: Origin, group_id: str, member_id: str, joins: bool) -> None:
        now_ms, wall_ms = self._cluster.now_ms, self._cluster.waits.now_ms
        seats = self._seats.setdefault(group_id, {})
        speaks = self._speaks.setdefault(connection, {})
        before = speaks.get(group_id)
        if joins or not before:  # else it may be a late request of an earlier member
            if before is not None and before != member_id and before in seats:
                seats[before].gone_ms = wall_ms
            speaks[group_id] = member_id
        if member_id:
            seats[member_id] = _Seat(connection, now_ms, wall_ms)

    def lost(self, connection: Origin, by_client: bool) -> None:
        """Note that a connection has ended."""
        for group_id, member_id in self._speaks.pop(connection, {}).items():
            seat = self._seats[group_id].get(member_id)
            if by_client and seat is not None and seat.connection is connection:
                seat.gone_ms = self._cluster.waits.now_ms + _CLOSED_MS
        self.notice()

    def notice(self) -> None:
        """Look once after the present input, as something has changed."""
        if not self._is_looking:
            self._is_looking = True
            self._call_soon(self._look)

    def holding(self, group_id: str) -> list[str]:
        """Return the members that the clock waits for, while others of their group wait for it."""
        group = self._group(group_id)
        return sorted(group.acting) if group.waiting and not group.is_blocked else []

    # The clock

    def _look(self) -> None:
        """Prepare a jump; or look again when the next member counts as gone."""
        self._is_looking = False
        waits, groups = self._cluster.waits, self._groups()
        plan = self._plan(groups)
        if plan == self._settling:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._settling = None
        if plan.to_ms > self._cluster.now_ms:
            self._settling = plan
            self._timer = waits.call_later(_SETTLE_MS, self._jump)
        elif plan.waiting or plan.delayed:
            gone_ms = [at_ms for group in groups.values() for at_ms in group.acting.values()]
            if gone_ms:
                self._timer = waits.call_at(min(gone_ms), self.notice)

    def _jump(self) -> None:
        self._timer = self._settling = None
        self._cluster.move(self._plan(self._groups()).to_ms)
        self.notice()

    def _plan(self, groups: Mapping[str, _Group]) -> _Plan:
        now_ms = self._cluster.now_ms
        delayed = {
            call: at_ms for call, at_ms in self._delays.items() if not call.connection.closing
        }
        ends_ms, limits_ms = list(delayed.values()), []
        for group in groups.values():
            if group.is_blocked:
                ends_ms += group.deadlines_ms(group.gone)
            if group.acting:
                limits_ms += [at_ms - 1 for at_ms in group.deadlines_ms(group.acting)]
        to_ms = min([min(ends_ms), *limits_ms]) if ends_ms else now_ms
        waiting = [(name, member) for name, group in groups.items() for member in group.waiting]
        return _Plan(max(now_ms, to_ms), frozenset(waiting), frozenset(delayed))

    # Groups

    def _groups(self) -> dict[str, _Group]:
        return {group_id: self._group(group_id) for group_id in self._seats}

    def _group(self, group_id: str) -> _Group:
        core = self._cluster.groups.core
        timers = core.timers_of(group_id)
        if not timers:  # so that the many groups of earlier tests cost little
            return _NOBODY
        if (classic := core.group(group_id)) is not None:
            waiting = {
                member.member_id
                for member in classic.all_members
                if member.is_awaiting_join or member.is_awaiting_sync
            }
            ids = {member.member_id for member in classic.all_members}
            ids |= set(classic.pending_member_ids)
            acting, gone = self._parted(group_id, ids, waiting, timers)
            return _Group(waiting, acting, gone, bool(waiting and not acting), timers)
        group = self._cluster.groups.described(group_id)
        if group is None:
            return _NOBODY
        members = {member.member_id: member for member in group.members}
        acting, gone = self._parted(group_id, members, (), timers)
        waiting = {name for name in acting if _lacks_partitions(members[name])}
        is_blocked = bool(waiting and gone) and all(
            members[name].member_epoch == group.assignment_epoch == group.group_epoch
            for name in acting
        )
        return _Group(waiting, acting, gone, is_blocked, timers)

    def _parted(
        self, group_id: str, members: Iterable[str], waiting: Collection[str], timers: _Timers
    ) -> tuple[dict[str, int], set[str]]:
        """Part members: those that act, with the time when they count as gone; those that are gone.

        A member that waits, also for the end of an injected delay, is neither.
        """
        waits, seats = self._cluster.waits, self._seats.setdefault(group_id, {})
        ends_ms = {name: at_ms for kind, name, at_ms in timers if kind in ("session", "pending")}
        acting, gone = {}, set()
        for name in members:
            seat = seats.get(name)
            if seat is None:  # it has got its id, and not come with it yet
                seat = seats[name] = _Seat(None, self._cluster.now_ms, waits.now_ms)
            call = None if seat.connection is None else seat.connection.call
            if name in waiting or call in self._delays:
                seat.waits = True
                continue
            if seat.waits:  # it is answered, and has its session from now on
                seat.clock_ms, seat.wall_ms = self._cluster.now_ms, waits.now_ms
                seat.waits = False
            silent_ms = ends_ms.get(name, _NEVER_MS) - seat.clock_ms
            gone_ms = seat.wall_ms + silent_ms if seat.gone_ms is None else seat.gone_ms
            if gone_ms <= waits.now_ms:
                gone.add(name)
            else:
                acting[name] = gone_ms
        return acting, gone


def _lacks_partitions(member: DescribedConsumerMember) -> bool:
    """Whether a member waits for partitions that another has not given up."""
    owned = {(row.topic_id, number) for row in member.assignment for number in row.partitions}
    target = {
        (row.topic_id, number) for row in member.target_assignment for number in row.partitions
    }
    return not target <= owned
