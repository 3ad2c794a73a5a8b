"""The leaders of the offsets topic's partitions, which coordinate the groups.

When a leader stops, the next live broker is elected and loads the partition. Until it has loaded
it, requests of its groups are not answered. If it stops meanwhile, the next one begins to load.
"""

from __future__ import annotations

from collections.abc import Callable

from coterie._core.codec.compression import partition_for
from coterie.designs.coordinator09.store import Store
from coterie.schedule import Schedule

PARTITIONS = 50  # of the offsets topic
LOAD_MS = 1_000  # from an election until the log is read


class Leaders:
    """Leaders of the partitions of all groups.

    Parameters
    ----------
    store, schedule
        Live brokers and elections; the clock.
    resigns, loaded : function of a partition
        Called when a partition's leader stops, and when the next one has loaded it.
    """

    def __init__(
        self,
        store: Store,
        schedule: Schedule,
        *,
        resigns: Callable[[int], None],
        loaded: Callable[[int], None],
    ) -> None:
        self._store, self._schedule = store, schedule
        self._resigns, self._loaded = resigns, loaded
        self._elections: dict[int, int] = {}  # count by partition
        self._unavailable: set[int] = set()  # without a leader, or loading

    def of(self, group_id: str) -> int | None:
        """Return the coordinator of a group; None if no broker lives."""
        partition = partition_for(group_id, PARTITIONS)
        if partition not in self._elections:
            self._elections[partition] = 0
            if self._store.elect(str(partition)) is None:
                self._resigns(partition)
                self._unavailable.add(partition)
        leader = self._store.coordinators.get(str(partition))
        return leader if leader in self._store.live else None

    def answers(self, group_id: str) -> bool:
        """Return whether a group's coordinator answers requests."""
        return partition_for(group_id, PARTITIONS) not in self._unavailable

    def stopped(self, broker: int) -> None:
        """Handle a stopped broker: its partitions need another leader."""
        self._store.live.discard(broker)
        for partition in self._elections:
            if self._store.coordinators.get(str(partition)) == broker:
                if partition not in self._unavailable:
                    self._unavailable.add(partition)
                    self._resigns(partition)
                self._elect(partition)

    def started(self, broker: int) -> None:
        """Handle a started broker: it leads partitions without a leader."""
        leaderless = [one for one in self._unavailable if not self._has_leader(one)]
        self._store.live.add(broker)
        for partition in sorted(leaderless):
            self._elect(partition)

    def _has_leader(self, partition: int) -> bool:
        return self._store.coordinators.get(str(partition)) in self._store.live

    def _elect(self, partition: int) -> None:
        if self._store.elect(str(partition)) is not None:
            self._elections[partition] += 1
            number = self._elections[partition]
            self._schedule.call_later(LOAD_MS, self._load, partition, number)

    def _load(self, partition: int, number: int) -> None:
        """Finish a load, if the broker that began it still lives."""
        if self._elections[partition] == number and self._has_leader(partition):
            self._unavailable.discard(partition)
            self._loaded(partition)
