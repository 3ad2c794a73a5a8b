"""One request: what a handler is given, how it answers, and what becomes of one that fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, Protocol, cast

from coterie import wire
from coterie.errors import CoterieError
from coterie.server.api.table import SERVED, refusal
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.rate_limited_log import quoted
from coterie.server.services.sasl.authentication import Authentication
from coterie.values import Error

__all__ = ["Call", "Dispatcher", "Handler", "Origin"]


class Origin(Protocol):
    """The connection that a call came by: what is known of it, and where answers go.

    Attributes
    ----------
    call
        The request at work, None where there is none.
    closing : bool
        Whether the connection is closed, or to be closed.
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
        """Who the peer is."""

    def send(self, frame: bytes) -> None:
        """Put an answer out, and go on with the next request."""

    def go_on(self) -> None:
        """Go on with the next request."""

    def close(self) -> None:
        """End the connection; what was put out is still sent."""


class Call:
    """One request. A handler answers it once, now or later.

    While it is open its connection takes no other request. A handler that does nothing, ever,
    leaves the connection silent for good.

    Attributes
    ----------
    row : tuple
        The request as a row of the codec; of APIs that are asked often.
    connection
        Where it came from: ``.listener``, ``.client_host`` (``"/127.0.0.1"``), ``.principal``.
    on_close
        Called if the connection closes before the answer: what waits for it alone may go.
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
        """The request with Kafka's field names, every field of any version."""
        if self._body is None:
            self._body = cast(dict[str, Any], wire.decode_request(self._frame, fill=True).body)
        return self._body

    @property
    def cluster(self) -> Cluster:
        """What all brokers share."""
        return self.connection.dispatcher.cluster

    @property
    def node(self) -> Node:
        """The broker that was asked."""
        return self.connection.node

    def answer(self, body: dict[str, Any] | tuple[Any, ...]) -> None:
        """Answer; a field that is left out has its default, one that the version lacks is lost.

        A tuple is a row of the codec: every field of any version, in the table's order.

        An answer that cannot be written, as of a text that is too long for it, closes the
        connection: whoever decides it may be another's request, or the clock.
        """
        try:
            frame = wire.encode_response(
                self.api_key, self.api_version, body, correlation_id=self.correlation_id
            )
        except Exception as error:
            return self.connection.dispatcher.failed(self, error)
        return self.answer_bytes(frame)

    def answer_bytes(self, frame: bytes) -> None:
        """Answer with a frame, its header in front, that was encoded elsewhere."""
        self._end().send(frame)

    def refuse(self, error: int) -> None:
        """Answer that the request as a whole failed, in its API's own form.

        Where nobody waits for an answer (acks 0) the end of the connection tells of an error.
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
        """Let the connection go on without an answer."""
        self._end().go_on()

    def drop(self, why: str) -> None:
        """Close the connection without an answer, as a broker does, and say why in the log."""
        self._tell("closed", f"{why}; its connection closes without an answer")
        self.close()

    def leave_silent(self, why: str) -> None:
        """Never answer, as a broker does, and say why in the log; the connection stays."""
        self._tell("silent", f"{why}: as by a broker it is never answered")

    def _tell(self, kind: str, what: str) -> None:
        host, name = self.connection.client_host, SERVED[self.api_key].name
        who = f"{host}: {name} {self.api_version} of client {quoted(self.client_id)}"
        self.cluster.tell((kind, self.api_key), f"{who} {what}")

    def close(self) -> None:
        """Close the connection without an answer."""
        self._end().close()

    def _end(self) -> Origin:
        connection = self.connection
        if connection.call is not self and not connection.closing:
            raise CoterieError("a call is answered once")
        connection.call = None
        return connection


Handler = Callable[[Call], None]


class Dispatcher:
    """Hands each request to its handler.

    Attributes
    ----------
    cluster
        What all brokers share.
    observer
        Sees each call before its handler; it says whether the handler is to be called.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.observer: Callable[[Call, Handler], bool] | None = None
        self._traced: set[tuple[int, type[Exception]]] = set()

    @property
    def is_unwatched(self) -> bool:
        """Whether nobody wants to know of each request, or of each event of a group."""
        groups = self.cluster.groups
        return self.observer is None and groups.on_event is None and groups.recorder is None

    def handle(self, call: Call, handler: Handler) -> None:
        """Let a handler answer; if it fails its connection closes, and nothing else happens."""
        try:
            handler(call)
        except Exception as error:
            self.failed(call, error)

    def failed(self, call: Call, error: Exception) -> None:
        """Close the connection of a request that failed; log a traceback once for each kind."""
        name = SERVED[call.api_key].name
        log = self.cluster.log
        log(f"{name} {call.api_version} failed; its connection closes: {error!r:.300}")
        kind = (call.api_key, type(error))
        if kind not in self._traced:
            self._traced.add(kind)
            log("".join(traceback.format_tb(error.__traceback__)))
        call.connection.close()
