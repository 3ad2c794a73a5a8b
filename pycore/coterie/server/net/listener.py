"""The sockets and the clock of a server: the only place that has them.

One loop of asyncio serves all connections. Bytes go to a ``Connection`` and its answers to the
transport; the time goes to the cluster when something comes, and when something falls due.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter
from typing import Any, cast

from coterie.server.api.call import Dispatcher
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.net.connection import Connection

__all__ = ["Heart", "Peer", "Peers", "new_loop"]

_MUCH = 1 << 18  # bytes that wait behind a request: from here on no more are read
_ROUNDS = 10  # looks for idle connections in the time in which one becomes idle


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop: uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def epoch_ms() -> int:
    """Return what the time is now."""
    return time.time_ns() // 1_000_000


class Heart:
    """Moves the time of a cluster: its waits always, its clock unless that is virtual."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: Cluster, *, virtual: bool) -> None:
        self._loop, self._cluster = loop, cluster
        self._now = loop.time
        cluster.waits.now_ms = self._last_ms = int(self._now() * 1000)
        # What to add to the loop's time: a clock that is set back or on changes no session.
        self._ahead_ms = None if virtual else cluster.now_ms - self._last_ms
        self._checking = False
        self._handle: asyncio.TimerHandle | None = None
        self._due_ms = 0
        cluster.waits.on_armed = cluster.timers.on_armed = self.arm

    def tick(self) -> None:
        """Tell the cluster what time it is."""
        now_ms = int(self._now() * 1000)
        if now_ms != self._last_ms:
            self._last_ms = now_ms
            self._cluster.waits.advance(now_ms)
            if self._ahead_ms is not None:
                self._cluster.move(now_ms + self._ahead_ms)

    def arm(self) -> None:
        """Look, once in this turn of the loop, when to beat next."""
        if not self._checking:
            self._checking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._checking = False
        due_ms = self._cluster.waits.next_deadline_ms()
        if self._ahead_ms is not None:
            by_clock = self._cluster.next_deadline_ms()
            if by_clock is not None:
                by_clock -= self._ahead_ms
                due_ms = by_clock if due_ms is None else min(due_ms, by_clock)
        if self._handle is not None:
            if due_ms is not None and self._due_ms <= due_ms:
                return  # it beats before, and looks again then
            self._handle.cancel()
            self._handle = None
        if due_ms is not None:
            self._due_ms = due_ms
            self._handle = self._loop.call_at(due_ms / 1000 + 0.0005, self._beat)

    def _beat(self) -> None:
        self._handle = None
        try:
            self.tick()
        finally:
            self.arm()

    def stop(self) -> None:
        """Move nothing any more."""
        self._cluster.waits.on_armed = self._cluster.timers.on_armed = None
        if self._handle is not None:
            self._handle.cancel()


class Peers:
    """All connections of a server, and what ends them: idleness, their number, the end."""

    def __init__(self, dispatcher: Dispatcher, heart: Heart) -> None:
        self.dispatcher, self.cluster, self.heart = dispatcher, dispatcher.cluster, heart
        self.all: dict[Peer, None] = {}
        self._of_listener: Counter[str] = Counter()  # by its name
        self._idle_ms: int = self.cluster.config["connections.max.idle.ms"]
        if self._idle_ms >= 0:
            self._look_later()

    def accepts(self, peer: Peer, name: str) -> bool:
        """Count one more of a listener, by its name, if there is room for it."""
        config, limit = self.cluster.config, "max.connections"
        own = f"listener.name.{name}.{limit}"
        if len(self.all) >= config[limit]:
            self.cluster.tell(limit, f"a connection was closed at once: {limit} is reached")
        elif self._of_listener[name] >= config.get(own, len(self.all) + 1):
            self.cluster.tell(limit, f"a connection was closed at once: {own} is reached")
        else:
            self.all[peer] = None
            self._of_listener[name] += 1
            return True
        return False

    def leaves(self, peer: Peer, name: str) -> None:
        """Count one less, if it was counted."""
        if peer in self.all:
            del self.all[peer]
            self._of_listener[name] -= 1

    def _look_later(self) -> None:
        every_ms = max(self._idle_ms // _ROUNDS, 1)
        self.cluster.waits.call_later(every_ms, self._close_idle)

    def _close_idle(self) -> None:
        latest_ms = self.cluster.waits.now_ms - self._idle_ms
        for peer in [peer for peer in self.all if peer.active_ms <= latest_ms]:
            peer.connection.close()
        self._look_later()

    def of(self, node: Node) -> list[Peer]:
        """Return the connections of one broker."""
        return [peer for peer in self.all if peer.connection.node is node]


class Peer(asyncio.Protocol):
    """One connection with its transport."""

    connection: Connection
    transport: asyncio.Transport

    def __init__(self, peers: Peers, node: Node, listener: Listener) -> None:
        self._peers, self._node, self._listener = peers, node, listener
        self._tick, self._arm = peers.heart.tick, peers.heart.arm
        self._waits = peers.cluster.waits
        self.active_ms = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's derives from none
        self._tick()
        self.active_ms = self._waits.now_ms
        host = host_of(self.transport.get_extra_info("peername"))
        self.connection = Connection(
            self._peers.dispatcher, self._node, self._listener, host, self._flush
        )
        if self._listener.tls:
            from coterie.server.net.tls import peer_principal

            ended = self.transport.get_extra_info("ssl_object")
            self.connection.tls_principal = peer_principal(ended)
        if not self._peers.accepts(self, self._listener.name):
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Hand on what came, at its time."""
        self._tick()
        self.active_ms = self._waits.now_ms
        connection = self.connection
        connection.receive(data)
        if connection.paused or connection.is_waiting:
            self._read_or_pause()
        self._arm()

    def _read_or_pause(self) -> None:
        """Read no more while much waits behind a request, and go on once its turn comes."""
        connection = self.connection
        if connection.closing:
            return
        waits = connection.is_waiting
        if waits and connection.waiting > _MUCH and not connection.paused:
            connection.paused = True
            self.transport.pause_reading()
        elif connection.paused and not waits:
            connection.paused = False
            self.transport.resume_reading()

    def _flush(self) -> None:
        connection = self.connection
        if connection.output:
            data = connection.output
            self.transport.write(data[0] if len(data) == 1 else b"".join(data))
            data.clear()
            self.active_ms = self._waits.now_ms
        if connection.closing:
            self.transport.close()
        elif connection.paused:
            self._read_or_pause()

    def pause_writing(self) -> None:
        """Handle no more requests: the peer does not read its answers."""
        self.connection.held = True

    def resume_writing(self) -> None:
        """Go on: the peer has read."""
        self.connection.held = False
        self.connection.go_on()
        self._read_or_pause()

    def eof_received(self) -> bool:
        """Close, as Kafka does, when the peer has sent all that it will."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """End; what waits for an answer goes on, and is answered nowhere."""
        self._peers.leaves(self, self._listener.name)
        self.connection.lost()


def host_of(peername: Any) -> str:
    """Return the peer's address as Java prints it."""
    host = str(peername[0]) if isinstance(peername, tuple) else "127.0.0.1"
    if ":" not in host:
        return f"/{host}"
    address = ipaddress.IPv6Address(host.partition("%")[0])
    return "/" + ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
