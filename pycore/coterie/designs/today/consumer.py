"""A consumer of today's design: a scripted group member that fetches its partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coterie.designs.coordinator09.store import Store
from coterie.designs.ledger import Ledger, TopicPartition
from coterie.designs.today.coordinator import CountedCoordinator
from coterie.designs.today.leaders import Leaders
from coterie.testing import ClassicMember

HEARTBEAT_MS = 3_000


class _Metadata(dict[str, int]):
    """Partition counts of a member's topics; ``get`` knows those of all topics."""

    def __init__(self, own: Sequence[str], cluster: dict[str, int]) -> None:
        super().__init__({topic: cluster.get(topic, 0) for topic in own})
        self._cluster = dict(cluster)

    def get(self, topic: str, default: Any = 0) -> Any:
        return self._cluster.get(topic, 0)


class TodayConsumer:
    """A member, and its owned partitions in the ledger.

    Parameters
    ----------
    coordinator, leaders, store, ledger
        The coordinator, its leader, the topics, and the group's ledger.
    commit
        Commits the consumer's progress.

    Attributes
    ----------
    away : bool
        Whether it is cut off from the coordinator; it goes on fetching.
    turn : int
        The number of its last scheduled action; earlier ones are ignored.
    """

    def __init__(
        self,
        name: str,
        group_id: str,
        topics: tuple[str, ...],
        *,
        coordinator: CountedCoordinator,
        leaders: Leaders,
        store: Store,
        ledger: Ledger,
        commit: Callable[[TodayConsumer], None],
        **member_options: Any,
    ) -> None:
        self.name, self.group_id, self.topics = name, group_id, topics
        self._leaders, self._store, self._ledger, self._commit = leaders, store, ledger, commit
        self.alive, self.away = True, False
        self.turn = 0
        self.member = ClassicMember(
            *(coordinator, group_id),
            client_id=name,
            topics={topic: store.topics.get(topic, 0) for topic in topics},
            on_rebalance=self._rebalanced,
            heartbeat_interval_ms=HEARTBEAT_MS,
            **member_options,
        )
        self.refresh()

    @property
    def generation_id(self) -> int:
        """Its generation."""
        return self.member.generation_id

    @property
    def in_group(self) -> str:
        """Its state, by name."""
        if not self.alive:
            return "Down"
        return "Stable" if self.member.stable else "Joining"

    @property
    def reachable(self) -> bool:
        """Whether it lives and its coordinator answers."""
        return self.alive and not self.away and self._leaders.answers(self.group_id)

    def close(self) -> None:
        """Commit and leave the group; if the coordinator cannot be reached, crash."""
        if not self.reachable:
            self.crash()
            return
        self._commit(self)
        if self.member.member_id:
            self.member.leave()
        self.alive = False

    def crash(self) -> None:
        """End without a commit and without a request to leave."""
        self.alive = False
        self.member.crash()
        self._ledger.give(self.name, list(self._ledger.owned_by(self.name)), commit=False)

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

    def places(self) -> list[TopicPartition]:
        """Return its assigned partitions."""
        return [(topic, n) for topic, numbers in self.member.assignment.items() for n in numbers]

    def _rebalanced(self, how: str, places: list[TopicPartition]) -> None:
        if how == "assigned":
            self._ledger.take(self.name, places)
        else:
            self._ledger.give(self.name, places, commit=how == "revoked")
