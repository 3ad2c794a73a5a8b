"""The connections of clients, and what can go wrong on them.

A request takes the latency to arrive, and so does its response. While a client is cut off, both
wait as in TCP: what has not timed out is delivered when the connection heals. A lost request or
response breaks the connection: the client learns of it, but not what became of the request.
A timeout has a timer only when the response can no longer come by itself.
"""

from __future__ import annotations

from collections.abc import Collection

from coterie._core.testing.clients import Host
from coterie.base.arguments import did_you_mean
from coterie.base.schedule import Schedule
from coterie.coordinator.fields import log_error
from coterie.errors import ArgumentError, shown
from coterie.values import Error


class _Fault:
    """Something that happens to the next requests of a client."""

    __slots__ = ("error", "kind", "op", "times")

    def __init__(self, kind: str, op: str | None, times: int, error: Error | None = None) -> None:
        self.kind, self.op, self.times, self.error = kind, op, times, error


class Network:
    """The faults of all connections; clients have names. ``ops``: those that requests can have."""

    def __init__(self, schedule: Schedule, ops: Collection[str]) -> None:
        self._schedule, self._ops = schedule, ops
        self._hosts: dict[str, Host] = {}

    def host(self, client: str) -> Host:
        """Return the state of a client's connections."""
        host = self._hosts.get(client)
        if host is None:
            host = self._hosts[client] = Host(client)
        return host

    def hosts(self) -> list[Host]:
        """Return the state of all clients."""
        return list(self._hosts.values())

    def cut(self, client: str) -> None:
        """Cut a client off from all brokers; it goes on with the records that it has."""
        host = self.host(client)
        if host.cut_ms is None:
            host.cut_ms = self._schedule.now_ms
            for connection in host.connections:
                connection.expect_timeouts()

    def heal(self, client: str) -> None:
        """Let a client's requests and responses through again."""
        host = self.host(client)
        if host.cut_ms is None:
            return
        host.cut_ms = None
        stalled = [*host.stalled]
        host.stalled.clear()
        for request in stalled:
            if not request.done and request.connection.process.alive:
                request.connection.resend(request)
        for connection in host.connections:
            connection.wake()

    def lose_request(self, client: str, op: str | None = None, times: int = 1) -> None:
        """Lose a client's next requests before a broker gets them; ``op``: only those of an API."""
        self._add(client, _Fault("request", op, times))

    def lose_response(self, client: str, op: str | None = None, times: int = 1) -> None:
        """Lose the responses to a client's next requests, which a broker has carried out."""
        self._add(client, _Fault("response", op, times))

    def end_faults(self, client: str) -> None:
        """Lose and refuse none of a client's next requests."""
        self.host(client).faults.clear()

    def slow(self, client: str, ms: int) -> None:
        """Let each request and each response take so much longer from now on; 0: as before."""
        self.host(client).slow_ms = ms

    def fail(self, client: str, op: str, error: Error | str, times: int = 1) -> None:
        """Let a broker refuse a client's next requests of an API, without carrying them out."""
        known = Error(log_error({"error": error}, "error", None))
        self._add(client, _Fault("fail", op, times, known))

    def _add(self, client: str, fault: _Fault) -> None:
        if fault.op is not None and fault.op not in self._ops:
            known = did_you_mean(fault.op, self._ops) or f"; the ops are {', '.join(self._ops)}"
            raise ArgumentError(f"{shown(fault.op)} is no op{known}")
        self.host(client).faults.append(fault)
