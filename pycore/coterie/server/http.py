"""A small HTTP server in the event loop of its caller, for clients that may be hostile.

A request is read, checked by its head, answered, and its response written; then the next one. A
connection ends after an error, and when its peer makes it wait too long. A peer that closes its
side is gone: the work for it is cancelled.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import NamedTuple, cast

from coterie.server.access import Access
from coterie.server.http_messages import MAX_BODY_BYTES, Answer, HttpRequest, Refusal, read_head
from coterie.server.net.accepting import Acceptor
from coterie.server.options import Place

MAX_HEAD_BYTES = 16 * 1024
END_OF_HEAD = b"\r\n\r\n"
WRITE_BYTES = 1 << 18  # of a response; a peer has a new deadline for each

Respond = Callable[[HttpRequest], Awaitable[Answer]]


class Limits(NamedTuple):
    """What clients can take at most.

    ``connections``: open at a time, and as many TLS handshakes; ``handshake_s``: for a handshake;
    ``idle_s``: until a request is complete, and until a piece of a response has been read.
    """

    connections: int = 100
    handshake_s: float = 10.0
    idle_s: float = 60.0


LIMITS = Limits()


class HttpSite:
    """What is served at an address, to whom, and the connections to it."""

    def __init__(self, respond: Respond, access: Access, limits: Limits) -> None:
        self.respond, self.access, self.limits = respond, access, limits
        self.open: set[HttpConnection] = set()
        self.waiting: dict[HttpConnection, None] = {}  # for their peers, the longest first

    def add(self, connection: HttpConnection) -> bool:
        """Add a connection, in the place of the longest waiting one if there is no room."""
        if len(self.open) >= self.limits.connections:
            longest = next(iter(self.waiting), None)
            if longest is None:
                return False
            longest.abort()
        self.open.add(connection)
        return True

    def remove(self, connection: HttpConnection) -> None:
        """Remove a connection, if it is there."""
        self.open.discard(connection)
        self.waiting.pop(connection, None)


class HttpConnection(asyncio.Protocol):
    _transport: asyncio.Transport
    _task: asyncio.Task[None] | None = None
    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, site: HttpSite) -> None:
        self._site = site
        self._buffer = bytearray()
        self._moved = asyncio.Event()  # bytes were received or sent
        self._is_full = False

    # As a protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the peer if there is room."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's do not derive from it
        if self._site.add(self):
            self._task = asyncio.get_running_loop().create_task(self._serve())
        else:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes, also during work: reading is never paused, so that a lost peer is noticed."""
        self._buffer += data
        self._moved.set()
        if len(self._buffer) > MAX_HEAD_BYTES + MAX_BODY_BYTES:
            self.abort()

    def eof_received(self) -> None:
        """End at once: nobody waits for a response."""
        self.abort()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._moved.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._work()
        self._site.remove(self)
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """End at once; the place is free from now on."""
        self._site.remove(self)
        self._transport.abort()

    # Requests

    async def _serve(self) -> None:
        try:
            while self in self._site.open and await self._answer():
                await asyncio.sleep(0)  # many requests may be there: others have their turn
        except BaseException:
            self.abort()
            raise
        self._wait()  # until the peer has read the rest
        self._transport.close()

    async def _answer(self) -> bool:
        """Answer one request; return whether the connection stays open."""
        keeps = is_head = False
        self._wait()
        try:
            request = read_head(await self._head())
            is_head = request.method == "HEAD"
            self._site.access.check(request)
            request = request._replace(body=await self._take(request.length))
            self._work()
            answer = await self._site.respond(request)
            keeps = request.keeps
        except Refusal as refusal:
            answer = refusal.answer
        await self._write(answer.head(keeps=keeps))
        body = memoryview(b"" if is_head else answer.body)  # clients may share that of a page
        for start in range(0, len(body), WRITE_BYTES):
            await self._write(body[start : start + WRITE_BYTES])
        return keeps

    async def _head(self) -> bytes:
        while (found := self._buffer.find(END_OF_HEAD, 0, MAX_HEAD_BYTES)) < 0:
            if len(self._buffer) >= MAX_HEAD_BYTES:
                what = f"a head has at most {MAX_HEAD_BYTES} bytes"
                raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, what)
            await self._more()
        return await self._take(found + len(END_OF_HEAD))

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._more()
        taken = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        return taken

    async def _write(self, piece: bytes | memoryview) -> None:
        self._wait()
        self._transport.write(piece)
        while self._is_full:
            await self._more()

    async def _more(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    def _wait(self) -> None:
        """Depend on the peer from now on: until a deadline, and while no other needs the place."""
        self._work()
        if self in self._site.open:
            self._site.waiting[self] = None
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._site.limits.idle_s, self.abort)

    def _work(self) -> None:
        self._site.waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()


async def serve(
    place: Place,
    respond: Respond,
    access: Access,
    tls: ssl.SSLContext | None = None,
    limits: Limits = LIMITS,
) -> Acceptor:
    """Serve requests at an address with a function, until the acceptor is closed.

    Raises
    ------
    CoterieError
        The address is taken, or does not belong to this machine.
    """
    acceptor = Acceptor(
        partial(HttpConnection, HttpSite(respond, access, limits)),
        tls,
        handshake_s=limits.handshake_s,
        handshakes_max=limits.connections,
    )
    await acceptor.listen(place)
    return acceptor
