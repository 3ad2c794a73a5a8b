"""zkclient 0.3: a ZooKeeper client with listeners, whose events run one after another.

A listener is permanent: when its watch fires, the event thread reads the node, which sets the watch
again, and then runs the listener. After the end of a session, a new-session event comes first, then
one event for every listener. Source: ``org.I0Itec.zkclient.ZkClient``.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable

from coterie.designs.consumer08.views import BROKERS, TOPICS
from coterie.designs.times import Times
from coterie.designs.zookeeper.connection import Connection
from coterie.designs.zookeeper.session import Session, ZooKeeper
from coterie.designs.zookeeper.tree import CHILDREN, CREATED, DATA, DELETED, NodeExists, NoNode
from coterie.schedule import Routine, Schedule, Task

Listener = Callable[[], "Routine | None"]
NEW_SESSION = "new_session"


class ZkClient:
    """One consumer's client.

    Parameters
    ----------
    schedule, zookeeper, name, timeout_ms, times
        The clock, the service, the consumer's name, its session timeout, and delays.
    new_session : function
        Returns the task that the event thread runs after a new session has begun.
    counted : function of an event's kind
        Called with each event that the event thread handles.
    """

    def __init__(
        self,
        schedule: Schedule,
        zookeeper: ZooKeeper,
        name: str,
        timeout_ms: int,
        times: Times,
        *,
        new_session: Callable[[], Routine],
        counted: Callable[[str], None],
    ) -> None:
        self.connection = Connection(
            zookeeper,
            name,
            timeout_ms,
            self._received,
            self._expired,
            delivery_ms=times.delivery_ms,
            reconnect_ms=times.reconnect_ms,
        )
        self.zookeeper = zookeeper
        self._tree = zookeeper.tree
        self._schedule = schedule
        self._new_session = new_session
        self._counted = counted
        self._child_listeners: dict[str, Listener] = {}
        self._data_listeners: dict[str, Listener] = {}
        self._deleted_listeners: dict[str, Listener] = {}
        self._listens_to_sessions = False
        self._events: deque[tuple[str, str]] = deque()
        self.event_thread: Task | None = None

    @property
    def operations(self) -> int:
        """The number of operations so far."""
        return self.connection.operations

    def children(self, path: str) -> Routine:
        """Return the names of a node's children; NoNode if it does not exist."""
        names = yield from self.connection.call(self._children, path)
        return names

    def children_if_there(self, path: str) -> Routine:
        """Return the names of a node's children; none if it does not exist."""
        try:
            names = yield from self.children(path)
        except NoNode:
            return ()
        return names

    def read(self, path: str) -> Routine:
        """Return a node's data; NoNode if it does not exist."""
        data = yield from self.connection.call(self._read, path)
        return data

    def read_if_there(self, path: str) -> Routine:
        """Return a node's data; None if it does not exist."""
        try:
            data = yield from self.read(path)
        except NoNode:
            return None
        return data

    def ask(self, function: Callable[..., object], *args: object, count: int) -> Routine:
        """Do several reads at once; they count as ``count`` operations."""
        answer = yield from self.connection.call(function, *args, count=count)
        return answer

    def reach(self) -> Routine:
        """Wait until ZooKeeper can be reached; not counted as an operation."""
        yield from self.connection.call(lambda: None, count=0)

    def create_ephemeral(self, path: str, data: str) -> Routine:
        """Create an ephemeral node and its parents; return whether it exists with this text.

        An existing node with the same text counts as created, also if another client owns it.
        """
        try:
            yield from self.connection.call(self._create_ephemeral, path, data)
        except NodeExists:
            present = yield from self.read_if_there(path)
            return present == data
        return True

    def update(self, path: str, data: str) -> Routine:
        """Write a persistent node; create it and its parents if it is missing."""
        try:
            yield from self.connection.call(self.zookeeper.set, path, data)
        except NoNode:
            yield from self.connection.call(self.zookeeper.create_with_parents, path, data)

    def delete(self, path: str) -> Routine:
        """Delete a node, if it exists."""
        with contextlib.suppress(NoNode):
            yield from self.connection.call(self.zookeeper.delete, path)

    def listen_to_sessions(self) -> None:
        """Handle new sessions from now on; earlier ones are not reported."""
        self._listens_to_sessions = True

    def listen_to_children(self, path: str, listener: Listener) -> Routine:
        """Call a listener when a node's children change."""
        self._child_listeners[path] = listener
        yield from self._watch_children(path)

    def listen_to_data(self, path: str, changed: Listener, deleted: Listener) -> Routine:
        """Call a listener when a node is written or created, or another when it is deleted."""
        self._data_listeners[path] = changed
        self._deleted_listeners[path] = deleted
        yield from self.connection.call(self._watch_data, path)

    def stop_listening(self) -> None:
        """Drop all listeners."""
        self._listens_to_sessions = False
        for listeners in (self._child_listeners, self._data_listeners, self._deleted_listeners):
            listeners.clear()

    def watch_what_is_read(self, paths: Iterable[str]) -> None:
        """Set the data watches that a read of these nodes sets, for nodes with listeners.

        Without them, a change between the start of a new session and the session's event for the
        node would cause one event, not two.
        """
        for path in paths:
            if path in self._data_listeners and path in self._tree.nodes:
                self._tree.get(path, self.connection.session)

    def _create_ephemeral(self, path: str, data: str) -> None:
        self.connection.operations += (
            self.zookeeper.create_with_parents(path, data, self.connection.session) - 1
        )

    def _children(self, path: str) -> tuple[str, ...]:
        return self._tree.children(path, self._watcher(path))

    def _read(self, path: str) -> str:
        return self._tree.get(path, self._watcher(path))

    def _watcher(self, path: str) -> Session | None:
        listens = path in self._child_listeners or path in self._data_listeners
        return self.connection.session if listens else None

    def _watch_children(self, path: str) -> Routine:
        """Watch a node and its children; for a missing node, its creation."""
        if (yield from self.connection.call(self._watch_data, path)):
            yield from self.connection.call(self._children, path)

    def _received(self, kind: str, path: str) -> None:
        """Queue an event for listeners, if there are any."""
        if kind in (CHILDREN, CREATED, DELETED) and path in self._child_listeners:
            self._events.append((CHILDREN, path))
        if kind in (DATA, CREATED, DELETED) and path in self._data_listeners:
            self._events.append((DATA, path))
        self._schedule.call_soon(self._run_events)

    def _expired(self) -> None:
        if self._listens_to_sessions:
            self._events.append((NEW_SESSION, ""))
        self._events.extend((CHILDREN, path) for path in self._child_listeners)
        self._events.extend((DATA, path) for path in self._data_listeners)
        self._schedule.call_soon(self._run_events)

    def _run_events(self) -> None:
        if self._events and (self.event_thread is None or self.event_thread.done):
            self.event_thread = Task(self._schedule, self._handle_events())

    def _handle_events(self) -> Routine:
        while self._events:
            kind, path = self._events.popleft()
            if kind == NEW_SESSION:
                self._counted(NEW_SESSION)
                yield from self._new_session()
                continue
            if kind == CHILDREN:
                yield from self._watch_children(path)
                listener = self._child_listeners.get(path)
            else:
                exists = yield from self.connection.call(self._watch_data, path, count=2)
                listeners = self._data_listeners if exists else self._deleted_listeners
                listener = listeners.get(path)
            if listener is None:
                continue
            self._counted(_name_of(kind, path))
            routine = listener()
            if routine is not None:
                yield from routine

    def _watch_data(self, path: str) -> bool:
        return self._tree.exists(path, self.connection.session)


def _name_of(kind: str, path: str) -> str:
    """Return the name under which an event is counted."""
    if kind == DATA:
        return "topic_data"
    return {TOPICS: "topics_children", BROKERS: "brokers_children"}.get(path, "ids_children")
