"""The state that all brokers of a server share: settings, time, ids, groups, topics, transactions.

It does no I/O: the caller passes in the time and the received bytes. The same requests at the same
times, with the same seed, produce the same responses and the same logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from coterie.server.clock import Timers
from coterie.server.context import Context
from coterie.server.releases import DEFAULT_RELEASE, Release
from coterie.server.services.authentication import Authentication, Mechanisms
from coterie.server.services.broker_configs import BrokerConfigs
from coterie.server.services.features import Features
from coterie.server.services.group_configs import GroupConfigs
from coterie.server.services.groups import Groups
from coterie.server.services.topics import Topics
from coterie.server.services.transaction_coordinator import TransactionCoordinator
from coterie.server.services.users import Users

Address = tuple[str, int]


@dataclass(frozen=True)
class Listener:
    """A listener: its name in lower case, and its protocol.

    ``protocol`` "": the name is the protocol, as ``sasl_plaintext``. ``number`` distinguishes
    listeners of the same name.
    """

    name: str = "plaintext"
    number: int = 0
    protocol: str = ""

    @property
    def sasl(self) -> bool:
        return (self.protocol or self.name).startswith("sasl_")

    @property
    def tls(self) -> bool:
        return (self.protocol or self.name).endswith("ssl")


@dataclass
class Node:
    """A broker: its id, the address advertised to the clients of each listener, and its rack."""

    id: int
    addresses: dict[Listener, Address] = field(default_factory=dict)
    rack: str | None = None

    def address(self, listener: Listener) -> Address:
        """Return the address advertised to the clients of a listener."""
        return self.addresses[listener]


class Cluster(Context):
    """The services of a server and their context, shared by all its brokers."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        now_ms: int = 0,
        seed: int | None = None,
        users: Users | None = None,
        waits: Timers | None = None,
        log: Callable[[str], None] | None = None,
        release: Release = DEFAULT_RELEASE,
    ) -> None:
        super().__init__(config, now_ms=now_ms, seed=seed, waits=waits, log=log, release=release)
        self.cluster_id = self.ids.uuid()
        self.nodes: dict[int, Node] = {}
        self.users = Users({}) if users is None else users
        self.features = Features(release)
        self._mechanisms: dict[Listener, Mechanisms] = {}

    def move(self, now_ms: int) -> None:
        """Move the clock to a time; timers that expire fire in order."""
        if now_ms > self.clock.now_ms:
            self.clock.move(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return when the next timer of the clock expires; None: no timer is set."""
        deadlines = [self.timers.next_deadline_ms()]
        if "groups" in self.__dict__:
            deadlines.append(self.groups.next_deadline_ms())
        return min((ms for ms in deadlines if ms is not None), default=None)

    @property
    def has_consumer_groups(self) -> bool:
        """Whether groups of the consumer protocol (KIP-848) are on."""
        return self.features.has_consumer_groups and "consumer" in self.config.group_protocols

    def node(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def leader_of(self, topic: str, partition: int) -> Node:
        return self.nodes[min(self.nodes)]

    def coordinator_of(self, key_type: int, key: str) -> Node:
        """Return the broker that coordinates a group (0) or a transactional id (1)."""
        return self.nodes[min(self.nodes)]

    @cached_property
    def topics(self) -> Topics:
        return Topics(self)

    @cached_property
    def broker_configs(self) -> BrokerConfigs:
        elects = self.features.elects_by_isr
        return BrokerConfigs(self.topics, elects_by_isr=elects)

    @cached_property
    def groups(self) -> Groups:
        return Groups(self, self.topics)

    @cached_property
    def group_configs(self) -> GroupConfigs:
        return GroupConfigs(self.config, self.groups, self.release.name)

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        return TransactionCoordinator(self, self.topics, self.groups, self.features)

    def authentication(self, listener: Listener) -> Authentication:
        """Return the initial authentication state of a connection to a SASL listener."""
        if listener not in self._mechanisms:
            self._mechanisms[listener] = Mechanisms(
                self.users, self.config, listener.name, ids=self.ids,
                now_ms=lambda: self.waits.now_ms,
            )  # fmt: skip
        return self._mechanisms[listener].authentication()
