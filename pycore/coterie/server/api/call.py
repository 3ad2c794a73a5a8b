"""One request: its fields for the handler, its response, and the handling of failures."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, cast

from coterie import wire
from coterie.errors import CoterieError
from coterie.server.api.table import NAMES, refusal
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.output_budget import Unsent
from coterie.server.rate_limited_log import quoted
from coterie.server.services.adjacent_batches import RecordRange
from coterie.server.services.authentication import Authentication
from coterie.values import Error

Part = bytes | RecordRange  # of a frame
Slices = Generator[None, None, None]  # a handler that yields between slices of its work


class Origin(Protocol):
    """The connection of a call, as handlers see it.

    Attributes
    ----------
    call
        The request being handled; None if there is none.
    closing : bool
        Whether the connection is closed or about to close.
    """

    dispatcher: Dispatcher
    node: Node
    listener: Listener
    client_host: str
    authentication: Authentication | None
    call: Call | None
    closing: bool

    @property
    def principal(self) -> str:
        """The peer's principal."""

    def send(self, frame: bytes) -> None:
        """Send a response and continue with the next request."""

    def send_parts(self, parts: Sequence[Part]) -> None:
        """Send a response, given as the parts of its frame, and continue with the next request."""

    def go_on(self) -> None:
        """Continue with the next request."""

    def close(self) -> None:
        """Close the connection after the pending output is sent."""


class Call:
    """One request; its handler answers it exactly once, immediately or later.

    The connection handles no other request until then. A handler that never answers leaves the
    connection silent.

    Attributes
    ----------
    row : tuple
        The request as a row of the codec; only for APIs in row form.
    connection
        The connection: ``.listener``, ``.client_host`` (``"/127.0.0.1"``), ``.principal``.
    on_close
        Called if the connection closes before the response, to cancel pending work.
    """

    __slots__ = (
        "_body", "_frame", "api_key", "api_version", "client_id", "connection", "correlation_id",
        "on_close", "row",
    )  # fmt: skip

    def __init__(self, connection: Origin, request: wire.Request, frame: bytes) -> None:
        self.connection = connection
        self.api_key: int = request.api_key
        self.api_version: int = request.api_version
        self.correlation_id: int = request.correlation_id
        self.client_id: str | None = request.client_id
        self.row: Any = request.body
        self._body: dict[str, Any] | None = None
        if type(self.row) is dict:
            self.row, self._body = None, self.row
        self._frame = frame
        self.on_close: Callable[[], None] | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The request by Kafka's field names, with the fields of all versions."""
        if self._body is None:
            self._body = cast(dict[str, Any], wire.decode_request(self._frame, fill=True).body)
        return self._body

    @property
    def cluster(self) -> Cluster:
        return self.connection.dispatcher.cluster

    @property
    def node(self) -> Node:
        return self.connection.node

    def answer(self, body: dict[str, Any] | tuple[Any, ...]) -> None:
        """Send the response.

        Missing fields take their default; fields that the version lacks are dropped. A tuple is a
        row of the codec: the fields of all versions, in the table's order.

        A response that cannot be encoded, such as one with a text that is too long, closes the
        connection. It must not raise: another request or a timer may be the caller.
        """
        try:
            frame = wire.encode_response(
                self.api_key, self.api_version, body, correlation_id=self.correlation_id
            )
        except Exception as error:
            return self.connection.dispatcher.failed(self, error)
        return self.answer_bytes(frame)

    def answer_bytes(self, frame: bytes) -> None:
        self._end().send(frame)

    def answer_parts(self, parts: Sequence[Part]) -> None:
        self._end().send_parts(parts)

    def run(self, slices: Slices) -> None:
        self.connection.dispatcher.run(self, slices)

    def refuse(self, error: int) -> None:
        """Fail the whole request in the form of its API.

        A request without a response (acks 0) closes the connection instead.
        """
        body = refusal(self.api_key, self.api_version, self.body, error)
        if body is not None:
            self.answer(body)
        elif error:
            name = Error(error).name
            self.drop(f"wants no acks and failed with {name}")
        else:
            self.no_answer()

    def no_answer(self) -> None:
        """Finish the request without a response."""
        self._end().go_on()

    def drop(self, why: str) -> None:
        """Close the connection without a response, as a broker does, and log the reason."""
        self.log("closed", f"{why}; its connection closes without an answer")
        self.close()

    def leave_silent(self, why: str) -> None:
        """Never respond, as a broker does, and log the reason; the connection stays open."""
        self.log("silent", f"{why}: as by a broker it is never answered")

    def log(self, kind: str, what: str) -> None:
        """Log a line about this request, at a limited rate for each kind and API."""
        host, name = self.connection.client_host, NAMES[self.api_key]
        who = f"{host}: {name} {self.api_version} of client {quoted(self.client_id)}"
        self.cluster.log_limited((kind, self.api_key), f"{who} {what}")

    def close(self) -> None:
        """Close the connection without a response."""
        self._end().close()

    def _end(self) -> Origin:
        connection = self.connection
        if connection.call is not self and not connection.closing:
            raise CoterieError("a call is answered once")
        connection.call = None
        return connection


Handler = Callable[[Call], Slices | None]


class Dispatcher:
    """Calls the handler of each request.

    Attributes
    ----------
    cluster
        The state that all brokers share.
    observer
        Called before each handler; returns whether the handler is to be called.
    unsent
        The unsent bytes of all connections.
    call_soon
        Calls a function after other connections had their turn; None: long requests are handled
        without a break.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.observer: Callable[[Call, Handler], bool] | None = None
        self.unsent = Unsent()
        self.call_soon: Callable[[Callable[[], None]], object] | None = None
        self._long: deque[tuple[Call, Slices]] = deque()
        self._is_first_slice = True  # of those after the one in ``_go_on``
        self._traced: set[tuple[int, type[Exception]]] = set()

    @property
    def is_unwatched(self) -> bool:
        """Whether no observer, event callback or recorder must see every request."""
        groups = self.cluster.groups
        return self.observer is None and groups.on_event is None and groups.recorder is None

    @property
    def is_busy(self) -> bool:
        return bool(self._long)

    def handle(self, call: Call, handler: Handler) -> None:
        """Call a handler; an exception closes only the connection of its request."""
        try:
            slices = handler(call)
        except Exception as error:
            return self.failed(call, error)
        return None if slices is None else self.run(call, slices)

    def run(self, call: Call, slices: Slices) -> None:
        """Do the first slice of a request's work, and leave the others for later.

        A short request has only one. Long requests are handled one after the other, so that only
        one of them has a response in the making.
        """
        try:
            self._go_on(call, slices)
        except Exception as error:
            self.failed(call, error)

    def _go_on(self, call: Call, slices: Slices) -> None:
        for _ in slices:
            if self.call_soon is not None:
                self._long.append((call, slices))
                if len(self._long) == 1:
                    self.call_soon(self._next_slice)
                return

    def _next_slice(self) -> None:
        call, slices = self._long[0]
        if self._is_first_slice and self.unsent.is_full:
            return self.unsent.wait(self._next_slice)
        self._is_first_slice = False
        assert self.call_soon is not None
        try:
            next(slices)
        except StopIteration:
            self._end_long()
        except Exception as error:
            self._end_long()
            self.failed(call, error)
        else:
            self.call_soon(self._next_slice)
        return None

    def _end_long(self) -> None:
        self._long.popleft()
        self._is_first_slice = True
        if self._long and self.call_soon is not None:
            self.call_soon(self._next_slice)
        self.unsent.wake()

    def failed(self, call: Call, error: Exception) -> None:
        """Close the connection of a failed request; log each API's exception types once in full."""
        name = NAMES[call.api_key]
        log = self.cluster.log
        log(f"{name} {call.api_version} failed; its connection closes: {error!r:.300}")
        kind = (call.api_key, type(error))
        if kind not in self._traced:
            self._traced.add(kind)
            log("".join(traceback.format_tb(error.__traceback__)))
        call.connection.close()
