"""The outcome of a run: lost and repeated records, overlaps, what is stuck, what is out of order.

Every item is a true statement about the run: a record counts as lost only if no member ever
processed it although the group went past it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.base.times import clock
from coterie.histories.ledger import Ledger, Note, Place
from coterie.histories.timeline import runs, span, timeline

if TYPE_CHECKING:
    from coterie.histories.conditions import Conditions
    from coterie.testing.topics import ConsumerRecord

FINDINGS = ("lost", "repeated", "overlaps", "stuck", "out_of_order")


def spoken(topic: str, partition: int, first: int, last: int | None = None) -> str:
    """Return records as text: TOPIC-PARTITION@OFFSET, or a range of offsets."""
    return f"{topic}-{partition}@{span((first, first if last is None else last))}"


class Commit(NamedTuple):
    """A commit that was done, and when it was sent: the offset of each ``(topic, partition)``."""

    at_ms: int
    member: str
    offsets: dict[Place, int]


class Lost(NamedTuple):
    """Records that nobody processed, although the group went past them.

    That is: a new member would begin after them, at the committed offset or at what the application
    seeks to.

    ``passed_ms`` is when the commit that is past the first of them was sent, None if no member
    knows of one; ``member`` committed, or owns the partition at the end.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    passed_ms: int | None
    member: str | None

    def __repr__(self) -> str:
        records = spoken(self.topic, self.partition, self.first_offset, self.last_offset)
        if self.passed_ms is None:
            return f"{records} never processed, but the group is past it"
        when = f"{self.member} committed past it at {clock(self.passed_ms)}"
        return f"{records} never processed; {when}"


class Repeated(NamedTuple):
    """A record that was processed more than once; ``works`` has each time."""

    topic: str
    partition: int
    offset: int
    works: tuple[Any, ...]

    def __repr__(self) -> str:
        times = ", ".join(f"by {work.member} at {clock(work.end_ms)}" for work in self.works)
        return f"{spoken(*self[:3])} processed {len(self.works)} times: {times}"


class Overlap(NamedTuple):
    """Two members that processed records of a partition at the same time."""

    topic: str
    partition: int
    first: Any
    second: Any

    def __repr__(self) -> str:
        one, two = (
            f"{work.member} @{work.offset} from {clock(work.start_ms)} to {clock(work.end_ms)}"
            for work in (self.first, self.second)
        )
        return f"{self.topic}-{self.partition} in two hands: {one}, {two}"


class Stuck(NamedTuple):
    """A partition whose records from ``offset`` on were not processed after the faults ended."""

    topic: str
    partition: int
    offset: int
    log_end: int
    owner: str | None
    paused: bool = False

    def __repr__(self) -> str:
        records = spoken(self.topic, self.partition, self.offset, self.log_end - 1)
        owner = f"owned by {self.owner}" if self.owner else "owned by nobody"
        paused = ", which paused the partition" if self.paused else ""
        return f"{records} waits in vain, {owner}{paused}"


class OutOfOrder(NamedTuple):
    """A record first processed after ``later``, a later record of its partition."""

    topic: str
    partition: int
    offset: int
    later: int
    at_ms: int
    member: str

    def __repr__(self) -> str:
        return (
            f"{spoken(*self[:3])} first processed by {self.member} at {clock(self.at_ms)}, "
            f"after @{self.later}"
        )


class Findings(list[Any]):
    """A list of items that shows the run to Hypothesis and pytest when it is found not empty."""

    def __init__(self, outcome: Outcome, name: str, items: Iterable[Any]) -> None:
        super().__init__(items)
        self._outcome, self._name = outcome, name

    def __bool__(self) -> bool:
        if len(self):
            self._outcome.show(self)
        return len(self) > 0


class Outcome:
    """What a run led to.

    Each list is empty if all is well; its items name the records, the members and the moment.

    A test that looks at any of them, at ``store``, ``outputs`` or ``errors``, and fails, has the
    timeline in its report.

    Attributes
    ----------
    history : Conditions
        What was run.
    skipped : list of Note
        The events of a play that its client cannot take part in, each with the reason.

    Examples
    --------
    >>> class Billing:
    ...     def __init__(self, consumer, store):
    ...         self.consumer = consumer
    ...
    ...     def process(self, records):
    ...         self.consumer.commit()  # before its work is done
    ...         for _ in records:
    ...             pass
    >>> crash = Crash(at_ms=0, during="processing")
    >>> outcome = History(members=1, topics={"orders": 1}, minutes=1, events=(crash,)).run(Billing)
    >>> outcome
    <Outcome: 1 lost, 0 repeated, 0 overlaps, 0 stuck, 0 out_of_order>
    >>> outcome.lost
    [orders-0@0 never processed; member-0 committed past it at 0:10.002]
    """

    def __init__(
        self,
        history: Conditions,
        ledger: Ledger,
        store: dict[Any, Any],
        outputs: dict[str, list[ConsumerRecord]],
    ) -> None:
        self.history, self._ledger = history, ledger
        self._store, self._outputs = store, outputs
        self.skipped = [note for note in ledger.notes if note.kind == "skipped"]

    def __repr__(self) -> str:
        findings = (f"{len(getattr(self, name))} {name}" for name in FINDINGS)
        return f"<Outcome: {', '.join(findings)}>"

    @cached_property
    def store(self) -> dict[Any, Any]:
        """The application's store at the end."""
        self.show([])
        return self._store

    @cached_property
    def outputs(self) -> dict[str, list[ConsumerRecord]]:
        """The records of each topic that the application wrote, as ``read_committed`` does."""
        self.show([])
        return self._outputs

    @cached_property
    def errors(self) -> list[Note]:
        """The exceptions of Kafka and of writes that ended a member; it then started again."""
        self.show([])
        return [note for note in self._ledger.notes if note.kind == "failed"]

    @cached_property
    def commits(self) -> list[Commit]:
        """The commits that members know to be done, in the order in which they were sent."""
        notes = self._ledger.notes
        done = {id(n.details[0]) for n in notes if n.kind == "committed" and n.details[1] is None}
        return [
            Commit(at_ms, member, {tuple(place): at.offset for place, at in offsets.items()})
            for at_ms, member, kind, offsets in notes
            if kind == "commit" and id(offsets) in done
        ]

    @cached_property
    def lost(self) -> Findings:
        """Records never processed, although the group is past them."""
        return Findings(self, "lost", self._find_lost())

    @cached_property
    def repeated(self) -> Findings:
        """Records processed more than once."""
        return Findings(self, "repeated", self._find_repeated())

    @cached_property
    def overlaps(self) -> Findings:
        """Times in which two members processed records of one partition."""
        return Findings(self, "overlaps", self._find_overlaps())

    @cached_property
    def stuck(self) -> Findings:
        """Partitions without progress after the faults ended."""
        return Findings(self, "stuck", self._find_stuck())

    @cached_property
    def out_of_order(self) -> Findings:
        """Records first processed after a later record of their partition."""
        return Findings(self, "out_of_order", self._find_out_of_order())

    def timeline(self, items: Iterable[Any] = ()) -> str:
        """Return the run as text: events, callbacks, commits, and the owners of each partition.

        With items of one of the lists, only their partitions are shown.
        """
        return timeline(self.history, self._ledger, list(items))

    def show(self, items: list[Any]) -> None:
        """Make the timeline part of the report of the test that is running."""
        from coterie.histories.reporting import report

        report(self, items)

    # Inside

    def _find_lost(self) -> Iterator[Lost]:
        for (topic, partition), end in self._ledger.ends.items():
            unprocessed = self._ledger.unprocessed((topic, partition), end.offsets)
            missing = [offset for offset in unprocessed if offset < (end.start or 0)]
            for first, last in runs(missing):
                passed_ms, member = self._passed((topic, partition), first)
                yield Lost(topic, partition, first, last, passed_ms, member or end.owner)

    def _passed(self, place: Place, offset: int) -> tuple[int | None, str | None]:
        """Return when, and by whom, an offset beyond this one was committed for good."""
        found: tuple[int | None, str | None] = None, None
        beyond = False
        for at_ms, member, offsets in self.commits:
            if place in offsets:
                was_beyond, beyond = beyond, offsets[place] > offset
                if beyond and not was_beyond:
                    found = at_ms, member
        return found if beyond else (None, None)

    def _find_repeated(self) -> Iterator[Repeated]:
        for (topic, partition), works in self._ledger.works.items():
            if len({work.offset for work in works}) == len(works):
                continue
            by_offset: dict[int, list[Any]] = {}
            for work in works:
                by_offset.setdefault(work.offset, []).append(work)
            for offset, several in sorted(by_offset.items()):
                if len(several) > 1:
                    yield Repeated(topic, partition, offset, tuple(several))

    def _find_overlaps(self) -> Iterator[Overlap]:
        for (topic, partition), works in self._ledger.works.items():
            if len({work.member for work in works}) == 1:
                continue
            latest: dict[str, Any] = {}  # of each member, the work that ends last
            for work in sorted(works, key=lambda work: (work.start_ms, work.end_ms)):
                for member, before in latest.items():
                    if member != work.member and work.start_ms < min(before.end_ms, work.end_ms):
                        yield Overlap(topic, partition, before, work)
                if work.member not in latest or latest[work.member].end_ms < work.end_ms:
                    latest[work.member] = work

    def _find_stuck(self) -> Iterator[Stuck]:
        if not self._ledger.stuck:
            return
        for (topic, partition), end in self._ledger.ends.items():
            unprocessed = self._ledger.unprocessed((topic, partition), end.offsets)
            waiting = [offset for offset in unprocessed if offset >= (end.start or 0)]
            if waiting:
                yield Stuck(topic, partition, waiting[0], end.end, end.owner, end.paused)

    def _find_out_of_order(self) -> Iterator[OutOfOrder]:
        for (topic, partition), works in self._ledger.works.items():
            seen: set[int] = set()
            highest = -1
            for work in works:
                if work.offset < highest and work.offset not in seen:
                    yield OutOfOrder(
                        topic, partition, work.offset, highest, work.end_ms, work.member
                    )
                seen.add(work.offset)
                highest = max(highest, work.offset)
