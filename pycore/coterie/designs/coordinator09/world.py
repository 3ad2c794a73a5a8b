"""The environment of brokers and consumers of the 0.9 design, as a protocol, and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coterie.designs.coordinator09.messages import GroupRequest, GroupResponse
from coterie.designs.coordinator09.store import Store
from coterie.schedule import Schedule


@dataclass(frozen=True)
class CoordinatorSettings:
    """Times of the design, in ms, and the number of heartbeats in a session timeout.

    A JoinGroup may take a whole session timeout; its sender waits ``join_patience_ms`` longer.
    """

    delivery_ms: int = 5
    watch_ms: int = 10
    catch_up_ms: int = 1000
    retry_ms: int = 100
    request_timeout_ms: int = 2000
    join_patience_ms: int = 5000
    broker_session_ms: int = 6000
    session_timeout_ms: int = 30000
    heartbeat_frequency: int = 3
    auto_commit_ms: int = 60000
    from_start: bool = True


class World(Protocol):
    """Clock, network, ZooKeeper, logs and ledgers."""

    broker_ids: Sequence[int]
    settings: CoordinatorSettings
    schedule: Schedule
    store: Store

    def coordinator_of(self, group_id: str) -> int | None:
        """Find the coordinator of a group."""

    def to_broker(self, consumer: Any, broker_id: int, number: int, request: GroupRequest) -> None:
        """Send a request."""

    def to_consumer(self, consumer: Any, number: int, response: GroupResponse) -> None:
        """Send a response."""

    def boundary(self, broker: Any, name: str, group_id: str) -> None:
        """Kill a coordinator at a boundary, if the scenario says so."""

    def log(self, source: str, text: str, detail: str) -> None:
        """Log an event."""

    def rebalance_prepared(self, group_id: str, reason: str) -> None:
        """Record the start of a rebalance."""

    def rebalance_done(self, group_id: str, members: int) -> None:
        """Record a new generation, with its number of members."""

    def take(self, consumer: Any) -> None:
        """Start a consumer's fetching of its partitions."""

    def give(self, consumer: Any, *, commit: bool) -> None:
        """Stop its fetching."""

    def commit(self, consumer: Any) -> None:
        """Commit its progress."""
