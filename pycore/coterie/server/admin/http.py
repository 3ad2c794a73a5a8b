"""A small HTTP server in the event loop of the Kafka server.

A request has a short head and a short body of known length; the standard library parses the
fields. The response to an error is a JSON object, ``{"error": ...}``. Idle connections are closed,
and so is a connection after an error.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from io import BytesIO
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from coterie.errors import CoterieError

__all__ = [
    "Answer",
    "HttpRequest",
    "Refusal",
    "is_loopback_host",
    "json_answer",
    "read_head",
    "serve",
]

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 1024 * 1024
IDLE_S = 60.0


class HttpRequest(NamedTuple):
    """A request; ``origin``, ``host`` and ``authorization`` are its header fields."""

    method: str
    path: str
    host: str
    origin: str | None
    length: int
    keeps: bool
    body: bytes = b""
    authorization: str | None = None


class Answer(NamedTuple):
    """A response; ``fields`` are further lines of its head."""

    status: int
    body: bytes
    content_type: str = "application/json"
    fields: tuple[str, ...] = ()


class Refusal(Exception):
    """A request that gets an error response; ``fields`` are further lines of its head."""

    def __init__(self, status: int, what: str, *fields: str) -> None:
        super().__init__(what)
        self.status, self.what, self.fields = status, what, fields


Respond = Callable[[HttpRequest], Awaitable[Answer]]


def json_answer(value: object, status: int = HTTPStatus.OK) -> Answer:
    """Build a JSON response."""
    return Answer(int(status), json.dumps(value).encode() + b"\n")


def read_head(head: bytes) -> HttpRequest:
    """Parse the head of a request; raise Refusal if it is malformed or its body is too long."""
    first, _, rest = head.partition(b"\r\n")
    words = first.decode("latin-1").split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise Refusal(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1.1")
    try:
        fields = parse_headers(BytesIO(rest))
    except HTTPException as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{error!s:.200}") from None
    if "transfer-encoding" in fields:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the body needs a Content-Length")
    length = fields.get("content-length", "0").strip()
    if not (length.isascii() and length.isdecimal()):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"Content-Length is no number: {length!r:.60}")
    if len(length) > 9 or int(length) > MAX_BODY_BYTES:
        what = f"a body has at most {MAX_BODY_BYTES} bytes"
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, what)
    connection = fields.get("connection", "").lower()
    return HttpRequest(
        words[0],
        words[1],
        fields.get("host", ""),
        fields.get("origin"),
        int(length),
        connection == "keep-alive" if words[2] == "HTTP/1.0" else connection != "close",
        authorization=fields.get("authorization"),
    )


def is_loopback_host(host: str) -> bool:
    """Whether a header field Host names this machine, so that no page elsewhere made it."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


async def serve(
    host: str, port: int, respond: Respond, tls: ssl.SSLContext | None = None
) -> asyncio.Server:
    """Serve requests at an address with a function, until the server is closed.

    Raises
    ------
    CoterieError
        The address is taken, or does not belong to this machine.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await _one(reader, writer, respond):
                pass
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, ConnectionError):
            pass  # the peer is gone or idle
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            writer.close()

    try:
        return await asyncio.start_server(connected, host, port, limit=MAX_HEAD_BYTES, ssl=tls)
    except OSError as error:
        raise CoterieError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}); choose another "
            "address, or port 0"
        ) from None


async def _one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Respond
) -> bool:
    """Answer one request; return whether the connection stays open."""
    keeps = is_head = False
    try:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), IDLE_S)
        except asyncio.LimitOverrunError:
            what = f"a head has at most {MAX_HEAD_BYTES} bytes"
            raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, what) from None
        request = read_head(head)
        is_head = request.method == "HEAD"
        body = await asyncio.wait_for(reader.readexactly(request.length), IDLE_S)
        request = request._replace(body=body)
        answer = await respond(request)
        keeps = request.keeps
    except Refusal as refusal:
        answer = json_answer({"error": refusal.what}, refusal.status)
        answer = answer._replace(fields=refusal.fields)
    head = _head(answer, keeps)
    writer.write(head if is_head else head + answer.body)
    await asyncio.wait_for(writer.drain(), IDLE_S)
    return keeps


def _head(answer: Answer, keeps: bool) -> bytes:
    status = HTTPStatus(answer.status)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        f"Connection: {'keep-alive' if keeps else 'close'}\r\n"
    )
    lines = "".join(f"{field}\r\n" for field in answer.fields)
    return (head + lines + "\r\n").encode("ascii")
