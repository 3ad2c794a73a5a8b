"""The ledger of a run: who processed which record when, commits, and notes for the timeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

Place = tuple[str, int]
"""A topic and a partition."""


class Work(NamedTuple):
    """The processing of a record: from ``start_ms`` to ``end_ms`` by ``member``."""

    offset: int
    start_ms: int
    end_ms: int
    member: str


class Note(NamedTuple):
    """Something that happened to a member, or to all if ``member`` is empty."""

    at_ms: int
    member: str
    kind: str
    details: Any


class PartitionEnd(NamedTuple):
    """A partition at the end of a run.

    ``offsets`` has the records that exist for a consumer, ``end`` the end of the log. ``start`` is
    where a new member begins: the committed offset, or what the application seeks to. None: there
    is no such offset, no owner. ``paused``: the owner reads no records of it.
    """

    offsets: list[int]
    end: int
    start: int | None
    owner: str | None
    paused: bool = False


class Ledger:
    """Grows during a run.

    Attributes
    ----------
    works : dict
        The :class:`Work` of each partition, in the order in which it ended.
    notes : list of Note
        What happened, in order.
    ends : dict
        The :class:`PartitionEnd` of each partition that exists at the end.
    stuck : bool
        Whether the time for the rest of the work ran out.
    """

    def __init__(self) -> None:
        self.works: dict[Place, list[Work]] = {}
        self.notes: list[Note] = []
        self.ends: dict[Place, PartitionEnd] = {}
        self.stuck = False

    def add(self, place: Place, offset: int, start_ms: int, end_ms: int, member: str) -> None:
        """Add a record that was processed."""
        works = self.works.get(place)
        if works is None:
            works = self.works[place] = []
        works.append(Work(offset, start_ms, end_ms, member))

    def unprocessed(self, place: Place, offsets: Iterable[int]) -> list[int]:
        """Return those of the offsets of a partition that nobody has processed."""
        processed = {work.offset for work in self.works.get(place, ())}
        return [offset for offset in offsets if offset not in processed]

    def note(self, at_ms: int, member: str, kind: str, details: Any = None) -> None:
        """Add a note."""
        self.notes.append(Note(at_ms, member, kind, details))
