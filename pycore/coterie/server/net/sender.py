"""Threads that write large responses into sockets, while the loop serves other connections.

One blocking call copies megabytes, and the system resumes it each time the peer has read. Without a
thread the loop would make a call for each part that fits into the socket's buffer, of about 200 KB.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from coterie.server.services.adjacent_batches import Buffer

SEND_BYTES = 1 << 24  # by one call, to a peer that reads
_THREADS = 4
_WAIT = struct.pack("@ll", 0, 50_000)  # 50 ms for a call, then a peer is slow


class Senders:
    """The threads of a server."""

    def __init__(self, call_soon_threadsafe: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon_threadsafe = call_soon_threadsafe
        self._pool = ThreadPoolExecutor(_THREADS, "coterie-send")  # starts threads when needed

    def submit(
        self, sender: Sender, buffers: list[Buffer], done: Callable[[list[Buffer]], None]
    ) -> None:
        """Send buffers by a thread, then call ``done`` in the loop with what was not sent."""

        def run() -> None:
            unsent = sender.send(buffers)
            self._call_soon_threadsafe(lambda: done(unsent))

        self._pool.submit(run)

    def close(self) -> None:
        self._pool.shutdown(wait=False)


class Sender:
    """Sends the bytes of one connection, whose transport neither reads nor writes meanwhile.

    Parameters
    ----------
    connected
        The socket of the transport. The sender has its own descriptor of it, so the transport may
        close at any time.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = socket.socket(fileno=os.dup(connected.fileno()))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _WAIT)

    def send(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Send buffers; return what the peer did not take in time, all of it if it is gone."""
        try:
            self._socket.setblocking(True)  # of both descriptors
            try:
                sent = self._socket.sendmsg(buffers)
            finally:
                self._socket.setblocking(False)
        except OSError:  # the transport fails on its own, if it has not ended
            sent = 0
        return _from(buffers, sent)

    def close(self) -> None:
        """Close the descriptor; the transport's stays open."""
        self._socket.close()

    def abort(self) -> None:
        """End the connection, and with it a send under way."""
        with contextlib.suppress(OSError):  # it is not connected any more
            self._socket.shutdown(socket.SHUT_RDWR)


def _from(buffers: Sequence[Buffer], start: int) -> list[Buffer]:
    """Return the bytes of buffers from a position on."""
    for number, buffer in enumerate(buffers):
        if start < len(buffer):
            return [memoryview(buffer)[start:], *buffers[number + 1 :]]
        start -= len(buffer)
    return []
