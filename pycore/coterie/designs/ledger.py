"""Owners and progress of the partitions of a group.

No history is stored, so memory grows with what consumers own. A consumer consumes every message as
soon as it is produced. Offsets are those of the next message. Committed offsets belong to the
group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

TopicPartition = tuple[str, int]
"""A topic and a partition."""


class Ledger:
    def __init__(
        self,
        *,
        from_start: bool = True,
        note: Callable[..., None] | None = None,
    ) -> None:
        self.from_start = from_start
        self.note = note  # called after a change with kind, consumer, topic, partition, offsets
        self.ends: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.owners: dict[
            TopicPartition, dict[str, int]
        ] = {}  # partition -> consumer -> next offset
        self.ranges: dict[str, dict[TopicPartition, list[list[int]]]] = {}
        self._watched: set[TopicPartition] = set()
        self._starts: dict[TopicPartition, int] = {}  # first offset of the group

    def watch(self, places: Iterable[TopicPartition]) -> None:
        """Include these partitions in :meth:`owner_counts`: a consumer subscribes to them."""
        self._watched.update(places)

    def take(self, consumer: str, places: Iterable[TopicPartition]) -> None:
        for place in places:
            owners = self.owners.setdefault(place, {})
            if consumer not in owners:
                end = self.ends.get(place, 0)
                start = self._starts.setdefault(place, 0 if self.from_start else end)
                owners[consumer] = self.committed.get(place, start)
                self._note("owns", consumer, *place)
                self._consume(consumer, place)

    def give(self, consumer: str, places: Iterable[TopicPartition], *, commit: bool) -> None:
        """Stop a consumer's fetching of partitions, with or without a commit of its progress."""
        for place in places:
            offset = self.owners.get(place, {}).get(consumer)
            if offset is not None:
                if commit:
                    self._commit(consumer, place, offset)
                del self.owners[place][consumer]
                self._note("gives_up", consumer, *place)

    def commit(self, consumer: str, places: Iterable[TopicPartition]) -> None:
        for place in places:
            offset = self.owners.get(place, {}).get(consumer)
            if offset is not None:
                self._commit(consumer, place, offset)

    def produce(self, place: TopicPartition, count: int) -> None:
        """Append messages; every consumer that fetches the partition consumes them."""
        self.ends[place] = self.ends.get(place, 0) + count
        for consumer in self.owners.get(place, {}):
            self._consume(consumer, place)

    def owned_by(self, consumer: str) -> dict[TopicPartition, int]:
        """Return the partitions that a consumer fetches, with the next offset of each."""
        return {
            place: owners[consumer]
            for place, owners in sorted(self.owners.items())
            if consumer in owners
        }

    def owned_by_all(self) -> dict[str, dict[TopicPartition, int]]:
        """Return :meth:`owned_by` of every consumer, in one pass over the partitions."""
        owned: dict[str, dict[TopicPartition, int]] = {}
        for place, owners in sorted(self.owners.items()):
            for consumer, offset in owners.items():
                owned.setdefault(consumer, {})[place] = offset
        return owned

    def ranges_of(self, consumer: str) -> dict[TopicPartition, list[list[int]]]:
        """Return the ranges of offsets that a consumer has consumed, in order, by partition."""
        by_place = self.ranges.get(consumer, {})
        return {place: [list(span) for span in ranges] for place, ranges in by_place.items()}

    def owner_counts(self) -> Mapping[TopicPartition, int]:
        return {place: len(self.owners.get(place, ())) for place in sorted(self._watched)}

    def _note(self, kind: str, consumer: str, *details: object) -> None:
        if self.note is not None:
            self.note(kind, consumer, *details)

    def _commit(self, consumer: str, place: TopicPartition, offset: int) -> None:
        if self.committed.get(place) != offset:
            self.committed[place] = offset
            self._note("committed", consumer, *place, offset)

    def _consume(self, consumer: str, place: TopicPartition) -> None:
        first, end = self.owners[place][consumer], self.ends.get(place, 0)
        if end > first:
            self.owners[place][consumer] = end
            ranges = self.ranges.setdefault(consumer, {}).setdefault(place, [])
            if ranges and ranges[-1][1] == first - 1:
                ranges[-1][1] = end - 1
            else:
                ranges.append([first, end - 1])
            self._note("consumed", consumer, *place, first, end - 1)


class Ledgers(dict[str, Ledger]):
    """The ledger of each group. Messages are for all groups, those that are opened later too."""

    def __init__(self, *, from_start: bool, note: Callable[..., None]) -> None:
        super().__init__()
        self._from_start, self._note = from_start, note
        self._ends: dict[TopicPartition, int] = {}

    def open(self, group_id: str) -> Ledger:
        """Return a group's ledger; make it for a new group."""
        ledger = self.get(group_id)
        if ledger is None:
            ledger = self[group_id] = Ledger(from_start=self._from_start, note=self._note)
            ledger.ends.update(self._ends)
        return ledger

    def produce(self, place: TopicPartition, count: int) -> None:
        self._ends[place] = self._ends.get(place, 0) + count
        for ledger in self.values():
            ledger.produce(place, count)
