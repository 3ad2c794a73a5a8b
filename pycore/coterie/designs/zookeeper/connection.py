"""A client's connection to ZooKeeper: open, held or cut; its events in order.

Operations take no time; an event reaches its client ``delivery_ms`` after the change, and before
the answer to anything that the client asks meanwhile, as ZooKeeper promises. While a connection is
held, what the client sends arrives, and what ZooKeeper sends (answers and events) waits. While it
is cut, nothing goes either way; once it may connect again, it does so ``reconnect_ms`` later, and
finds its session alive or ended; if it has ended, a new one begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from coterie.designs.schedule import Gate, Run
from coterie.designs.zookeeper.session import ZooKeeper

T = TypeVar("T")


class Connection:
    """One client's connection, and its session over it.

    Parameters
    ----------
    zookeeper : ZooKeeper
        The service.
    name : str
        Whose it is.
    timeout_ms : int
        The session's timeout.
    received : function of a kind and a path
        Called when an event reaches the client, in the order of the changes.
    expired : function
        Called when the client finds that its session has ended; a new one has begun by then.
    delivery_ms, reconnect_ms : int
        How long an event takes; how long a client takes to connect again.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        name: str,
        timeout_ms: int,
        received: Callable[[str, str], None],
        expired: Callable[[], None],
        *,
        delivery_ms: int = 5,
        reconnect_ms: int = 500,
    ) -> None:
        self.zookeeper = zookeeper
        self.name = name
        self.operations = 0
        self._timeout_ms = timeout_ms
        self._received = received
        self._expired = expired
        self._delivery_ms = delivery_ms
        self._reconnect_ms = reconnect_ms
        self._changed = Gate()
        self._connected = True
        self._held = False
        self._closed = False
        self._connecting: tuple[int, int] | None = None
        self._on_the_way: deque[tuple[int, str, str]] = deque()  # the first is when it arrives
        self.session = zookeeper.open(name, timeout_ms, self._fired)

    @property
    def connected(self) -> bool:
        """Whether what the client sends arrives."""
        return self._connected

    def call(self, operation: Callable[..., T], *args: Any, count: int = 1) -> Run:
        """Ask ZooKeeper for something, as a task: wait while it is cut off; return the answer."""
        while not self._connected:
            yield self._changed
        self.operations += count
        self.zookeeper.schedule.spend(0)
        try:
            return operation(*args)
        finally:
            if self._on_the_way and not self._held:
                self._flush()
            while self._held:
                yield self._changed

    def cut(self) -> None:
        """Close the connection, and refuse it from now on."""
        if self._connecting is not None:
            self.zookeeper.schedule.cancel(self._connecting)
            self._connecting = None
        if self._connected:
            self._connected = False
            self.zookeeper.lost(self.session)

    def heal(self) -> None:
        """Let the client connect again."""
        if not self._connected and not self._closed and self._connecting is None:
            schedule = self.zookeeper.schedule
            self._connecting = schedule.call_later(self._reconnect_ms, self._reconnect)

    def expire(self) -> None:
        """End the session at the server while the client is away; it returns at once."""
        self.cut()
        self.zookeeper.end(self.session)
        self.heal()

    def hold(self) -> None:
        """Let all that ZooKeeper sends wait."""
        self._held = True

    def release(self) -> None:
        """Let it flow again."""
        self._held = False
        self._flush()
        self._changed.open()

    def close(self) -> None:
        """End the session; if ZooKeeper cannot be reached, it ends by its timeout."""
        self._closed = True
        self._on_the_way.clear()
        if self._connected:
            self.zookeeper.end(self.session)
        else:
            self.cut()  # who was about to connect does so no more: that would keep the session

    def crash(self) -> None:
        """End the client's process: its session ends by its timeout."""
        self.cut()
        self._closed = True
        self._on_the_way.clear()

    def _reconnect(self) -> None:
        self._connecting = None
        self._connected = True
        if self.zookeeper.returned(self.session):
            self._flush()
        else:
            self._on_the_way.clear()
            self.session = self.zookeeper.open(self.name, self._timeout_ms, self._fired)
            self._expired()
        self._changed.open()

    def _fired(self, kind: str, path: str) -> None:
        if not self._closed:
            schedule = self.zookeeper.schedule
            self._on_the_way.append((schedule.now_ms + self._delivery_ms, kind, path))
            schedule.call_later(self._delivery_ms, self._arrive)

    def _arrive(self) -> None:
        now_ms = self.zookeeper.schedule.now_ms
        while self._on_the_way and self._on_the_way[0][0] <= now_ms and self._flows:
            self._received(*self._on_the_way.popleft()[1:])

    def _flush(self) -> None:
        while self._on_the_way and self._flows:
            self._received(*self._on_the_way.popleft()[1:])

    @property
    def _flows(self) -> bool:
        return self._connected and not self._held
