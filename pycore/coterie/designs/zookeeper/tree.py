"""ZooKeeper's tree of nodes, with one-time watches.

A read sets a watch, which fires once, at the next change. Data watches are set by ``get`` and
``exists`` (of a missing node too); they fire when the node is created, written or deleted. Child
watches are set by ``children``; they fire when a child is created or deleted, and when the node
itself is deleted. A client with both watches on a deleted node gets one event. Source: ZooKeeper
3.4's ``DataTree``, ``WatchManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from coterie.errors import CoterieError

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


class Watcher(Protocol):
    """A client that sets watches."""

    def fired(self, kind: str, path: str) -> None:
        """Receive the event of a watch."""


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
    """Return the path of a node's parent."""
    return path[: path.rindex("/")] or "/"


class Tree:
    """Nodes and watches, by path."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"/": Node("", None)}
        self._data_watches: dict[str, dict[Watcher, None]] = {}
        self._child_watches: dict[str, dict[Watcher, None]] = {}

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

    def get(self, path: str, watcher: Watcher | None = None) -> str:
        """Return a node's data and watch it; a missing node is not watched."""
        node = self._node(path)
        if watcher is not None:
            self._data_watches.setdefault(path, {})[watcher] = None
        return node.data

    def exists(self, path: str, watcher: Watcher | None = None) -> bool:
        """Return whether a node exists; watch it in either case."""
        if watcher is not None:
            self._data_watches.setdefault(path, {})[watcher] = None
        return path in self.nodes

    def children(self, path: str, watcher: Watcher | None = None) -> tuple[str, ...]:
        """Return the sorted names of a node's children, and watch them."""
        node = self._node(path)
        if watcher is not None:
            self._child_watches.setdefault(path, {})[watcher] = None
        if node.names is None:  # sorted once for all readers: every member of a herd reads it
            node.names = tuple(sorted(node.children))
        return node.names

    def forget(self, watcher: Watcher) -> None:
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
        watches: dict[str, dict[Watcher, None]],
        notified: Iterable[Watcher] = (),
    ) -> Iterable[Watcher]:
        """Fire watches on a path, except those of ``notified`` clients; return their clients."""
        watchers = watches.pop(path, None)
        if not watchers:
            return ()
        for watcher in watchers:
            if watcher not in notified:
                watcher.fired(kind, path)
        return watchers
