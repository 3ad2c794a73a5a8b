"""What a test asks of a broker besides serving: what was asked, and faults on demand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from coterie.arguments import boolean, within
from coterie.coordinator.fields import log_error
from coterie.errors import ArgumentError, shown
from coterie.server.api.call import Call, Handler
from coterie.server.api.table import SERVED
from coterie.server.context import Context
from coterie.values import Error

__all__ = ["Fault", "Watch"]

_KEPT = 100_000  # requests that are remembered, the newest
_KEPT_OVER = 1000  # faults that no request meets any more: they can still be asked for
_LONGEST_MS = 2**31 - 1
_OFFSET_FETCH, _FIND_COORDINATOR = 9, 10
_SASL = (17, 36)  # SaslHandshake, SaslAuthenticate
_SASL_AUTHENTICATE = 36
_GROUP_FIELD = {  # API -> what names its group, or its groups
    8: "groupId",  # OffsetCommit
    _OFFSET_FETCH: "groupId",  # and "groups", from version 8 on
    _FIND_COORDINATOR: "key",  # and "coordinatorKeys", from version 4 on
    11: "groupId",  # JoinGroup
    12: "groupId",  # Heartbeat
    13: "groupId",  # LeaveGroup
    14: "groupId",  # SyncGroup
    15: "groups",  # DescribeGroups
    25: "groupId",  # AddOffsetsToTxn
    28: "groupId",  # TxnOffsetCommit
    42: "groupsNames",  # DeleteGroups
    47: "groupId",  # OffsetDelete
    68: "groupId",  # ConsumerGroupHeartbeat
    69: "groupIds",  # ConsumerGroupDescribe
}


class Fault:
    """A fault that requests meet; made by ``Broker.fail``.

    Attributes
    ----------
    id : int
        Its number, from 1 in the order in which faults were made.
    count : int
        How many requests have met it.
    """

    id = 0

    def __init__(
        self,
        api: str | int,
        *,
        error: Any = None,
        delay_ms: int = 0,
        disconnect: bool = False,
        times: int | None = 1,
        client_id: str | None = None,
        group_id: str | None = None,
    ) -> None:
        self.api_key = _key_of(api)
        self.error = None if error is None else log_error({"error": error}, "error", None)
        if self.error == Error.NONE:
            raise ArgumentError("error must be an error of Kafka's, not NONE; leave it out")
        self.delay_ms = within(delay_ms, "delay_ms", 0, _LONGEST_MS)
        self.disconnect = boolean(disconnect, "disconnect")
        self._times = None if times is None else within(times, "times", 0, _LONGEST_MS)
        self._cancelled = False
        for name, given in (("client_id", client_id), ("group_id", group_id)):
            if given is not None and not isinstance(given, str):
                raise ArgumentError(f"{name} must be a string, not {shown(given)}")
        if group_id is not None and self.api_key not in _GROUP_FIELD:
            named = ", ".join(SERVED[key].name for key in _GROUP_FIELD)
            raise ArgumentError(
                f"group_id fits no {SERVED[self.api_key].name}, which names no group; "
                f"these do: {named}"
            )
        self.client_id, self.group_id = client_id, group_id
        if self.error is None and not self.delay_ms and not self.disconnect:
            raise ArgumentError("a fault needs error, delay_ms or disconnect")
        self.count = 0

    @property
    def left(self) -> int | None:
        """How many more requests can meet it; None: all."""
        if self._cancelled:
            return 0
        return None if self._times is None else self._times - self.count

    def cancel(self) -> None:
        """Let no more requests meet it; those that it holds back by a delay still do."""
        self._cancelled = True  # by another thread, maybe just while a request is counted

    def meets(self, call: Call) -> bool:
        """Whether this request is the fault's; if so it is counted."""
        if self.left == 0 or call.api_key != self.api_key:
            return False
        if self.client_id is not None and call.client_id != self.client_id:
            return False
        if self.group_id is not None and self.group_id not in _groups_of(call):
            return False
        self.count += 1
        return True


class Watch:
    """Sees each request before it is handled: keeps it, and lets faults happen.

    Attributes
    ----------
    requests : deque of dict
        The newest requests, oldest first.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.requests: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._faults: list[Fault] = []
        self._known: dict[int, Fault] = {}
        self._made = 0

    def fail(self, api: str | int, **how: Any) -> Fault:
        """Let requests of an API fail; see ``Broker.fail``."""
        try:
            fault = Fault(api, **how)
        except TypeError as error:
            raise ArgumentError(str(error)) from None
        self._faults = [each for each in self._faults if each.left != 0] + [fault]
        self._made += 1
        fault.id = self._made
        self._known[fault.id] = fault
        over = [each.id for each in self._known.values() if each.left == 0]
        for number in over[:-_KEPT_OVER]:
            del self._known[number]
        return fault

    def fault(self, number: int) -> Fault | None:
        """Return a fault by its id; None: there is none, or a thousand ended later than it."""
        return self._known.get(number)

    def __call__(self, call: Call, handler: Handler) -> bool:
        """Keep a request; whether it is to be handled as ever."""
        self.requests.append(
            {
                "at": self._context.now_ms,
                "api": SERVED[call.api_key].name,
                "version": call.api_version,
                "correlation_id": call.correlation_id,
                "client_id": call.client_id,
                "client_host": call.connection.client_host,
                "principal": call.connection.principal,
                "node": call.node.id,
                "body": {} if call.api_key == _SASL_AUTHENTICATE else call.body,  # a password
            }
        )
        for fault in self._faults:
            if fault.meets(call):
                if fault.delay_ms:
                    later = _later(fault, call, handler)
                    self._context.timers.call_at(self._context.now_ms + fault.delay_ms, later)
                else:
                    _happen(fault, call, handler)
                return False
        return True


def _later(fault: Fault, call: Call, handler: Handler) -> Callable[[], None]:
    def happen() -> None:
        if not call.connection.closing:
            _happen(fault, call, handler)

    return happen


def _happen(fault: Fault, call: Call, handler: Handler) -> None:
    if fault.disconnect:
        call.close()
    elif fault.error is not None:
        if call.api_key in _SASL:
            from coterie.server.api.handlers.sasl import refuse

            return refuse(call, fault.error)
        call.refuse(fault.error)
    else:
        call.connection.dispatcher.handle(call, handler)
    return None


def _key_of(api: Any) -> int:
    """Return the key of an API by its name, in any spelling, or by its key."""
    if isinstance(api, str):
        wanted = api.replace("_", "").lower()
        for row in SERVED.values():
            if row.name.lower() == wanted:
                return row.key
    elif isinstance(api, int) and api in SERVED:
        return api
    names = ", ".join(row.name for row in SERVED.values())
    raise ArgumentError(f"{shown(api)} is no API that is served; they are {names}")


def _groups_of(call: Call) -> list[str]:
    """Return the groups that a request is about."""
    key, version, body = call.api_key, call.api_version, call.body
    if key == _OFFSET_FETCH and version >= 8:
        return [each["groupId"] for each in body["groups"]]
    if key == _FIND_COORDINATOR:
        if body["keyType"] != 0:  # it is for a transactional id
            return []
        return list(body["coordinatorKeys"]) if version >= 4 else [body["key"]]
    told = body[_GROUP_FIELD[key]]
    return [told] if isinstance(told, str) else list(told or ())
