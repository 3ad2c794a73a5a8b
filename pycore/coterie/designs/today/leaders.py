"""Which broker leads which partition of the offsets topic, and so coordinates its groups.

When a leader stops, the next live broker is elected and loads the partition; till then nobody
answers for its groups. If that one stops meanwhile, yet another begins to load.
"""

from __future__ import annotations

from collections.abc import Callable

from coterie._core.codec.checksum import partition_for
from coterie.designs.coordinator09.store import Store
from coterie.designs.schedule import Schedule

PARTITIONS = 50  # of the offsets topic
LOAD_MS = 1_000  # from an election until the log is read


class Leaders:
    """The leaders of the partitions that groups are in.

    Parameters
    ----------
    store, schedule
        Who lives, and the clock.
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
        self._elections: dict[int, int] = {}  # partition -> how many
        self._lost: set[int] = set()  # nobody answers for these

    def of(self, group_id: str) -> int | None:
        """Return the broker that coordinates a group; None if no broker lives."""
        partition = partition_for(group_id, PARTITIONS)
        if partition not in self._elections:
            self._elections[partition] = 0
            if self._store.elect(str(partition)) is None:
                self._resigns(partition)
                self._lost.add(partition)
        found = self._store.coordinators.get(str(partition))
        return found if found in self._store.live else None

    def answers(self, group_id: str) -> bool:
        """Whether a group's coordinator can be asked."""
        return partition_for(group_id, PARTITIONS) not in self._lost

    def stopped(self, broker: int) -> None:
        """Take note that a broker has stopped: what it led is without a leader."""
        self._store.live.discard(broker)
        for partition in self._elections:
            if self._store.coordinators.get(str(partition)) == broker:
                if partition not in self._lost:
                    self._lost.add(partition)
                    self._resigns(partition)
                self._elect(partition)

    def started(self, broker: int) -> None:
        """Take note that a broker has started: it leads what nobody leads."""
        without = [one for one in self._lost if not self._has_leader(one)]
        self._store.live.add(broker)
        for partition in sorted(without):
            self._elect(partition)

    def _has_leader(self, partition: int) -> bool:
        return self._store.coordinators.get(str(partition)) in self._store.live

    def _elect(self, partition: int) -> None:
        if self._store.elect(str(partition)) is not None:
            self._elections[partition] += 1
            number = self._elections[partition]
            self._schedule.call_later(LOAD_MS, self._load, partition, number)

    def _load(self, partition: int, number: int) -> None:
        """End a load, if the broker that began it still lives."""
        if self._elections[partition] == number and self._has_leader(partition):
            self._lost.discard(partition)
            self._loaded(partition)
