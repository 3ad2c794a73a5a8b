"""What a history does to a server: topics and records, the network of single clients, admin calls.

It runs in the thread of the server. Clients are known by their ``client.id``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from coterie.base.operations import NUMBER
from coterie.errors import ArgumentError
from coterie.server.api.call import Call, Dispatcher, Handler
from coterie.server.api.table import KEYS
from coterie.server.cluster import Cluster

HEARTBEAT_MS = 20
Record = tuple[int, bytes, bytes]
_JOIN, _HEARTBEAT = KEYS["joingroup"], KEYS["consumergroupheartbeat"]
_OF_GROUPS = {
    KEYS[name]
    for name in (
        *("offsetcommit", "offsetfetch", "joingroup", "heartbeat", "leavegroup", "syncgroup"),
        "consumergroupheartbeat",
    )
}


class Stage:
    """A server on which a history is played.

    Parameters
    ----------
    cluster
        The state of the server.
    dispatcher
        The requests pass it; its observer, which is called first, is replaced.
    abort
        Closes a connection at once.

    Attributes
    ----------
    heard_ms : dict
        When the last request about a group came from each client, ms.
    """

    def __init__(
        self, cluster: Cluster, dispatcher: Dispatcher, abort: Callable[[Any], None]
    ) -> None:
        self._cluster, self._dispatcher, self._abort = cluster, dispatcher, abort
        self._before = dispatcher.observer
        dispatcher.observer = self._observe
        self.heard_ms: dict[str, int] = {}
        self._joins: Counter[str] = Counter()
        self._cut: set[str] = set()
        self._losses: list[tuple[str, int | None, bool]] = []  # client, API, of the response
        self._calls: dict[str, list[Call]] = {}  # of each client, one for each connection

    # Topics and records

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, which must not exist."""
        if self._cluster.topics.get(name) is not None:
            raise ArgumentError(f"the broker has a topic {name!r} already: give it a new one")
        self._cluster.topics.create(name, partitions)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions; ``total`` is their number then."""
        self._cluster.topics.grow(name, total)

    def delete_topic(self, name: str) -> None:
        self._cluster.topics.delete(name)

    def move(self, ms: int, records: Iterable[tuple[str, int, list[Record]]]) -> None:
        """Let time pass, then append records to partitions of topics."""
        self._cluster.clock.advance(ms)
        for name, number, some in records:
            log = self._cluster.topics.partition(name, number)
            if log is not None:
                log.append_records(some)

    # The coordinator

    def quicken(self, group_id: str) -> bool:
        """Let clients of the consumer protocol heartbeat often: theirs is the wall clock.

        Return whether there is that protocol.
        """
        if not self._cluster.has_consumer_groups:
            return False
        interval = {"consumer.heartbeat.interval.ms": str(HEARTBEAT_MS)}
        self._cluster.group_configs.replace(group_id, interval)
        return True

    def ask(self, op: str, compiled: tuple[Any, ...]) -> Any:
        """Return the response to a request that is answered at once, as those of admins are."""
        answers: list[Any] = []
        group_id, generation_id, member_id, instance, details = compiled
        self._cluster.groups.ask(
            *(NUMBER[op], group_id, generation_id, member_id, instance, details), answers.append
        )
        (answered,) = answers
        return answered

    # The network

    def cut(self, client_id: str) -> None:
        """Close a client's connections, and all that it opens, until :meth:`heal`."""
        self._cut.add(client_id)
        for call in self._calls.pop(client_id, ()):
            self._abort(call.connection)

    def heal(self, client_id: str) -> None:
        """Answer a client again."""
        self._cut.discard(client_id)

    def lose(self, client_id: str, api: str | None, response: bool) -> None:
        """Close the connection instead of a client's next request, or of the response to it.

        ``api``: as ``"offset_commit"``; None: any that concerns its group.
        """
        key = None if api is None else KEYS[api.replace("_", "")]
        self._losses.append((client_id, key, response))

    def lose_nothing(self, client_id: str) -> None:
        self._losses = [loss for loss in self._losses if loss[0] != client_id]

    def joins_of(self, client_id: str) -> int:
        """Return how many requests of a client joined a group."""
        return self._joins[client_id]

    def silent(self, client_ids: Iterable[str], ms: int) -> list[str]:
        """Return the clients that have sent nothing for so long, although they could.

        A request under way keeps a session alive, and a client that was never heard has none.
        """
        since_ms = self._cluster.now_ms - ms
        return [
            client_id
            for client_id in client_ids
            if client_id not in self._cut
            and client_id in self.heard_ms
            and self.heard_ms[client_id] <= since_ms
            and all(call.connection.call is not call for call in self._calls.get(client_id, ()))
        ]

    def excuse(self, client_ids: Iterable[str]) -> None:
        """Expect nothing of clients until they are heard again: one that left says nothing."""
        for client_id in client_ids:
            self.heard_ms.pop(client_id, None)

    def _observe(self, call: Call, handler: Handler) -> bool:
        client_id = call.client_id or ""
        if client_id in self._cut:
            call.close()
            return False
        if call.api_key not in _OF_GROUPS:
            return self._before is None or self._before(call, handler)
        calls = self._calls.get(client_id, [])
        others = [one for one in calls if one.connection is not call.connection]
        self._calls[client_id] = [*(one for one in others if not one.connection.closing), call]
        self.heard_ms[client_id] = self._cluster.now_ms
        self._joins[client_id] += call.api_key == _JOIN or (
            call.api_key == _HEARTBEAT and call.body["memberEpoch"] == 0
        )
        for loss in self._losses:
            if loss[0] == client_id and loss[1] in (None, call.api_key):
                self._losses.remove(loss)
                if loss[2]:
                    self._dispatcher.handle(call, handler)
                    self._abort(call.connection)
                else:
                    call.close()
                return False
        return self._before is None or self._before(call, handler)
