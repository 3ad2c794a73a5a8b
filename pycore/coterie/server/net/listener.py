"""The sockets and the clock of a server; no other module has either.

One asyncio loop serves all connections; threads only send large responses. Received bytes go to a
``Connection`` and its output goes to the transport. The cluster gets the time with each received
message and when a timer expires.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable
from typing import cast

from coterie.server.api.call import Dispatcher
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.net.backlog import SLICE_BYTES, Backlog, Turns
from coterie.server.net.connection import Connection
from coterie.server.net.sender import SEND_BYTES, Sender, Senders
from coterie.server.net.tls import handshake_failure, peer_principal
from coterie.server.services.adjacent_batches import Buffer

_MUCH = 1 << 18  # pause reading when more bytes wait behind a request
_SHORT = 1 << 16  # an output of so many bytes is written at once
_ROUNDS = 10  # checks for idle connections within connections.max.idle.ms


def new_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop, with uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class ClockDriver:
    """Drives the time of a cluster: the wall-clock timers, and the clock unless it is virtual."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: Cluster, *, virtual: bool) -> None:
        self._loop, self._cluster = loop, cluster
        self.call_soon, self.call_soon_threadsafe = loop.call_soon, loop.call_soon_threadsafe
        self._now = loop.time
        cluster.waits.now_ms = self._last_ms = int(self._now() * 1000)
        # The offset to the loop's monotonic time: setting the system clock affects no session.
        self._ahead_ms = None if virtual else cluster.now_ms - self._last_ms
        self._checking = False
        self._handle: asyncio.TimerHandle | None = None
        self._due_ms = 0
        cluster.waits.on_armed = cluster.timers.on_armed = self.arm

    def tick(self) -> None:
        now_ms = int(self._now() * 1000)
        if now_ms != self._last_ms:
            self._last_ms = now_ms
            self._cluster.waits.advance(now_ms)
            if self._ahead_ms is not None:
                self._cluster.move(now_ms + self._ahead_ms)

    def arm(self) -> None:
        """Schedule the next beat, once for each iteration of the loop."""
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
                return  # an earlier beat is scheduled, which schedules the next one
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
        self._cluster.waits.on_armed = self._cluster.timers.on_armed = None
        if self._handle is not None:
            self._handle.cancel()


class Peers:
    """The connections of a server, with their limits on number and idle time.

    Attributes
    ----------
    on_lost
        Called with each connection that has ended, and whether its client closed it.
    """

    def __init__(self, dispatcher: Dispatcher, heart: ClockDriver) -> None:
        self.dispatcher, self.cluster, self.heart = dispatcher, dispatcher.cluster, heart
        self.all: dict[Peer, None] = {}
        self.on_lost: Callable[[Connection, bool], None] | None = None
        self.turns = Turns(lambda function: heart.call_soon(function))
        self.senders = Senders(lambda function: heart.call_soon_threadsafe(function))
        self._of_listener: Counter[str] = Counter()  # by its name
        self._idle_ms: int = self.cluster.config["connections.max.idle.ms"]
        if self._idle_ms >= 0:
            self._look_later()

    def accepts(self, peer: Peer, name: str, node_id: int) -> bool:
        """Add a connection of a listener unless a limit is reached; return whether it was added."""
        config, limit = self.cluster.config, "max.connections"
        own = f"listener.name.{name}.{limit}"
        dynamic = self.cluster.broker_configs
        most = dynamic.max_connections(node_id)
        most_of_listener = dynamic.max_connections(node_id, f"listener.name.{name}.")
        if most is None:
            most = config[limit]
        if most_of_listener is None:
            most_of_listener = config.get(own, len(self.all) + 1)
        if len(self.all) >= most:
            self.cluster.log_limited(limit, f"a connection was closed at once: {limit} is reached")
        elif self._of_listener[name] >= most_of_listener:
            self.cluster.log_limited(limit, f"a connection was closed at once: {own} is reached")
        else:
            self.all[peer] = None
            self._of_listener[name] += 1
            return True
        return False

    def leaves(self, peer: Peer, name: str) -> None:
        """Remove a connection if it was added."""
        if peer in self.all:
            del self.all[peer]
            self._of_listener[name] -= 1

    def _look_later(self) -> None:
        every_ms = max(self._idle_ms // _ROUNDS, 1)
        self.cluster.waits.call_later(every_ms, self._close_idle)

    def _close_idle(self) -> None:
        latest_ms = self.cluster.waits.now_ms - self._idle_ms
        for peer in [peer for peer in self.all if peer.active_ms <= latest_ms]:
            peer.drop()
        self._look_later()

    def of(self, node: Node) -> list[Peer]:
        return [peer for peer in self.all if peer.connection.node is node]


class Peer(asyncio.Protocol):
    connection: Connection
    transport: asyncio.Transport
    active_ms: int

    def __init__(self, peers: Peers, node: Node, listener: Listener) -> None:
        self._peers, self._node, self._listener = peers, node, listener
        self._tick, self._arm = peers.heart.tick, peers.heart.arm
        self._waits = peers.cluster.waits
        self._backlog: Backlog | None = None  # of large responses; most connections have none
        self._transport_is_full = False  # or a thread sends in its place
        self._sender: Sender | None = None  # of the large response that is being sent
        self._is_sending = False
        # By one call of a thread: more, once the peer has read so many without a pause; 0: it did
        # pause, and the transport writes the rest of the response.
        self._send_bytes = SLICE_BYTES

    def handshake_failed(self, peername: object, error: OSError) -> None:
        self._tick()
        line = f"{host_of(peername)}: {handshake_failure(error)}; the connection closes"
        self._peers.cluster.log_limited("handshake", line)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transports do not derive from it
        self._note_activity()
        host = host_of(self.transport.get_extra_info("peername"))
        self.connection = Connection(
            self._peers.dispatcher, self._node, self._listener, host, self._flush
        )
        if self._listener.tls:
            ended = self.transport.get_extra_info("ssl_object")
            self.connection.tls_principal = peer_principal(ended)
        if not self._peers.accepts(self, self._listener.name, self._node.id):
            self.transport.abort()

    def _note_activity(self) -> None:
        """Move the time to now, at which the connection is not idle."""
        self._tick()
        self.active_ms = self._waits.now_ms

    def data_received(self, data: bytes) -> None:
        """Handle received bytes at the current time."""
        self._note_activity()
        connection = self.connection
        connection.receive(data)
        if connection.read_paused or connection.is_waiting:
            self._read_or_pause()
        self._arm()

    def _read_or_pause(self) -> None:
        """Pause reading while many bytes wait behind a request; resume when it is answered."""
        connection = self.connection
        if connection.closing:
            return
        waits = connection.is_waiting
        if waits and connection.unread_bytes > _MUCH and not connection.read_paused:
            connection.read_paused = True
            self.transport.pause_reading()
        elif connection.read_paused and not waits:
            connection.read_paused = False
            self.transport.resume_reading()

    def _flush(self) -> None:
        connection = self.connection
        if connection.has_large_output or self._backlog is not None:
            self._queue()
        elif connection.output:
            data = cast(list[bytes], connection.output)
            self.transport.write(b"".join(data))
            data.clear()
            self.active_ms = self._waits.now_ms
        if connection.closing:
            self._close_when_sent()
        elif connection.read_paused:
            self._read_or_pause()

    def _queue(self) -> None:
        """Write a short output, or leave it to the turns of all connections.

        No request is handled before all of it is with the transport.
        """
        if self._backlog is None:
            self._backlog = Backlog(self._peers.dispatcher.unsent)
        connection = self.connection
        self._backlog.add(connection.output)
        connection.output.clear()
        connection.has_large_output = False
        connection.write_paused = True
        if self._transport_is_full:
            return
        if self._backlog.size <= _SHORT:
            self._write_slice()
        else:
            self._peers.turns.add(self)

    def write_slice(self) -> int:
        """Write a slice of the backlog, unless the transport is full; return its size."""
        self._tick()
        return self._write_slice()

    def _write_slice(self) -> int:
        backlog = self._backlog
        if backlog is None or not backlog.size or self._transport_is_full:
            return 0
        if backlog.size > SLICE_BYTES and self._can_send():
            self._send(backlog)
            return 0
        before = backlog.size
        self.transport.writelines(backlog.take(SLICE_BYTES))
        self.active_ms = self._waits.now_ms
        if not self._transport_is_full:
            backlog.settle()
        if backlog.size:
            return before - backlog.size
        if self.connection.closing:
            self._close_when_sent()
        elif not self._transport_is_full:
            self._end_backlog()
        return before

    def _can_send(self) -> bool:
        """Return whether a thread may send, and prepare the first time."""
        if self._sender is None and self._send_bytes and not self._listener.tls:
            connected = self.transport.get_extra_info("socket")
            if connected is not None and not self.transport.get_write_buffer_size():
                self._sender = Sender(connected)
        return self._sender is not None

    def _send(self, backlog: Backlog) -> None:
        """Let a thread send; the transport must not use the socket meanwhile."""
        assert self._sender is not None
        self._is_sending = self._transport_is_full = True
        if not self.connection.read_paused:
            self.connection.read_paused = True
            self.transport.pause_reading()
        self._peers.senders.submit(self._sender, backlog.take(self._send_bytes), self._sent)

    def _sent(self, unsent: list[Buffer]) -> None:
        """Continue after a thread has sent; the transport writes the rest for a slow peer."""
        self._is_sending = self._transport_is_full = False
        if self._backlog is None:  # the connection has ended
            return self._end_sender()
        self._note_activity()
        self.connection.read_paused = False
        self.transport.resume_reading()
        self._send_bytes = 0 if unsent else SEND_BYTES
        if unsent:
            self._end_sender()
            self.transport.writelines(unsent)
        if self.connection.closing:
            return self._peers.turns.add(self) if self._backlog.size else self._close_when_sent()
        if not self._transport_is_full:
            self.resume_writing()
        return None

    def _end_sender(self) -> None:
        if self._sender is not None and not self._is_sending:
            self._sender.close()
            self._sender = None

    def _end_backlog(self) -> None:
        """Continue after all of a response is with the transport."""
        self._backlog = None
        self._send_bytes = self._send_bytes or SLICE_BYTES
        self._end_sender()
        self.connection.write_paused = False
        self.connection.go_on()

    def _close_when_sent(self) -> None:
        if self._backlog is None or not (self._backlog.size or self._is_sending):
            self.transport.close()

    def finish(self) -> None:
        """Close once the responses are sent."""
        self.connection.close()

    def drop(self) -> None:
        """Close at once where the peer does not read its responses, else after they are sent."""
        unsent = self._backlog is not None or self._transport_is_full
        self.connection.close()
        if unsent:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Stop handling requests because the peer does not read its responses."""
        self._transport_is_full = True
        self.connection.write_paused = True

    def resume_writing(self) -> None:
        self._transport_is_full = False
        self._note_activity()
        if self._backlog is not None:
            self._backlog.settle()
            if self._backlog.size:
                return self._peers.turns.add(self)
        return self._end_backlog()

    def eof_received(self) -> bool:
        """Close when the peer has closed its side, as Kafka does."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """End the connection; pending requests go on without a response."""
        self._peers.leaves(self, self._listener.name)
        by_client = not self.connection.closing
        self.connection.lost()
        if self._peers.on_lost is not None:
            self._peers.on_lost(self.connection, by_client)
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            backlog.clear()
        if self._sender is not None and self._is_sending:
            self._sender.abort()
        self._end_sender()


def host_of(peername: object) -> str:
    host = str(peername[0]) if isinstance(peername, tuple) else "127.0.0.1"
    if ":" not in host:
        return f"/{host}"
    address = ipaddress.IPv6Address(host.partition("%")[0])
    return "/" + ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
