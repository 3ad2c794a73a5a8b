"""Requests and responses of HTTP: a short head, and a body of known length.

The response to an error is a JSON object, ``{"error": ...}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

MAX_BODY_BYTES = 1024 * 1024
# No page of another site shows this one in a frame, a browser takes no content for another type,
# and nothing is left in a cache. Pages restrict their own scripts, by their digests.
_SAFETY = (
    "Content-Security-Policy: base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options: nosniff",
    "Cache-Control: no-store",
)


class HttpRequest(NamedTuple):
    """A request; the names of ``fields`` are in lower case."""

    method: str
    path: str
    fields: Mapping[str, str]
    length: int = 0
    keeps: bool = True
    body: bytes = b""


class Answer(NamedTuple):
    """A response; ``fields`` are further lines of its head."""

    status: int
    body: bytes
    content_type: str = "application/json"
    fields: tuple[str, ...] = ()

    def head(self, *, keeps: bool) -> bytes:
        """Return the head; ``keeps``: whether the connection stays open."""
        status = HTTPStatus(self.status)
        lines = (
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            f"Connection: {'keep-alive' if keeps else 'close'}",
            *_SAFETY,
            *self.fields,
        )
        return "\r\n".join((*lines, "", "")).encode("ascii")


class Refusal(Exception):
    """A request that gets an error response; ``fields`` are further lines of its head."""

    def __init__(self, status: int, what: str, *fields: str) -> None:
        super().__init__(what)
        self.status, self.what, self.fields = status, what, fields

    @property
    def answer(self) -> Answer:
        return json_answer({"error": self.what}, self.status)._replace(fields=self.fields)


def json_answer(value: object, status: int = HTTPStatus.OK) -> Answer:
    return Answer(int(status), json.dumps(value).encode() + b"\n")


def read_head(head: bytes) -> HttpRequest:
    """Parse the head of a request; raise Refusal if it is malformed or its body is too long."""
    first, *lines = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise Refusal(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1.1")
    fields = _fields(lines)
    if "transfer-encoding" in fields:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the body needs a Content-Length")
    length = fields.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"Content-Length is no number: {length!r:.60}")
    if len(length) > 9 or int(length) > MAX_BODY_BYTES:
        what = f"a body has at most {MAX_BODY_BYTES} bytes"
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, what)
    connection = fields.get("connection", "").lower()
    keeps = connection == "keep-alive" if words[2] == "HTTP/1.0" else connection != "close"
    return HttpRequest(words[0], words[1], fields, int(length), keeps)


def _fields(lines: list[str]) -> dict[str, str]:
    """Parse the fields of a head; one on which access or the length depends may be there once."""
    fields: dict[str, str] = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"a line of the head is no field: {line!r:.60}")
        name = found[1].lower()
        if name in fields and name in _ONCE:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"there is more than one {found[1]:.60}")
        fields[name] = found[2].strip(" \t")
    return fields


_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\0\r\n]*)")  # RFC 9110: 5
_ONCE = {"host", "origin", "content-length", "authorization"}
