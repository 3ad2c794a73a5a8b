"""ZooKeeper as its clients see it: nodes, watches, sessions and connections.

``Tree`` has nodes and one-time watches; ``ZooKeeper`` ephemeral nodes and sessions that end at
ticks; ``Connection`` is open, held or cut and delivers events in the order of the changes. No I/O;
time is a :class:`coterie.base.schedule.Schedule`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from coterie.base.schedule import Call, Gate, Routine, Schedule
from coterie.errors import CoterieError

# ZooKeeper's tree of nodes, with one-time watches.
#
# A read sets a watch, which fires once, at the next change. Data watches are set by ``get`` and
# ``exists`` (of a missing node too); they fire when the node is created, written or deleted. Child
# watches are set by ``children``; they fire when a child is created or deleted, and when the node
# itself is deleted. A client with both watches on a deleted node gets one event. Source: ZooKeeper
# 3.4's ``DataTree``, ``WatchManager``.


CREATED, DELETED, DATA, CHILDREN = "created", "deleted", "data", "children"


class ZooKeeperError(CoterieError):
    """ZooKeeper refuses an operation; it had no effect."""


class NoNode(ZooKeeperError):
    """The node, or the parent of a node to be created, does not exist."""


class NodeExists(ZooKeeperError):
    """The node to be created exists."""


class NotEmpty(ZooKeeperError):
    """The node to be deleted has children."""


class NoChildrenForEphemerals(ZooKeeperError):
    """The parent of a node to be created is ephemeral."""


class Node:
    """A node: its data, its owner if it is ephemeral, and its children."""

    __slots__ = ("below", "children", "data", "names", "owner")

    def __init__(self, data: str, owner: object | None) -> None:
        self.data = data
        self.owner = owner
        self.children: dict[str, None] = {}
        self.names: tuple[str, ...] | None = ()  # sorted children; None if out of date
        self.below = 0  # grows when a child is created, deleted or written


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"


class Tree:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"/": Node("", None)}
        self._data_watches: dict[str, dict[Session, None]] = {}
        self._child_watches: dict[str, dict[Session, None]] = {}

    def create(self, path: str, data: str = "", owner: object | None = None) -> None:
        """Create a node; with an owner it is ephemeral.

        Raises
        ------
        NodeExists, NoNode, NoChildrenForEphemerals
            The node exists; its parent does not; its parent is ephemeral.
        """
        if path in self.nodes:
            raise NodeExists(path)
        above = parent_of(path)
        parent = self.nodes.get(above)
        if parent is None:
            raise NoNode(above)
        if parent.owner is not None:
            raise NoChildrenForEphemerals(above)
        self.nodes[path] = Node(data, owner)
        parent.children[path[path.rindex("/") + 1 :]] = None
        parent.below += 1
        parent.names = None
        self._fire(CREATED, path, self._data_watches)
        self._fire(CHILDREN, above, self._child_watches)

    def set(self, path: str, data: str) -> None:
        """Write a node's data; equal data count as a change too."""
        self._node(path).data = data
        self.nodes[parent_of(path)].below += 1
        self._fire(DATA, path, self._data_watches)

    def delete(self, path: str) -> None:
        """Delete a node without children."""
        node = self._node(path)
        if node.children:
            raise NotEmpty(path)
        above = parent_of(path)
        del self.nodes[path]
        parent = self.nodes[above]
        del parent.children[path[path.rindex("/") + 1 :]]
        parent.below += 1
        parent.names = None
        # A client with both watches on the deleted node gets one event.
        notified = self._fire(DELETED, path, self._data_watches)
        self._fire(DELETED, path, self._child_watches, notified)
        self._fire(CHILDREN, above, self._child_watches)

    def get(self, path: str, watcher: Session | None = None) -> str:
        """Return a node's data and watch it; a missing node is not watched."""
        node = self._node(path)
        if watcher is not None:
            self._data_watches.setdefault(path, {})[watcher] = None
        return node.data

    def exists(self, path: str, watcher: Session | None = None) -> bool:
        """Return whether a node exists; watch it in either case."""
        if watcher is not None:
            self._data_watches.setdefault(path, {})[watcher] = None
        return path in self.nodes

    def children(self, path: str, watcher: Session | None = None) -> tuple[str, ...]:
        """Return the sorted names of a node's children, and watch them."""
        node = self._node(path)
        if watcher is not None:
            self._child_watches.setdefault(path, {})[watcher] = None
        if node.names is None:  # sorted once for all readers: every member of a herd reads it
            node.names = tuple(sorted(node.children))
        return node.names

    def forget(self, watcher: Session) -> None:
        """Remove all watches of a client whose session has ended."""
        for watches in (self._data_watches, self._child_watches):
            for path in [path for path, watchers in watches.items() if watcher in watchers]:
                del watches[path][watcher]
                if not watches[path]:
                    del watches[path]

    def paths_below(self, path: str) -> Iterator[str]:
        """Yield the paths of all nodes below a node: parents before children, sorted by name."""
        node = self.nodes.get(path)
        for name in sorted(node.children) if node else ():
            inner = f"{path.rstrip('/')}/{name}"
            yield inner
            yield from self.paths_below(inner)

    def _node(self, path: str) -> Node:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _fire(
        self,
        kind: str,
        path: str,
        watches: dict[str, dict[Session, None]],
        notified: Iterable[Session] = (),
    ) -> Iterable[Session]:
        """Fire watches on a path, except those of ``notified`` clients; return their clients."""
        watchers = watches.pop(path, None)
        if not watchers:
            return ()
        for watcher in watchers:
            if watcher not in notified:
                watcher.fired(kind, path)
        return watchers


# The server side of ZooKeeper sessions: ephemeral nodes, and the end of a session at a tick.
#
# A session lives while its client is connected. Without a connection it ends at the first tick
# after its timeout (``zookeeper.session.timeout.ms`` of the consumer); all its ephemeral nodes and
# watches go in the same step. Source: ZooKeeper 3.4's ``SessionTrackerImpl``.


class Session:
    """A client's session: its name, the receiver of its events, and its ephemeral nodes."""

    __slots__ = ("alive", "ephemerals", "fired", "name", "timeout_ms", "timer")

    def __init__(self, name: str, timeout_ms: int, fired: Callable[[str, str], None]) -> None:
        self.name = name
        self.timeout_ms = timeout_ms
        self.fired = fired
        self.alive = True
        self.ephemerals: dict[str, None] = {}
        self.timer: Call | None = None


class ZooKeeper:
    """The service: a tree, its sessions, and the clock whose ticks end them."""

    def __init__(self, schedule: Schedule, *, tick_ms: int) -> None:
        self.schedule = schedule
        self.tick_ms = tick_ms
        self.tree = Tree()

    def open(self, name: str, timeout_ms: int, fired: Callable[[str, str], None]) -> Session:
        """Begin a session; ``fired(kind, path)`` is called for each of its watches that fires."""
        return Session(name, timeout_ms, fired)

    def lost(self, session: Session) -> None:
        """Start the session's timeout: the connection is lost."""
        if session.alive and session.timer is None:
            due_ms = self.schedule.now_ms + session.timeout_ms
            end_ms = (due_ms // self.tick_ms + 1) * self.tick_ms
            session.timer = self.schedule.call_at(end_ms, self.end, session)

    def returned(self, session: Session) -> bool:
        """Stop the timeout: the client is connected again. Return whether the session lives."""
        if session.timer is not None:
            session.timer.cancel()
        session.timer = None
        return session.alive

    def end(self, session: Session) -> None:
        """End a session: remove its watches and delete its ephemeral nodes."""
        if not session.alive:
            return
        session.alive = False
        if session.timer is not None:
            session.timer.cancel()
        self.tree.forget(session)
        for path in session.ephemerals:
            self.tree.delete(path)
        session.ephemerals.clear()

    def create(self, path: str, data: str = "", session: Session | None = None) -> None:
        """Create a node; with a session it is ephemeral."""
        self.tree.create(path, data, session)
        if session is not None:
            session.ephemerals[path] = None

    def create_with_parents(self, path: str, data: str = "", session: Session | None = None) -> int:
        """Create a node and its missing parents, which are persistent; return how many nodes."""
        missing = []
        above = parent_of(path)
        while above not in self.tree.nodes:
            missing.append(above)
            above = parent_of(above)
        for parent in reversed(missing):
            self.tree.create(parent)
        self.create(path, data, session)
        return len(missing) + 1

    def set(self, path: str, data: str) -> None:
        self.tree.set(path, data)

    def delete(self, path: str) -> None:
        node = self.tree.nodes.get(path)
        self.tree.delete(path)
        if node is not None and isinstance(node.owner, Session):
            node.owner.ephemerals.pop(path, None)


# A client's connection to ZooKeeper: open, held or cut; its events in order.
#
# Operations take no time. An event reaches the client ``delivery_ms`` after the change, and before
# the answer to any request made meanwhile, as ZooKeeper guarantees. While a connection is held,
# requests arrive, but answers and events are delayed. While it is cut, nothing is delivered in
# either direction. A client reconnects ``reconnect_ms`` after it is allowed to. If its session has
# ended, a new one begins.


T = TypeVar("T")


class Connection:
    """One client's connection, and its session over it."""

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
        self._is_held = True

    def release(self) -> None:
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
