"""``--control``: the methods of ``Broker`` over HTTP and JSON, for tests in other languages.

POST /advance {"ms"}, /fail {"api", ...}, /kill {"node"}, /start {"node"}, /move {"group_id",
"node"}, /wait {"group_id", "state", "members", "timeout_s"}; GET /snapshot/GROUP, /requests,
/fail/ID; DELETE /fail/ID. Arguments and checks are those of the methods of ``Broker``. POST /fail
returns the id of the fault, POST /wait the group as GET /snapshot/GROUP does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from coterie.base.arguments import span, unknown_argument
from coterie.errors import ArgumentError, CoterieError
from coterie.server.api.faults import Fault
from coterie.server.group_waits import TIMEOUT_S, timeout_of
from coterie.server.http_messages import Answer, HttpRequest, Refusal, json_answer
from coterie.server.running import Running
from coterie.values import plain

_Arguments = Mapping[str, Any]


class Control:
    """Handles the control requests of one server; pass :meth:`respond` to ``http.serve``."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._watch = running.watch
        self._posts: dict[str, Callable[..., Any]] = {
            "/advance": self._advance,
            "/fail": self._fail,
            "/kill": self._kill,
            "/start": self._start,
            "/move": self._move,
            "/wait": self._wait,
        }

    async def respond(self, request: HttpRequest) -> Answer:
        """Answer a request, or raise Refusal."""
        try:
            path = urlsplit(request.path).path
        except ValueError:
            raise Refusal(HTTPStatus.BAD_REQUEST, "this is no path") from None
        if request.method == "GET":
            return json_answer(self._get(path))
        if path.startswith(_FAULT):
            if request.method != "DELETE":
                what = f"{path[:60]} is read by GET, and ended by DELETE"
                raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, what)
            fault = self._fault(path)
            fault.cancel()
            return json_answer(_fault_counts(fault))
        method = self._posts.get(path)
        if method is None:
            raise Refusal(HTTPStatus.NOT_FOUND, f"POST {path[:60]}: {_KNOWN}")
        if request.method != "POST":
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} is asked by POST")
        try:
            result = method(**_arguments(request.body))
            if isinstance(result, Awaitable):
                result = await result
        except TypeError as error:  # an unknown or missing argument
            raise Refusal(HTTPStatus.BAD_REQUEST, _argument_error(error, method)) from None
        except CoterieError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
        return json_answer(plain_json(result))

    def _get(self, path: str) -> object:
        if path == "/requests":
            return plain_json(list(self._watch.requests))
        if path.startswith(_FAULT):
            return _fault_counts(self._fault(path))
        if path.startswith("/snapshot/"):
            group_id = unquote_to_bytes(path.removeprefix("/snapshot/")).decode("utf-8", "replace")
            snapshot = self._running.cluster.groups.snapshot(group_id)
            if snapshot is None:
                raise Refusal(HTTPStatus.NOT_FOUND, f"there is no group {group_id[:200]!r}")
            return plain_json(snapshot)
        raise Refusal(HTTPStatus.NOT_FOUND, f"GET {path[:60]}: {_KNOWN}")

    def _advance(self, *, ms: int) -> dict[str, Any]:
        self._running.advance(span(ms))
        return {"now_ms": self._running.cluster.now_ms}

    def _fail(self, *, api: str, **how: Any) -> dict[str, Any]:
        return {"id": self._watch.fail(api, **how).id}

    def _fault(self, path: str) -> Fault:
        number = path.removeprefix(_FAULT)
        valid = number.isascii() and number.isdecimal() and len(number) < 10
        fault = self._watch.fault(int(number)) if valid else None
        if fault is None:
            raise Refusal(HTTPStatus.NOT_FOUND, f"there is no fault {number[:60]!r}")
        return fault

    async def _kill(self, *, node: int | None = None) -> dict[str, Any]:
        await self._running.kill(node)
        return {}

    async def _start(self, *, node: int | None = None) -> dict[str, Any]:
        # A client that is gone must not leave half of the listeners closed.
        await asyncio.shield(self._running.revive(node))
        return {}

    def _move(self, *, group_id: str, node: int | None = None) -> dict[str, Any]:
        self._running.move_coordinator(group_id, node)
        return {}

    async def _wait(self, *, group_id: str, timeout_s: float = TIMEOUT_S, **what: Any) -> Any:
        if timeout_of(timeout_s) > _MAX_WAIT_S:
            raise ArgumentError(f"timeout_s must be at most {_MAX_WAIT_S}, not {timeout_s:g}")
        return await self._running.wait_for(group_id, timeout_s=timeout_s, **what)


_MAX_WAIT_S = 50  # many HTTP clients give up after a minute
_FAULT = "/fail/"
_KNOWN = (
    "there are POST /advance, /fail, /kill, /start, /move, /wait, GET /snapshot/GROUP, /requests, "
    "/fail/ID and DELETE /fail/ID"
)


def _fault_counts(fault: Fault) -> dict[str, Any]:
    """Return the id and the counts of a fault; ``left`` null: no limit."""
    return {"id": fault.id, "count": fault.count, "left": fault.left}


def plain_json(value: Any) -> Any:
    """Convert a value to JSON types: bytes to base64, errors to names, objects to their fields.

    A topic partition as a key becomes ``TOPIC-PARTITION``.
    """
    if isinstance(value, Mapping):
        return {
            "-".join(map(str, key)) if isinstance(key, tuple) else str(key): plain_json(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(map(plain_json, value))
    simple = plain(value)
    return plain_json(simple) if isinstance(simple, dict) else simple


def _arguments(body: bytes) -> _Arguments:
    try:
        arguments = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error!s:.100}") from None
    if not isinstance(arguments, dict):
        raise Refusal(HTTPStatus.BAD_REQUEST, 'the body must be an object, as {"ms": 1000}')
    return arguments


def _argument_error(error: TypeError, method: Callable[..., Any]) -> str:
    """Return a message about wrong arguments without the name of the method."""
    message = unknown_argument(error, method)
    return message.partition("() ")[2] or message
