"""A consumer of today's design: a member of the classic protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.designs.coordinator09.store import Store
from coterie.designs.today.member import GroupConsumer
from coterie.testing.classic import ClassicMember
from coterie.testing.cluster.coordinator import CountedCoordinator

HEARTBEAT_MS = 3_000


class _Metadata(dict[str, int]):
    """Partition counts of a member's topics; ``get`` knows those of all topics."""

    def __init__(self, own: Sequence[str], cluster: dict[str, int]) -> None:
        super().__init__({topic: cluster.get(topic, 0) for topic in own})
        self._cluster = dict(cluster)

    def get(self, topic: str, default: Any = None) -> Any:
        return self._cluster.get(topic, 0)


class TodayConsumer(GroupConsumer):
    """A member that assigns by the metadata of ``store`` if it leads."""

    member: ClassicMember

    def __init__(
        self,
        name: str,
        group_id: str,
        topics: tuple[str, ...],
        *,
        coordinator: CountedCoordinator,
        store: Store,
        session_timeout_ms: int,
        assignor: str,
        **shared: Any,
    ) -> None:
        super().__init__(name, group_id, topics, **shared)
        self._store = store
        self.member = ClassicMember(
            *(coordinator, group_id),
            client_id=name,
            topics=topics,
            on_rebalance=self._rebalanced,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=session_timeout_ms,
            assignor=assignor,
        )
        self.refresh()

    def refresh(self) -> bool:
        """Refresh metadata; return whether they have changed for its topics."""
        before = dict(self.member.partitions)
        self.member.partitions = _Metadata(self.topics, self._store.topics)
        return before != dict(self.member.partitions)

    def rejoin(self) -> None:
        """Join again, as a leader after a change of its topics."""
        self._rebalanced("revoked", self.places())
        self.member.assignment = {}
        self.member.needs_join = True
