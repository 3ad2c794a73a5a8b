"""The little HTTP that stands beside the server: a request, an answer, by the loop of the server.

Requests have a head and a body of known length, both short; the standard library reads the head's
fields. What is wrong in a request is one JSON object, ``{"error": ...}``. A connection that says
nothing is closed, and so is any after one answer that was an error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from io import BytesIO
from typing import Any, NamedTuple

from coterie.errors import CoterieError

__all__ = ["Answer", "Refusal", "Request", "json_answer", "read_head", "serve"]

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 1024 * 1024
IDLE_S = 60.0


class Request(NamedTuple):
    """A request. ``origin``: the page that a browser sends it for; ``host``: who is asked."""

    method: str
    path: str
    host: str
    origin: str | None
    length: int
    keeps: bool
    body: bytes = b""


class Answer(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    content_type: str = "application/json"


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status, self.what = status, what


Respond = Callable[[Request], Awaitable[Answer]]


def json_answer(value: Any, status: int = HTTPStatus.OK) -> Answer:
    """Return a value as JSON."""
    return Answer(int(status), json.dumps(value).encode() + b"\n")


def read_head(head: bytes) -> Request:
    """Read a request up to the empty line; Refusal where it is none, or too long."""
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
    said = fields.get("connection", "").lower()
    return Request(
        words[0],
        words[1],
        fields.get("host", ""),
        fields.get("origin"),
        int(length),
        said == "keep-alive" if words[2] == "HTTP/1.0" else said != "close",
    )


async def serve(host: str, port: int, respond: Respond) -> asyncio.Server:
    """Answer requests at an address with a function, until the server is closed.

    Raises
    ------
    CoterieError
        The address is taken, or is none of this machine's.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await asyncio.wait_for(_one(reader, writer, respond), IDLE_S):
                pass
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, ConnectionError):
            pass  # it is gone, or says nothing
        except asyncio.CancelledError:
            pass  # the server ends
        finally:
            writer.close()

    try:
        return await asyncio.start_server(connected, host, port, limit=MAX_HEAD_BYTES)
    except OSError as error:
        raise CoterieError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}); choose another "
            "address, or port 0"
        ) from None


async def _one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Respond
) -> bool:
    """Answer one request; whether another may come."""
    keeps = False
    try:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            what = f"a head has at most {MAX_HEAD_BYTES} bytes"
            raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, what) from None
        request = read_head(head)
        request = request._replace(body=await reader.readexactly(request.length))
        answer = await respond(request)
        keeps = request.keeps
    except Refusal as refusal:
        answer = json_answer({"error": refusal.what}, refusal.status)
    writer.write(_written(answer, keeps))
    await writer.drain()
    return keeps


def _written(answer: Answer, keeps: bool) -> bytes:
    status = HTTPStatus(answer.status)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        f"Connection: {'keep-alive' if keeps else 'close'}\r\n\r\n"
    )
    return head.encode("ascii") + answer.body
