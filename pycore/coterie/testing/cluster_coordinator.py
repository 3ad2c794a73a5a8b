"""The library's coordinator, with a count of requests and fast heartbeats, for simulations.

Nine of ten requests are heartbeats that only renew a session. They call the core directly.
"""

from __future__ import annotations

import functools
from typing import Any

from coterie._core.coordinator.runtime import CallerLog, response_of
from coterie.base.operations import NUMBER, OPERATIONS, REQUESTS
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.coordinator.pending import Pending
from coterie.coordinator.requests import Compiled, compile_values
from coterie.testing.topic_log import OffsetsLog
from coterie.values import Error, HeartbeatResponse, OffsetAndMetadata

HEARTBEAT, CONSUMER_HEARTBEAT = NUMBER["heartbeat"], NUMBER["consumer_group_heartbeat"]
COMMIT, NAMES = NUMBER["offset_commit"], tuple(OPERATIONS)
BLANK = OPERATIONS["consumer_group_heartbeat"].blank  # rack, timeout, ..., client id, host, version
_NO_PRODUCER = OPERATIONS["offset_commit"].blank[1:3]
_PLAIN = {OffsetAndMetadata}
_compiled = functools.lru_cache(maxsize=4096)(compile_values)


class CountedCoordinator(GroupCoordinator):
    """A coordinator that counts its requests; it is made as a :class:`GroupCoordinator` is."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.requests = 0

    def _sink_of(self, log_sink: Any) -> CallerLog:
        """Let the core write its rows into the log of a cluster as they are."""
        if isinstance(log_sink, OffsetsLog):
            return CallerLog(log_sink.write, log_sink.rows)
        return super()._sink_of(log_sink)

    def _ask(self, op: str, *values: Any) -> Pending[Any]:
        """Call an operation; the equal JoinGroups of a member are compiled once."""
        if op not in REQUESTS:
            return super()._ask(op, *values)
        if op == "join_group":
            return self._call(op, _compiled(op, tuple(map(_hashable, values))))
        return self._call(op, compile_values(op, values))

    def _call(self, op: str, compiled: Compiled) -> Pending[Any]:
        self.requests += 1
        self._ids += 1
        pending = self._outbox.waiting[self._ids] = Pending(self._ids, op)
        try:
            self._core.call(NUMBER[op], pending.id, *compiled)
        finally:
            self._drain()
        return pending

    def offset_commit(
        self,
        group_id: str | None = None,
        offsets: Any = (),
        *,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        version: int = 9,
        retention_time_ms: int = -1,
    ) -> Any:
        """Send OffsetCommit; what a client has checked is not checked again.

        Return the response, or what the library's coordinator returns if it is not the only output.
        """
        if type(offsets) is not dict or {*map(type, offsets.values())} != _PLAIN:
            return super().offset_commit(
                *(group_id, offsets),
                generation_id=generation_id,
                member_id=member_id,
                group_instance_id=group_instance_id,
                version=version,
                retention_time_ms=retention_time_ms,
            )
        rows = [  # the core takes no subclass of tuple for a partition
            (tuple(tp), at.offset, at.leader_epoch, at.metadata, None, -1)
            for tp, at in offsets.items()
        ]
        details = (tuple(rows), *_NO_PRODUCER, version, retention_time_ms)
        self._ids += 1
        member = group_id, generation_id, member_id, group_instance_id
        self.requests += 1
        answer = self._core.ask(COMMIT, self._ids, *member, details)
        return self._settle(COMMIT, self._ids) if answer is None else response_of(COMMIT, *answer)

    def heartbeat(
        self,
        group_id: str | None = None,
        generation_id: int = -1,
        member_id: str = "",
        *,
        group_instance_id: str | None = None,
    ) -> Any:
        error = self.beat(self._core.now_ms, group_id, generation_id, member_id, group_instance_id)
        return HeartbeatResponse(error)

    def beat(
        self,
        at_ms: int,
        group_id: str | None,
        generation_id: int,
        member_id: str,
        instance: str | None,
    ) -> Error:
        """Advance to a time, and send Heartbeat; return its error."""
        core = self._core
        if at_ms > core.now_ms:
            core.advance(at_ms)
        self.requests += 1
        answer = core.ask(HEARTBEAT, 0, group_id, generation_id, member_id, instance, None)
        if answer is None:  # or the time has brought outputs
            error: Error = self._settle(HEARTBEAT, 0).response.error
            return error
        return Error(answer[0]) if answer[0] else Error.NONE

    def _settle(self, op: int, request_id: int) -> Pending[Any]:
        """Take the outputs of a request whose response is not the only one that matters here."""
        pending: Pending[Any] = Pending(request_id, NAMES[op])
        self._outbox.waiting[request_id] = pending
        self._drain()
        return pending

    def consumer_group_heartbeat(
        self,
        group_id: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        *,
        instance_id: str | None = None,
        client_id: str = "",
        **changed: Any,
    ) -> Any:
        """Send ConsumerGroupHeartbeat; the fields of one that changes nothing are not checked."""
        if changed:
            return super().consumer_group_heartbeat(
                *(group_id, member_id, member_epoch),
                instance_id=instance_id,
                client_id=client_id,
                **changed,
            )
        self.requests += 1
        details = (*BLANK[:6], client_id, *BLANK[7:])
        values = group_id, member_epoch, member_id, instance_id, details
        self._core.call(CONSUMER_HEARTBEAT, 0, *values)  # ask() would drop changes of the group
        if len(self._core.outputs) == 1:
            answered = self._core.take_rows(with_events=False)[0]
            return response_of(CONSUMER_HEARTBEAT, answered[1] or 0, answered[2])
        return self._settle(CONSUMER_HEARTBEAT, 0).response

    def move(self, now_ms: int) -> None:
        """Advance to a time."""
        core = self._core
        if now_ms > core.now_ms:
            core.advance(now_ms)
            if len(core.outputs):
                self._drain()

    def size_of(self, group_id: str) -> int:
        """Return how many members a group has."""
        group = self._core.group(group_id)
        return group.size if group is not None else 0

    def leads(self, group_id: str, member_id: str) -> bool:
        group = self._core.group(group_id)
        return group is not None and group.is_leader(member_id)


def _hashable(value: Any) -> Any:
    return tuple(value.items()) if isinstance(value, dict) else value
