"""The connections of clients, and what can go wrong on them.

A request takes the latency to arrive, and so does its response. While a client is cut off, both
wait as in TCP: what has not timed out is delivered when the connection heals. A lost request or
response breaks the connection: the client learns of it, but not what became of the request.
A timeout has a timer only when the response can no longer come by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from coterie.schedule import Schedule
from coterie.testing.process import Process, Timer
from coterie.values import Error

__all__ = ["Connection", "Network", "Request"]


class Brokers(Protocol):
    """What connections need of a cluster."""

    schedule: Schedule
    network: Network
    latency_ms: int

    def _handle(self, request: Request) -> None:
        """Carry out a request that has arrived."""

    def _refusal(self, request: Request, error: Error | None) -> Any:
        """Return the response that refuses a request."""


class Request:
    """A request under way.

    Attributes
    ----------
    handler : function
        Takes the response; None: the connection is broken, and there will be no response.
    node : int or None
        The coordinator that it is for; None: any broker.
    response
        The response, once the broker has given it.
    """

    __slots__ = (
        "args", "connection", "done", "fields", "handler", "node", "op", "response", "sent_ms",
        "timeout_ms", "timer",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        op: str,
        handler: Callable[[Any], None],
        node: int | None,
        timeout_ms: int,
        args: tuple[Any, ...],
        fields: dict[str, Any],
    ) -> None:
        self.connection, self.op, self.handler = connection, op, handler
        self.node, self.timeout_ms, self.args, self.fields = node, timeout_ms, args, fields
        self.sent_ms: int = connection.process.now_ms
        self.response: Any = None
        self.done = False
        self.timer: Timer | None = None


class _Fault:
    """Something that happens to the next requests of a client."""

    __slots__ = ("error", "kind", "op", "times")

    def __init__(self, kind: str, op: str | None, times: int, error: Error | None = None) -> None:
        self.kind, self.op, self.times, self.error = kind, op, times, error


class _Host:
    """The state of a client's connections; it outlives the client's processes."""

    def __init__(self) -> None:
        self.cut_ms: int | None = None
        self.slow_ms = 0
        self.faults: list[_Fault] = []
        self.stalled: list[Request] = []
        self.connections: list[Connection] = []

    def take(self, kind: str, op: str) -> _Fault | None:
        """Return a fault that strikes now, and count it."""
        for fault in self.faults:
            if fault.kind == kind and fault.op in (None, op):
                fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                return fault
        return None


class Network:
    """The faults of all connections; clients have names."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self._hosts: dict[str, _Host] = {}

    def host(self, client: str) -> _Host:
        """Return the state of a client's connections."""
        host = self._hosts.get(client)
        if host is None:
            host = self._hosts[client] = _Host()
        return host

    def hosts(self) -> list[_Host]:
        """Return the state of all clients."""
        return list(self._hosts.values())

    def cut(self, client: str) -> None:
        """Cut a client off from all brokers; it goes on with the records that it has."""
        host = self.host(client)
        if host.cut_ms is None:
            host.cut_ms = self._cluster.schedule.now_ms
            for connection in host.connections:
                connection.expect_timeouts()

    def heal(self, client: str) -> None:
        """Let a client's requests and responses through again."""
        host = self.host(client)
        if host.cut_ms is None:
            return
        host.cut_ms = None
        stalled, host.stalled = host.stalled, []
        for request in stalled:
            if not request.done and request.connection.process.alive:
                request.connection.resend(request)
        for connection in host.connections:
            connection.changed()

    def lose_request(self, client: str, op: str | None = None, times: int = 1) -> None:
        """Lose a client's next requests before a broker gets them; ``op``: only those of an API."""
        self.host(client).faults.append(_Fault("request", op, times))

    def lose_response(self, client: str, op: str | None = None, times: int = 1) -> None:
        """Lose the responses to a client's next requests, which a broker has carried out."""
        self.host(client).faults.append(_Fault("response", op, times))

    def end_faults(self, client: str) -> None:
        """Lose and refuse none of a client's next requests."""
        self.host(client).faults.clear()

    def slow(self, client: str, ms: int) -> None:
        """Let each request and each response take so much longer from now on; 0: as before."""
        self.host(client).slow_ms = ms

    def fail(self, client: str, op: str, error: Error, times: int = 1) -> None:
        """Let a broker refuse a client's next requests of an API, without carrying them out."""
        self.host(client).faults.append(_Fault("fail", op, times, error))


class Connection:
    """The connections of one process of a client.

    Parameters
    ----------
    cluster : Brokers
        What it connects to.
    client : str
        The client's name.
    process : Process
        Runs the handlers of responses; the requests of a dead one are not sent.
    changed : function
        Called when the connection heals, or topics change.
    """

    def __init__(
        self, cluster: Brokers, client: str, process: Process, changed: Callable[[], None]
    ) -> None:
        self.cluster, self.client, self.process = cluster, client, process
        self.changed = changed
        self.host = cluster.network.host(client)
        self.host.connections = [c for c in self.host.connections if c.process.alive]
        self.host.connections.append(self)
        self._requests: dict[Request, None] = {}  # under way

    def close(self) -> None:
        """Forget everything under way; brokers may still carry it out."""
        for request in self._requests:
            request.done = True
        self._requests.clear()
        if self in self.host.connections:
            self.host.connections.remove(self)

    @property
    def perfect(self) -> bool:
        """Whether nothing can go wrong with a request now."""
        host = self.host
        return host.cut_ms is None and not host.slow_ms and not host.faults

    @property
    def sees_ms(self) -> int:
        """The time up to which records have reached the client, ms."""
        cut_ms = self.host.cut_ms
        now_ms = self.process.now_ms if cut_ms is None else cut_ms
        return now_ms - self.cluster.latency_ms - self.host.slow_ms

    def send(self, request: Request) -> None:
        """Send a request."""
        process, host = self.process, self.host
        if not process.alive:
            return
        self._requests[request] = None
        if host.faults and host.take("request", request.op):
            process.call_later(self.cluster.latency_ms, self._finish, request, None)
        elif host.cut_ms is not None:
            self._stall(request)
        else:
            self._transmit(request)

    def resend(self, request: Request) -> None:
        """Go on with a request that has stalled."""
        if request.response is None:
            self._transmit(request)
        else:
            self._respond(request)

    def expect_timeouts(self) -> None:
        """Give every request under way a timer: its response may not come."""
        for request in self._requests:
            self._expect_timeout(request)

    def disconnect(self) -> None:
        """Break the connection to the coordinator: what is under way there has no response."""
        for request in [one for one in self._requests if one.node is not None]:
            self._finish(request, None)

    def answer(self, request: Request, response: Any) -> None:
        """Send the response to a request."""
        request.response = response
        host = self.host
        if request.done:
            return
        if host.faults and host.take("response", request.op):
            self.process.call_later(self.cluster.latency_ms, self._finish, request, None)
        elif host.cut_ms is not None:
            self._stall(request)
        else:
            self._respond(request)

    def never(self, request: Request) -> None:
        """Give a request a timeout: no broker will respond to it."""
        self._expect_timeout(request)

    # Inside

    def _delay_ms(self) -> int:
        return self.cluster.latency_ms + self.host.slow_ms

    def _transmit(self, request: Request) -> None:
        self.process.schedule.call_later(self._delay_ms(), self._arrive, request)

    def _arrive(self, request: Request) -> None:
        if self.host.cut_ms is not None:
            self._stall(request)
            return
        if self.host.faults:
            fault = self.host.take("fail", request.op)
            if fault is not None:
                self.answer(request, self.cluster._refusal(request, fault.error))
                return
        self.cluster._handle(request)

    def _respond(self, request: Request) -> None:
        self.process.call_later(self._delay_ms(), self._deliver, request)

    def _deliver(self, request: Request) -> None:
        if self.host.cut_ms is not None and not request.done:
            self._stall(request)
        else:
            self._finish(request, request.response)

    def _stall(self, request: Request) -> None:
        self.host.stalled.append(request)
        self._expect_timeout(request)

    def _expect_timeout(self, request: Request) -> None:
        if request.timer is None:
            left_ms = request.sent_ms + request.timeout_ms - self.process.now_ms
            request.timer = self.process.call_later(max(left_ms, 0), self._finish, request, None)

    def _finish(self, request: Request, response: Any) -> None:
        if request.done:
            return
        request.done = True
        self._requests.pop(request, None)
        if request.timer is not None:
            request.timer.cancel()
        request.handler(response)
