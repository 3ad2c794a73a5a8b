"""One connection, without a socket: bytes in, answers out, in the order of the requests.

As in Kafka one request at a time is at work: the next frame is looked at once it is answered, and
answers that wait hold back all behind them. A peer can do no worse than have its connection
closed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie import wire
from coterie.server.apis import API_VERSIONS, SERVED, handler_of
from coterie.server.handling import Call

if TYPE_CHECKING:
    from coterie.server.cluster import Cluster, Listener, Node

__all__ = ["Connection", "Gate"]

Gate = Callable[["Connection", bytes], bool]

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">hh")
_UNSUPPORTED_VERSION = 35


class Connection:
    """What a peer has sent and what it is to be sent.

    Attributes
    ----------
    output : list of bytes
        What is to be sent; whoever has the socket takes it.
    closing : bool
        Whether the connection is to be closed once the output is sent.
    held : bool
        Whether the next request has to wait, because the peer does not read its answers.
    call
        The request at work, None where there is none.
    gate
        Sees each frame first, and says whether it is handled as a request; SASL's.
    max_frame : int
        The longest frame that is read.
    on_output
        Called when there is output, or the end, that nobody has taken.
    """

    __slots__ = (
        "_buffer", "_position", "_running", "call", "client_host", "closing", "cluster", "gate",
        "held", "listener", "max_frame", "node", "on_output", "output", "principal", "state",
    )  # fmt: skip

    def __init__(
        self,
        cluster: Cluster,
        node: Node,
        listener: Listener,
        client_host: str = "/127.0.0.1",
        on_output: Callable[[], None] | None = None,
    ) -> None:
        self.cluster, self.node, self.listener = cluster, node, listener
        self.client_host = client_host
        self.principal = "User:ANONYMOUS"
        self.state: dict[str, object] = {}  # what a connection's own APIs keep
        self.max_frame: int = cluster.config["socket.request.max.bytes"]
        self.gate: Gate | None = None
        self.output: list[bytes] = []
        self.on_output = on_output
        self.closing = self.held = False
        self.call: Call | None = None
        self._buffer = bytearray()
        self._position = 0
        self._running = False
        if cluster.on_connect is not None:
            cluster.on_connect(self)

    @property
    def waiting(self) -> int:
        """How many bytes have come that are not looked at yet."""
        return len(self._buffer) - self._position

    def receive(self, data: bytes) -> None:
        """Take bytes of the peer, and handle what is whole."""
        if not self.closing:
            self._buffer += data
            self.go_on()

    def send(self, frame: bytes) -> None:
        """Put an answer out, its length in front, and go on with the next request."""
        if not self.closing:
            self.output.append(_LENGTH.pack(len(frame)) + frame)
            self.go_on()

    def close(self) -> None:
        """End the connection; what was put out is still sent."""
        if not self.closing:
            self.closing = True
            self.call = None
            self._buffer.clear()
            self._position = 0
            self.go_on()

    def lost(self) -> None:
        """Note that the peer is gone: what its requests began goes on, and is answered nowhere."""
        self.on_output = None
        self.close()
        self.output.clear()

    def go_on(self) -> None:
        """Handle requests until one has to wait, or none is whole."""
        if self._running:
            return
        self._running = True
        try:
            while not (self.closing or self.held or self.call is not None):
                frame = self._next_frame()
                if frame is None:
                    break
                self._handle(frame)
            if self._position:
                del self._buffer[: self._position]
                self._position = 0
        finally:
            self._running = False
        if (self.output or self.closing) and self.on_output is not None:
            self.on_output()

    def _next_frame(self) -> bytes | None:
        start = self._position + 4
        if len(self._buffer) < start:
            return None
        (size,) = _LENGTH.unpack_from(self._buffer, self._position)
        if not 0 < size <= self.max_frame:
            self.close()
            return None
        if len(self._buffer) < start + size:
            return None
        self._position = start + size
        return bytes(memoryview(self._buffer)[start : self._position])

    def _handle(self, frame: bytes) -> None:
        if self.gate is not None and not self.gate(self, frame):
            return
        if len(frame) < _HEAD.size:
            return self.close()
        key, version = _HEAD.unpack_from(frame)
        row = SERVED.get(key)
        handler = handler_of(key)
        if row is None or handler is None:
            return self.close()
        if not row.first <= version <= row.last:
            if key != API_VERSIONS:
                return self.close()
            return self._tell_range(frame, version)
        try:
            request = wire.decode_request(frame, fill=True)
        except wire.WireError:
            return self.close()
        self.call = call = Call(self, request)
        observer = self.cluster.observer
        if observer is not None and not observer(call, handler):
            return None
        return self.cluster.guarded(handler, call)

    def _tell_range(self, frame: bytes, version: int) -> None:
        """Answer ApiVersions of a version that does not exist: in version 0, its range alone.

        Of the request only the header is read: that of version 2, or 1 for versions below 0.
        """
        like = b"\0\0" if version < 0 else b"\0\3"  # a version with the same header
        try:
            wire.decode_request(frame[:2] + like + frame[4:])
        except wire.WireError as error:
            if error.stage == "header":
                return self.close()
        (correlation_id,) = _LENGTH.unpack_from(frame, _HEAD.size)
        row = SERVED[API_VERSIONS]
        keys = [{"apiKey": row.key, "minVersion": row.first, "maxVersion": row.last}]
        body = {"errorCode": _UNSUPPORTED_VERSION, "apiKeys": keys}
        return self.send(wire.encode_response(API_VERSIONS, 0, body, correlation_id=correlation_id))
