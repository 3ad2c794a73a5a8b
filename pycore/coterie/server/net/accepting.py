"""The listening sockets of a listener, which accept many pending connections at once.

uvloop accepts one connection in each iteration of its loop. With hundreds of active clients a new
connection would wait for a full iteration, and a group that many members join at the same time
would rebalance for each of them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from coterie.errors import CoterieError
from coterie.server.options import Place

_BACKLOG = 1024  # of the listening socket
_AT_ONCE = 100  # connections accepted in one iteration of the loop; each takes 0.1 ms
_REST_S = 1  # the pause before the next accept when no more sockets can be opened
_LACKING = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


@runtime_checkable
class HandshakeObserver(Protocol):
    def handshake_failed(self, peername: object, error: ssl.SSLError) -> None:
        """Handle the failure of a handshake with a peer."""


class Acceptor:
    """Accepts the connections of one listener.

    Parameters
    ----------
    factory
        Creates the protocol of a connection.
    tls
        The TLS context, or None.
    send_bytes, receive_bytes : int
        The sizes of the system's buffers of each connection; -1: the system chooses.
    handshake_s
        How long a TLS handshake may take; None: a minute.
    handshakes_max
        How many TLS handshakes there are at a time; one more ends the oldest. None: no limit.

    Attributes
    ----------
    port : int
        The port it listens on, after :meth:`listen`.
    """

    port: int

    def __init__(
        self,
        factory: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        *,
        send_bytes: int = -1,
        receive_bytes: int = -1,
        handshake_s: float | None = None,
        handshakes_max: int | None = None,
    ) -> None:
        self._factory, self._tls = factory, tls
        self._buffers = {socket.SO_SNDBUF: send_bytes, socket.SO_RCVBUF: receive_bytes}
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._handshake_s = None if tls is None else handshake_s
        self._handshakes_max = None if tls is None else handshakes_max
        self._greeting: dict[asyncio.Task[None], None] = {}  # the oldest first

    async def listen(self, place: Place) -> None:
        """Listen on one port at each address of a host.

        Raises
        ------
        CoterieError
            An address is taken, or does not belong to this machine.
        """
        self.port = place.port
        try:
            await self._listen(place.host, place.port)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CoterieError(
                f"{place.address} cannot be listened on ({reason}); choose another address, or "
                "port 0"
            ) from None

    async def _listen(self, host: str, port: int) -> None:
        addresses = await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, _, _, _, address in dict.fromkeys(addresses):
                self._open(family, address)
            if not self._sockets:
                raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        except BaseException:
            self.close()
            raise
        for each in self._sockets:
            self._loop.add_reader(each, self._accept, each)

    def _open(self, family: int, address: Any) -> None:
        try:
            opened = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            if error.errno != errno.EAFNOSUPPORT:
                raise
            return  # a machine without IPv6 may still have an IPv6 entry in its hosts file
        self._sockets.append(opened)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        for buffer, size in self._buffers.items():
            if size >= 0:
                opened.setsockopt(socket.SOL_SOCKET, buffer, size)  # connections inherit it
        opened.bind(
            (address[0], self.port, *address[2:])
        )  # port 0: all sockets use the port of the first one
        opened.listen(_BACKLOG)
        opened.setblocking(False)
        self.port = opened.getsockname()[1]

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except (InterruptedError, ConnectionAbortedError):
                continue
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _LACKING:
                    raise
                self._loop.remove_reader(
                    listening
                )  # otherwise the loop would report it without end
                self._loop.call_later(_REST_S, self._resume, listening)
                return
            accepted.setblocking(False)
            greeting = self._loop.create_task(self._greet(accepted))
            self._greeting[greeting] = None
            greeting.add_done_callback(lambda ended: self._greeting.pop(ended, None))
            if self._handshakes_max is not None and len(self._greeting) > self._handshakes_max:
                oldest = next(iter(self._greeting))
                del self._greeting[oldest]
                oldest.cancel()

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    async def _greet(self, accepted: socket.socket) -> None:
        protocol = self._factory()
        try:
            peername = accepted.getpeername()
            await self._loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_s,
            )
        except (TimeoutError, OSError) as error:
            accepted.close()  # no TLS, no client certificate, or the peer is gone
            if isinstance(error, ssl.SSLError) and isinstance(protocol, HandshakeObserver):
                protocol.handshake_failed(peername, error)
        except BaseException:
            accepted.close()
            raise

    def close(self) -> None:
        """Stop listening and cancel pending TLS handshakes; connections stay open."""
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        for greeting in self._greeting:
            greeting.cancel()
