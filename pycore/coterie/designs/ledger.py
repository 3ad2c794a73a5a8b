"""Who fetches which partition of a group, and how far; ``costs`` sums what it notes.

It keeps no history: a thousand consumers cost what they own. A consumer takes every message at
once when it comes. Offsets are those of the next message; the committed ones belong to the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

Place = tuple[str, int]
"""A topic and a partition."""


class Ledger:
    """Ownership and progress of one group."""

    def __init__(
        self,
        *,
        from_start: bool = True,
        note: Callable[..., None] | None = None,
    ) -> None:
        self.from_start = from_start
        self.note = note  # called with kind, consumer, topic, partition, offsets
        self.ends: dict[Place, int] = {}
        self.committed: dict[Place, int] = {}
        self.owners: dict[Place, dict[str, int]] = {}  # partition -> consumer -> next offset
        self.ranges: dict[str, dict[Place, list[list[int]]]] = {}
        self._watched: set[Place] = set()
        self._starts: dict[Place, int] = {}  # where the first consumer began

    def watch(self, places: Iterable[Place]) -> None:
        """Count the owners of these partitions, too: somebody subscribes to them."""
        self._watched.update(places)

    def take(self, consumer: str, places: Iterable[Place]) -> None:
        """Let a consumer fetch partitions from the committed offsets on."""
        for place in places:
            owners = self.owners.setdefault(place, {})
            if consumer not in owners:
                end = self.ends.get(place, 0)
                start = self._starts.setdefault(place, 0 if self.from_start else end)
                owners[consumer] = self.committed.get(place, start)
                self._note("owns", consumer, *place)
                if owners[consumer] < end:
                    self._consume(consumer, place)

    def give(self, consumer: str, places: Iterable[Place], *, commit: bool) -> None:
        """Let a consumer stop fetching, with a commit of how far it came or without."""
        for place in places:
            offset = self.owners.get(place, {}).get(consumer)
            if offset is not None:
                if commit:
                    self._commit(consumer, place, offset)
                del self.owners[place][consumer]
                self._note("gives_up", consumer, *place)

    def commit(self, consumer: str, places: Iterable[Place]) -> None:
        """Commit how far a consumer came."""
        for place in places:
            offset = self.owners.get(place, {}).get(consumer)
            if offset is not None:
                self._commit(consumer, place, offset)

    def produce(self, place: Place, count: int) -> None:
        """Add messages; every consumer that fetches the partition consumes them."""
        self.ends[place] = self.ends.get(place, 0) + count
        for consumer in self.owners.get(place, {}):
            self._consume(consumer, place)

    def owned_by(self, consumer: str) -> dict[Place, int]:
        """Return what a consumer fetches, with the next offset."""
        return {p: held[consumer] for p, held in sorted(self.owners.items()) if consumer in held}

    def owned_by_all(self) -> dict[str, dict[Place, int]]:
        """Return what each consumer fetches, with the next offset: one pass for all of them."""
        owned: dict[str, dict[Place, int]] = {}
        for place, owners in sorted(self.owners.items()):
            for consumer, offset in owners.items():
                owned.setdefault(consumer, {})[place] = offset
        return owned

    def ranges_of(self, consumer: str) -> dict[Place, list[list[int]]]:
        """Return what a consumer has consumed: ranges of offsets in their order, by partition."""
        found = self.ranges.get(consumer, {})
        return {place: [list(one) for one in ranges] for place, ranges in found.items()}

    def owner_counts(self) -> Mapping[Place, int]:
        """Return how many consumers fetch each partition that counts."""
        return {place: len(self.owners.get(place, ())) for place in sorted(self._watched)}

    def _note(self, kind: str, consumer: str, *details: object) -> None:
        if self.note is not None:
            self.note(kind, consumer, *details)

    def _commit(self, consumer: str, place: Place, offset: int) -> None:
        if self.committed.get(place) != offset:
            self.committed[place] = offset
            self._note("committed", consumer, *place, offset)

    def _consume(self, consumer: str, place: Place) -> None:
        first, end = self.owners[place][consumer], self.ends.get(place, 0)
        if end > first:
            self._note("consumed", consumer, *place, first, end - 1)
            ranges = self.ranges.setdefault(consumer, {}).setdefault(place, [])
            if ranges and ranges[-1][1] == first - 1:
                ranges[-1][1] = end - 1
            else:
                ranges.append([first, end - 1])
        self.owners[place][consumer] = end


class Ledgers(dict[str, Ledger]):
    """The ledger of each group; what is produced is for all of them, those that come later, too."""

    def __init__(self, *, from_start: bool, note: Callable[..., None]) -> None:
        super().__init__()
        self._from_start, self._noting = from_start, note
        self._ends: dict[Place, int] = {}

    def open(self, group_id: str) -> Ledger:
        """Return a group's ledger, a new one for a new group."""
        ledger = self.get(group_id)
        if ledger is None:
            ledger = self[group_id] = Ledger(from_start=self._from_start, note=self._noting)
            ledger.ends.update(self._ends)
        return ledger

    def produce(self, place: Place, count: int) -> None:
        """Add messages, for every group."""
        self._ends[place] = self._ends.get(place, 0) + count
        for ledger in self.values():
            ledger.produce(place, count)
