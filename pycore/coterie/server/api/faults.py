"""Request log and fault injection for tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.base.arguments import boolean, did_you_mean, unknown_argument, within
from coterie.coordinator.fields import log_error
from coterie.errors import ArgumentError, shown
from coterie.server.api.call import Call, Handler
from coterie.server.api.sasl import refuse as refuse_sasl
from coterie.server.api.table import ALTER_USER_SCRAM_CREDENTIALS, KEYS, NAMES
from coterie.server.context import Context
from coterie.server.services.authentication import SASL_AUTHENTICATE, SASL_HANDSHAKE
from coterie.values import Error

_MAX_REQUESTS = 100_000  # the newest ones
_MAX_FINISHED = 1000  # finished faults whose counts can still be read
_LONGEST_MS = 2**31 - 1
# The requests whose bodies have passwords, which are not recorded.
_SECRET = {SASL_AUTHENTICATE, ALTER_USER_SCRAM_CREDENTIALS}
_OFFSET_FETCH, _FIND_COORDINATOR = 9, 10
_GROUP_FIELD = {  # API key -> the field with its group or groups
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
    """An injected fault; made by ``Broker.fail``.

    Attributes
    ----------
    id : int
        Its number; the first fault of a server is 1.
    count : int
        The number of requests that it affected.
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
        for name, value in (("client_id", client_id), ("group_id", group_id)):
            if value is not None and not isinstance(value, str):
                raise ArgumentError(f"{name} must be a string, not {shown(value)}")
        if group_id is not None and self.api_key not in _GROUP_FIELD:
            api_names = ", ".join(NAMES[key] for key in _GROUP_FIELD)
            raise ArgumentError(
                f"group_id fits no {NAMES[self.api_key]}, which names no group; "
                f"these do: {api_names}"
            )
        self.client_id, self.group_id = client_id, group_id
        if self.error is None and not self.delay_ms and not self.disconnect:
            raise ArgumentError("a fault needs error, delay_ms or disconnect")
        self.count = 0

    @property
    def left(self) -> int | None:
        """The number of requests that it can still affect; None: no limit."""
        if self._cancelled:
            return 0
        return None if self._times is None else self._times - self.count

    def cancel(self) -> None:
        """End the fault; requests that it already delays are still affected."""
        self._cancelled = True  # may run in another thread while a request is counted

    def meets(self, call: Call) -> bool:
        """Return whether the fault affects a request, and count the request if so."""
        if self.left == 0 or call.api_key != self.api_key:
            return False
        if self.client_id is not None and call.client_id != self.client_id:
            return False
        if self.group_id is not None and self.group_id not in _groups_of(call):
            return False
        self.count += 1
        return True

    def applied(self, at_ms: int, call: Call) -> FaultApplied:
        """Return the event of its effect on a request."""
        groups = _groups_of(call) if call.api_key in _GROUP_FIELD else []
        effects = [f"a delay of {self.delay_ms} ms"] if self.delay_ms else []
        if self.disconnect:
            effects.append("the connection closes")
        elif self.error is not None:
            effects.append(Error(self.error).name)
        who = (call.api_key in _GROUP_FIELD and call.body.get("memberId")) or call.client_id
        return FaultApplied(
            at_ms, groups[0] if groups else None, NAMES[call.api_key], who or "a client",
            ", then ".join(effects),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FaultApplied:
    """A fault affected a request; ``str`` says how."""

    at: int
    group_id: str | None
    api: str
    who: str
    effect: str

    def __str__(self) -> str:
        return f"{self.api} of {self.who}: {self.effect}, injected"


class Watch:
    """Observer of all requests: records them and applies the faults.

    Attributes
    ----------
    requests : deque of dict
        The newest requests, in order of arrival.
    on_fault
        Called with each FaultApplied.
    delays : dict
        The requests that faults delay, and the time of the clock at which each goes on.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.requests: deque[dict[str, Any]] = deque(maxlen=_MAX_REQUESTS)
        self.on_fault: Callable[[FaultApplied], None] = lambda applied: None
        self.delays: dict[Call, int] = {}
        self._faults: list[Fault] = []
        self._known: dict[int, Fault] = {}
        self._made = 0

    def fail(self, api: str | int, **how: Any) -> Fault:
        """Add a fault; see ``Broker.fail``."""
        try:
            fault = Fault(api, **how)
        except TypeError as error:
            raise ArgumentError(unknown_argument(error, Fault)) from None
        self._faults = [old for old in self._faults if old.left != 0] + [fault]
        self._made += 1
        fault.id = self._made
        self._known[fault.id] = fault
        finished = [old.id for old in self._known.values() if old.left == 0]
        for number in finished[:-_MAX_FINISHED]:
            del self._known[number]
        return fault

    def fault(self, number: int) -> Fault | None:
        """Return a fault by its id; None if there is none, or 1000 faults ended after it."""
        return self._known.get(number)

    def __call__(self, call: Call, handler: Handler) -> bool:
        """Record a request; return whether its handler is to be called."""
        self.requests.append(
            {
                "at": self._context.now_ms,
                "api": NAMES[call.api_key],
                "version": call.api_version,
                "correlation_id": call.correlation_id,
                "client_id": call.client_id,
                "client_host": call.connection.client_host,
                "principal": call.connection.principal,
                "node": call.node.id,
                "body": {} if call.api_key in _SECRET else call.body,
            }
        )
        for fault in self._faults:
            if fault.meets(call):
                self.on_fault(fault.applied(self._context.now_ms, call))
                if fault.delay_ms:
                    self._delay(fault, call, handler)
                else:
                    _apply(fault, call, handler)
                return False
        return True

    def _delay(self, fault: Fault, call: Call, handler: Handler) -> None:
        def apply() -> None:
            del self.delays[call]
            if not call.connection.closing:
                _apply(fault, call, handler)

        self.delays[call] = self._context.now_ms + fault.delay_ms
        self._context.timers.call_at(self.delays[call], apply)


def _apply(fault: Fault, call: Call, handler: Handler) -> None:
    if fault.disconnect:
        call.close()
    elif fault.error is not None:
        if call.api_key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            return refuse_sasl(call, fault.error)
        call.refuse(fault.error)
    else:
        call.connection.dispatcher.handle(call, handler)
    return None


def _key_of(api: object) -> int:
    """Return the key of an API, given its key or its name; case and ``_`` do not matter."""
    if isinstance(api, str):
        key = KEYS.get(api.replace("_", "").lower())
        if key is not None:
            return key
    elif isinstance(api, int) and api in NAMES:
        return api
    known = did_you_mean(api, NAMES.values()) or f"; they are {', '.join(NAMES.values())}"
    raise ArgumentError(f"{shown(api)} is no API that is served{known}")


def _groups_of(call: Call) -> list[str]:
    key, version, body = call.api_key, call.api_version, call.body
    if key == _OFFSET_FETCH and version >= 8:
        return [group["groupId"] for group in body["groups"]]
    if key == _FIND_COORDINATOR:
        if body["keyType"] != 0:  # it names transactional ids
            return []
        return list(body["coordinatorKeys"]) if version >= 4 else [body["key"]]
    groups = body[_GROUP_FIELD[key]]
    return [groups] if isinstance(groups, str) else list(groups or ())
