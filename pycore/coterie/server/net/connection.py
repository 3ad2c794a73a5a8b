"""One connection without a socket: received bytes in, responses out.

As in Kafka, one request is handled at a time, so responses have the order of the requests. The next
frame is read after the response. Malformed input only closes its connection.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from coterie import wire
from coterie._core.fast_path.dispatch import answer_quick
from coterie.server.api.call import Call, Dispatcher, Part
from coterie.server.api.lookup import handler_of
from coterie.server.api.table import NAMES, SERVED, SERVED_BY
from coterie.server.cluster import Listener, Node
from coterie.server.services.authentication import API_VERSIONS, Authentication
from coterie.server.services.sasl_refusals import ANONYMOUS, Refused
from coterie.values import Error

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">hh")
_LARGE = 1 << 14  # a longer response is sent before the next request is handled
_FETCH, _MAGIC_2 = 1, 4  # older versions of Fetch get converted copies
# Requests that are not frequent, or small as a rule: one long request at a time.
_ALWAYS_HANDLED = frozenset((0, 1, 8, 9, 11, 12, 13, 14, 17, 18, 28, 36))
# Metadata, OffsetFetch, DescribeGroups, ListGroups, CreateTopics, DeleteTopics, DescribeConfigs,
# DescribeProducers, DescribeTransactions, ListTransactions, DescribeTopicPartitions
_LARGE_RESPONSES = frozenset((3, 9, 15, 16, 19, 20, 32, 61, 65, 66, 75))


class Connection:
    """The protocol state of one connection.

    Attributes
    ----------
    output : list
        The responses to send: bytes, and ranges of stored batches. The owner of the socket takes
        them.
    has_large_output : bool
        Whether a response in the output is large, so that it is to be written in slices.
    closing : bool
        Whether the connection closes after the output is sent.
    write_paused : bool
        Whether requests wait because the peer does not read its responses.
    lacks_room : bool
        Whether the next request waits because too many responses of all peers are unsent, or
        because another long request is being handled.
    read_paused : bool
        Whether reading from the peer is paused; set by the owner of the socket.
    call
        The request being handled; None if there is none.
    refused : bool
        Whether the peer failed to authenticate; the connection closes after a delay.
    authentication
        The authentication state; None on a listener without SASL.
    on_output
        Called when there is output to send or the connection is to close.
    """

    __slots__ = (
        "_buffer", "_longest", "_position", "_running", "authentication", "call", "client_host",
        "closing", "cluster", "dispatcher", "has_large_output", "lacks_room", "listener", "node",
        "on_output", "output", "read_paused", "refused", "tls_principal", "write_paused",
    )  # fmt: skip

    def __init__(
        self,
        dispatcher: Dispatcher,
        node: Node,
        listener: Listener,
        client_host: str = "/127.0.0.1",
        on_output: Callable[[], None] | None = None,
    ) -> None:
        self.dispatcher, self.cluster = dispatcher, dispatcher.cluster
        self.node, self.listener = node, listener
        self.client_host = client_host
        self.tls_principal = ANONYMOUS
        self._longest: int = self.cluster.config["socket.request.max.bytes"]
        self.authentication = self.cluster.authentication(listener) if listener.sasl else None
        self.output: list[Part] = []
        self.on_output = on_output
        self.closing = self.refused = self.write_paused = self.read_paused = False
        self.has_large_output = self.lacks_room = False
        self.call: Call | None = None
        self._buffer = bytearray()
        self._position = 0
        self._running = False

    @property
    def principal(self) -> str:
        """The peer's principal, from SASL or else from its TLS certificate."""
        authentication = self.authentication
        sasl_principal = None if authentication is None else authentication.principal
        return sasl_principal or self.tls_principal

    @property
    def is_waiting(self) -> bool:
        return self.call is not None or self.write_paused or self.refused or self.lacks_room

    @property
    def unread_bytes(self) -> int:
        """The number of received bytes that are not handled yet."""
        return len(self._buffer) - self._position

    def receive(self, data: bytes) -> None:
        """Receive bytes and handle the complete requests."""
        if self.closing:
            return
        if not (self._buffer or self._running or self.is_waiting) and self._is_quick:
            # The fast path: no request waits, and most requests are answered at once.
            taken = self._answer_quick(data, 0)
            if taken == len(data):
                if self.on_output is not None:
                    self.on_output()
                return
            data = data[taken:]
        self._buffer += data
        self.go_on()

    def send(self, frame: bytes) -> None:
        """Send a response with its length in front, and continue with the next request."""
        if len(frame) > _LARGE:
            return self.send_parts([frame])
        if not self.closing:
            self.output.append(_LENGTH.pack(len(frame)) + frame)
            self.go_on()
        return None

    def send_parts(self, parts: Sequence[Part]) -> None:
        """Send a large response, given as the parts of its frame, and continue."""
        if not self.closing:
            self.output += (_LENGTH.pack(sum(map(len, parts))), *parts)
            self.has_large_output = True
            if self.on_output is not None:
                self.on_output()  # pauses this connection until the response is written
            self.go_on()

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            call, self.call = self.call, None
            if call is not None and call.on_close is not None:
                call.on_close()
            self._buffer.clear()
            self.go_on()

    def close_later(self) -> None:
        """Handle no more requests, and close after the delay of a failed authentication."""
        if not self.closing:
            self.refused = True
            delay_ms = self.cluster.config["connection.failed.authentication.delay.ms"]
            self.cluster.waits.call_later(delay_ms, self.close)

    def lost(self) -> None:
        """Handle a lost connection; its requests go on, but their responses are dropped."""
        self.on_output = None
        self.close()
        self.output.clear()
        self.dispatcher.unsent.forget(self._found_room)

    def go_on(self) -> None:
        """Handle requests until one has to wait or the next one is incomplete."""
        if self._running:
            return
        self._running = True
        quick = self._is_quick
        try:
            while not (self.closing or self.is_waiting):
                if quick:
                    self._position = self._answer_quick(self._buffer, self._position)
                frame = self._next_frame()
                if frame is None:
                    break
                if self._has_to_wait(frame):
                    self._position -= _LENGTH.size + len(frame)
                    self.lacks_room = True
                    self.dispatcher.unsent.wait(self._found_room)
                    break
                self._handle(frame)
            if self._position:
                del self._buffer[: self._position]
                self._position = 0
        finally:
            self._running = False
        if (self.output or self.closing or self.read_paused) and self.on_output is not None:
            self.on_output()

    def _has_to_wait(self, frame: bytes) -> bool:
        dispatcher = self.dispatcher
        if len(frame) > _LARGE and dispatcher.is_busy:
            key, _ = _HEAD.unpack_from(frame)
            return key not in _ALWAYS_HANDLED
        return dispatcher.unsent.is_full and _has_large_response(frame)

    def _found_room(self) -> None:
        self.lacks_room = False
        self.go_on()

    @property
    def _is_quick(self) -> bool:
        """Whether only the coordinator has to see heartbeats and commits."""
        return self.authentication is None and self.dispatcher.is_unwatched

    def _answer_quick(self, data: bytes | bytearray, position: int) -> int:
        """Answer the heartbeats and commits at the head of the input, most of consumers' requests.

        Returns
        -------
        int
            The position of the first frame that is another request or incomplete.
        """
        groups = self.cluster.groups
        core = groups.core
        known = self.cluster.topics
        topics = None if groups.answering else known.named
        ids = known.ids if groups.keeps_topic_ids else None
        position, answers = answer_quick(
            core, topics, data, position, self._longest, ids, self._heartbeat_host
        )
        if answers:
            self.output.append(answers)
            if core.unsettled:
                groups.deliver_responses()
        return position

    def _heartbeat_host(self) -> str | None:
        """Return the client's host, None if its ConsumerGroupHeartbeats need their handler."""
        knows = self.cluster.groups.knows_topics and self.cluster.has_consumer_groups
        return self.client_host if knows else None

    def _next_frame(self) -> bytes | None:
        start = self._position + 4
        if len(self._buffer) < start:
            return None
        (size,) = _LENGTH.unpack_from(self._buffer, self._position)
        if not 0 < size <= self._max_frame():
            head = bytes(self._buffer[self._position : start])
            what = f"a frame of {size} bytes, where 1 to {self._max_frame()} are read"
            self._drop(("size", None), what + _looks_like(head))
            return None
        if len(self._buffer) < start + size:
            return None
        self._position = start + size
        return bytes(memoryview(self._buffer)[start : self._position])

    def _drop(self, kind: tuple[str, int | None], what: str, *, later: bool = False) -> None:
        """Close without a response, as a broker does, and log the reason."""
        line = f"{self.client_host}: {what}; the connection closes without an answer"
        self.cluster.log_limited(kind, line)
        return self.close_later() if later else self.close()

    def _max_frame(self) -> int:
        authentication = self.authentication
        own: int | None = None if authentication is None else authentication.max_frame_bytes
        return self._longest if own is None else own

    def _handle(self, frame: bytes) -> None:
        authentication = self.authentication
        if authentication is not None and authentication.bare:
            return self._take_token(authentication, frame)
        if len(frame) < _HEAD.size:
            return self._drop(("parse", None), "a frame that is too short for a header")
        key, version = _HEAD.unpack_from(frame)
        row = SERVED_BY[self.cluster.release.name].get(key)
        name = f"API {key}" if row is None else row.name
        if authentication is not None and not authentication.admits(key):
            when = "before its peer authenticated"
            if authentication.principal is not None:
                when = "of a peer that has to authenticate again, by its first mechanism"
            what = f"{name} {version} {when}"
            return self._drop(("admits", _known_key(key)), what, later=authentication.delayed)
        handler = handler_of(key)
        if row is None or handler is None:
            return self._drop(("api", _known_key(key)), f"{name}, which is not served")
        if not row.first <= version <= row.last:
            if key != API_VERSIONS:
                what = f"{name} {version}, which is served from {row.first} to {row.last}"
                return self._drop(("version", key), what)
            if authentication is None or not authentication.misplaced(key):
                return self._send_range(frame, version)
            self._send_range(frame, version, Error.ILLEGAL_SASL_STATE)
            return self.close_later()
        try:
            request = wire.decode_request(frame, fill=True, rows=row.row_form)
        except wire.WireError as unread:
            return self._drop(("parse", key), f"{name} {version} does not parse: {unread}")
        self.call = call = Call(self, request, frame)
        if authentication is not None and authentication.misplaced(key):
            call.refuse(Error.ILLEGAL_SASL_STATE)
            return self.close_later()
        dispatcher = self.dispatcher
        if dispatcher.observer is None or dispatcher.observer(call, handler):
            return dispatcher.handle(call, handler)
        return None

    def _take_token(self, authentication: Authentication, frame: bytes) -> None:
        """Handle a SASL token without a request header, as after SaslHandshake 0."""
        outcome = authentication.token(frame)
        if not isinstance(outcome, Refused):
            return self.send(outcome)
        what = (
            f"a token of SASL that is refused ({authentication.failed_login}); "
            "after SaslHandshake 0 that has no answer"
        )
        return self._drop(("token", None), what, later=outcome.delayed)

    def _send_range(
        self, frame: bytes, version: int, error: Error = Error.UNSUPPORTED_VERSION
    ) -> None:
        """Answer an unknown version of ApiVersions in version 0, with its own range only.

        Only the request header is read, as version 2, or as version 1 for negative API versions.
        """
        like = b"\0\0" if version < 0 else b"\0\3"  # an API version with the same header version
        try:
            wire.decode_request(frame[:2] + like + frame[4:])
        except wire.WireError as unread:
            if unread.stage == "header":
                what = f"ApiVersions {version} does not parse: {unread}"
                return self._drop(("parse", API_VERSIONS), what)
        (correlation_id,) = _LENGTH.unpack_from(frame, _HEAD.size)
        row = SERVED[API_VERSIONS]
        keys = [{"apiKey": row.key, "minVersion": row.first, "maxVersion": row.last}]
        body = {"errorCode": error, "apiKeys": keys if error is Error.UNSUPPORTED_VERSION else []}
        return self.send(wire.encode_response(API_VERSIONS, 0, body, correlation_id=correlation_id))


def _known_key(key: int) -> int:
    """Map unknown API keys to one, so that a peer cannot create any number of log kinds."""
    return key if key in NAMES else -1


def _has_large_response(frame: bytes) -> bool:
    """Whether a response may have many encoded bytes; a Fetch refers to stored batches."""
    key, version = _HEAD.unpack_from(frame.ljust(_HEAD.size, b"\0"))
    return key in _LARGE_RESPONSES or (key == _FETCH and version < _MAGIC_2)


def _looks_like(head: bytes) -> str:
    """Describe the first bytes of a peer that speaks another protocol."""
    if head[:2] == b"\x16\x03":
        return " (TLS, as it seems, where none is expected)"
    return " (HTTP, as it seems)" if head in (b"GET ", b"POST", b"HEAD", b"PUT ") else ""
