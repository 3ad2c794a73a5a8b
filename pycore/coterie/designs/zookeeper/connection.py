"""A client's connection to ZooKeeper: open, held or cut; its events in order.

Operations take no time. An event reaches the client ``delivery_ms`` after the change, and before
the answer to any request made meanwhile, as ZooKeeper guarantees. While a connection is held,
requests arrive, but answers and events are delayed. While it is cut, nothing is delivered in either
direction. A client reconnects ``reconnect_ms`` after it is allowed to. If its session has ended, a
new one begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from coterie.designs.zookeeper.session import ZooKeeper
from coterie.schedule import Call, Gate, Routine

T = TypeVar("T")


class Connection:
    """One client's connection, and its session over it.

    Parameters
    ----------
    zookeeper : ZooKeeper
        The service.
    name : str
        The client's name.
    timeout_ms : int
        The session's timeout.
    received : function of a kind and a path
        Called for each event that reaches the client, in the order of the changes.
    expired : function
        Called when the client learns that its session has ended; a new one has begun by then.
    delivery_ms, reconnect_ms : int
        Delay of an event; delay of a reconnection.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        name: str,
        timeout_ms: int,
        received: Callable[[str, str], None],
        expired: Callable[[], None],
        *,
        delivery_ms: int,
        reconnect_ms: int,
    ) -> None:
        self.zookeeper = zookeeper
        self.name = name
        self.operations = 0
        self._timeout_ms = timeout_ms
        self._received = received
        self._expired = expired
        self._delivery_ms = delivery_ms
        self._reconnect_ms = reconnect_ms
        self._state_changed = Gate()
        self._connected = True
        self._is_held = False
        self._is_closed = False
        self._reconnect_timer: Call | None = None
        self._in_flight: deque[tuple[int, str, str]] = deque()  # arrival (ms), kind, path
        self.session = zookeeper.open(name, timeout_ms, self._fired)

    @property
    def connected(self) -> bool:
        """Whether requests of the client arrive."""
        return self._connected

    def call(self, operation: Callable[..., T], *args: Any, count: int = 1) -> Routine:
        """Send a request, as a task: wait while the connection is cut; return the answer."""
        while not self._connected:
            yield self._state_changed
        self.operations += count
        self.zookeeper.schedule.spend(0)
        try:
            return operation(*args)
        finally:
            if self._in_flight and not self._is_held:
                self._flush()
            while self._is_held:
                yield self._state_changed

    def cut(self) -> None:
        """Close the connection, and refuse a new one."""
        if self._reconnect_timer is not None:
            self._reconnect_timer.cancel()
            self._reconnect_timer = None
        if self._connected:
            self._connected = False
            self.zookeeper.lost(self.session)

    def heal(self) -> None:
        """Allow the client to connect again."""
        if not self._connected and not self._is_closed and self._reconnect_timer is None:
            schedule = self.zookeeper.schedule
            self._reconnect_timer = schedule.call_later(self._reconnect_ms, self._reconnect)

    def expire(self) -> None:
        """End the session while the client is disconnected; the client reconnects at once."""
        self.cut()
        self.zookeeper.end(self.session)
        self.heal()

    def hold(self) -> None:
        """Delay all answers and events."""
        self._is_held = True

    def release(self) -> None:
        """Deliver delayed answers and events."""
        self._is_held = False
        self._flush()
        self._state_changed.open()

    def close(self) -> None:
        """End the session; without a connection it ends by its timeout."""
        self._is_closed = True
        self._in_flight.clear()
        if self._connected:
            self.zookeeper.end(self.session)
        else:
            self.cut()  # a pending reconnection would keep the session alive

    def crash(self) -> None:
        """End the client's process; its session ends by its timeout."""
        self.cut()
        self._is_closed = True

    def _reconnect(self) -> None:
        self._reconnect_timer = None
        self._connected = True
        if self.zookeeper.returned(self.session):
            self._flush()
        else:
            self._in_flight.clear()
            self.session = self.zookeeper.open(self.name, self._timeout_ms, self._fired)
            self._expired()
        self._state_changed.open()

    def _fired(self, kind: str, path: str) -> None:
        if not self._is_closed:
            schedule = self.zookeeper.schedule
            self._in_flight.append((schedule.now_ms + self._delivery_ms, kind, path))
            schedule.call_later(self._delivery_ms, self._arrive)

    def _arrive(self) -> None:
        now_ms = self.zookeeper.schedule.now_ms
        while self._in_flight and self._in_flight[0][0] <= now_ms and self._is_open:
            self._received(*self._in_flight.popleft()[1:])

    def _flush(self) -> None:
        while self._in_flight and self._is_open:
            self._received(*self._in_flight.popleft()[1:])

    @property
    def _is_open(self) -> bool:
        return self._connected and not self._is_held
