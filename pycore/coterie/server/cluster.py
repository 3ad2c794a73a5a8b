"""What all brokers of a server share: settings, time, ids, groups, topics, transactions.

No I/O: it is told what time it is, and connections are told what came. The same requests at the
same times, with the same seed, give the same answers and the same logs.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from coterie.coordinator.clock import SharedClock
from coterie.server.apis import SERVED
from coterie.server.clock import Timers
from coterie.server.config import Settings, server_config
from coterie.server.ids import Ids
from coterie.server.telling import Telling

if TYPE_CHECKING:
    from coterie.server.apis import Handler
    from coterie.server.groups import Groups
    from coterie.server.handling import Call
__all__ = ["Address", "Cluster", "Listener", "Node"]

Address = tuple[str, int]


@dataclass(frozen=True)
class Listener:
    """A listener: its name, as ``sasl_plaintext``, is its protocol; ``number`` tells equals apart.

    ``sasl`` and ``tls``: whether its peers authenticate, and by which layer they come.
    """

    name: str = "plaintext"
    number: int = 0

    @property
    def sasl(self) -> bool:
        """Whether peers have to authenticate by SASL."""
        return self.name.startswith("sasl_")

    @property
    def tls(self) -> bool:
        """Whether TLS is below."""
        return self.name.endswith("ssl")


@dataclass
class Node:
    """A broker: its id, and the address that each listener tells its clients."""

    id: int
    addresses: dict[Listener, Address] = field(default_factory=dict)

    def address(self, listener: Listener) -> Address:
        """Return the address that a client of this listener is told."""
        return self.addresses[listener]


class Cluster:
    """What all brokers share.

    Parameters
    ----------
    config
        Settings by Kafka's names.
    now_ms
        The time at which the clock starts.
    seed
        What ids are drawn from; None: the system's random source.
    users
        Who may come in by SASL: what ``coterie.server.sasl`` read of a users file.
    waits
        Timers for what never waits for the clock: Fetch, delays of refusals.

    Attributes
    ----------
    clock
        The time of groups, transactions and retention; whoever has a clock moves it.
    timers
        Functions by the time of that clock.
    observer
        Sees each call before its handler; it says whether the handler is to be called.
    log
        Takes a line for a person.
    tell
        Does so for what peers cause: a kind, and a line; each kind now and then.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        now_ms: int = 0,
        seed: int | None = None,
        users: Any = None,
        waits: Timers | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.config: Settings = server_config(config)
        self.ids = Ids(seed)
        self.cluster_id = self.ids.uuid()
        self.timers = Timers(now_ms)
        self.waits = Timers() if waits is None else waits
        self.clock = SharedClock()
        self.clock.add(self.timers)
        self.nodes: dict[int, Node] = {}
        self.observer: Callable[[Call, Handler], bool] | None = None
        self.users = users
        self._mechanisms: dict[Listener, Any] = {}
        self._told: set[tuple[int, type[Exception]]] = set()
        self.log = log or _tell
        self.tell = Telling(self.log, self.waits)

    @property
    def now_ms(self) -> int:
        """The time of the clock, in ms."""
        return self.clock.now_ms

    @property
    def is_unwatched(self) -> bool:
        """Whether nobody wants to know of each request, or of each event of a group."""
        groups = self.groups
        return self.observer is None and groups.on_event is None and groups.recorder is None

    def move(self, now_ms: int) -> None:
        """Move the clock: what falls due happens, in order."""
        if now_ms > self.clock.now_ms:
            self.clock.move(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return when something is due by the clock."""
        due = [self.timers.next_deadline_ms()]
        if "groups" in self.__dict__:
            due.append(self.groups.next_deadline_ms())
        return min((ms for ms in due if ms is not None), default=None)

    def node(self, node_id: int) -> Node:
        """Return a broker by its id."""
        return self.nodes[node_id]

    def leader_of(self, topic: str, partition: int) -> Node:
        """Return the broker that leads a partition."""
        return self.nodes[min(self.nodes)]

    def coordinator_of(self, key_type: int, key: str) -> Node:
        """Return the broker that coordinates a group (0) or a transactional id (1)."""
        return self.nodes[min(self.nodes)]

    @cached_property
    def groups(self) -> Groups:
        """The group coordinator."""
        from coterie.server.groups import Groups

        return Groups(self)

    @cached_property
    def topics(self) -> Any:
        """Topics and their data."""
        from coterie.server.data.topics import Topics

        return Topics(self)

    @cached_property
    def transactions(self) -> Any:
        """The transaction coordinator."""
        from coterie.server.txn.coordinator import TransactionCoordinator

        return TransactionCoordinator(self)

    def authentication(self, listener: Listener) -> Any:
        """Begin the authentication of a connection to a listener with SASL."""
        if listener not in self._mechanisms:
            from coterie.server.sasl.authentication import Mechanisms

            self._mechanisms[listener] = Mechanisms(
                self.users, self.config, listener.name, ids=self.ids,
                now_ms=lambda: self.waits.now_ms,
            )  # fmt: skip
        return self._mechanisms[listener].authentication()

    def guarded(self, handler: Handler, call: Call) -> None:
        """Let a handler answer; if it fails its connection closes, and nothing else happens."""
        try:
            handler(call)
        except Exception as error:
            self.failed(call, error)

    def failed(self, call: Call, error: Exception) -> None:
        """Close the connection of a request that failed; say where once for each kind."""
        name = SERVED[call.api_key].name
        self.log(f"{name} {call.api_version} failed; its connection closes: {error!r:.300}")
        kind = (call.api_key, type(error))
        if kind not in self._told:
            self._told.add(kind)
            self.log("".join(traceback.format_tb(error.__traceback__)))
        call.connection.close()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
