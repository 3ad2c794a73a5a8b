"""The server side of ZooKeeper sessions: ephemeral nodes, and the end of a session at a tick.

A session lives while its client is connected. Without a connection it ends at the first tick after
its timeout (``zookeeper.session.timeout.ms`` of the consumer); all its ephemeral nodes and watches
go in the same step. Source: ZooKeeper 3.4's ``SessionTrackerImpl``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coterie.designs.zookeeper.tree import (
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Tree,
    parent_of,
)
from coterie.schedule import Call, Schedule

GONE, PERSISTENT, EPHEMERAL = "gone", "persistent", "ephemeral"


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
    """The service: a tree, its sessions, and the clock whose ticks end them.

    Parameters
    ----------
    schedule : Schedule
        The clock.
    tick_ms : int
        Sessions end at multiples of it.
    """

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
        """Write a node's data."""
        self.tree.set(path, data)

    def delete(self, path: str) -> None:
        """Delete a node of any owner."""
        node = self.tree.nodes.get(path)
        self.tree.delete(path)
        if node is not None and isinstance(node.owner, Session):
            node.owner.ephemerals.pop(path, None)

    def multi(self, operations: Sequence[tuple[Any, ...]], session: Session | None = None) -> None:
        """Apply several operations, all or none.

        Parameters
        ----------
        operations : sequence of tuple
            ``("create", path, data)``, ``("create_ephemeral", path, data)``, ``("set", path,
            data)``, ``("delete", path)``, ``("check", path)``.
        session : Session, optional
            The owner of ephemeral nodes.

        Raises
        ------
        ZooKeeperError
            An operation is refused; none has had an effect.
        """
        after: dict[str, str] = {}  # state of paths after the operations before
        for kind, path, *_ in operations:
            state = self._state(path, after)
            if kind.startswith("create"):
                above = self._state(parent_of(path), after)
                if state != GONE:
                    raise NodeExists(path)
                if above == GONE:
                    raise NoNode(parent_of(path))
                if above == EPHEMERAL:
                    raise NoChildrenForEphemerals(parent_of(path))
                after[path] = EPHEMERAL if kind == "create_ephemeral" else PERSISTENT
            elif state == GONE:
                raise NoNode(path)
            elif kind == "delete":
                if self._has_children(path, after):
                    raise NotEmpty(path)
                after[path] = GONE
        for kind, path, *data in operations:
            if kind == "create":
                self.create(path, *data)
            elif kind == "create_ephemeral":
                self.create(path, data[0], session)
            elif kind == "set":
                self.set(path, *data)
            elif kind == "delete":
                self.delete(path)

    def _state(self, path: str, after: dict[str, str]) -> str:
        if path in after:
            return after[path]
        node = self.tree.nodes.get(path)
        if node is None:
            return GONE
        return PERSISTENT if node.owner is None else EPHEMERAL

    def _has_children(self, path: str, after: dict[str, str]) -> bool:
        node = self.tree.nodes.get(path)
        names = {f"{path}/{name}" for name in node.children} if node else set()
        names |= {changed for changed in after if parent_of(changed) == path}
        return any(self._state(name, after) != GONE for name in names)
