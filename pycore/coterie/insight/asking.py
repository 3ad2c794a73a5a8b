"""How a question is put to a log, whatever the engine: the request, and one part a partition.

An asker is a function (request, progress) -> parts in order of the partition's number; it
registers under the entry point group ``coterie.askers``, as engines of a replay do.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, cast

from coterie.errors import CoterieError
from coterie.insight.records.log_parts import states_of
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.threads import each_partition
from coterie.insight.render.fields import Fields
from coterie.log.folders import Log
from coterie.replay.engine import Conf, Progress, find_entry
from coterie.replay.parallel_scan import resting_collector
from coterie.times import format_time

ASKERS = "coterie.askers"
TRUSTED: Fields = {"trusted_from": "timestamp"}  # before it the partition may lack records
Row = dict[str, Any]


class Question(Protocol):
    """What a module of ``coterie.insight`` that answers a question has; see the package."""

    NAME: str
    FIELDS: Fields
    Ask: type[Any]

    def rows(self, view: PartitionView, ask: Any) -> Iterator[Row]:
        """Yield the rows of one partition."""


@dataclass(frozen=True)
class QuestionRequest:
    """What to ask of which log.

    Attributes
    ----------
    question : str
        Its name, that of a module of ``coterie.insight``.
    ask : object
        Its parameters, an ``Ask`` of the module.
    log : Listing or tuple of str
        LOG..., as listed or as given.
    groups : frozenset of str or None
        Only these groups; None: all.
    at_ms : int or None
        Only records whose own timestamp is not after this.
    since_ms : int or None
        Tell only what was so or happened since then; what was before is read, and is not told.
    master : str or None
        Spark's master URL; None: ``local[*]``.
    conf : tuple of (str, str)
        Settings of Spark's.
    """

    question: str
    ask: Any
    log: Log
    groups: frozenset[str] | None = None
    at_ms: int | None = None
    since_ms: int | None = None
    master: str | None = None
    conf: Conf = ()


@dataclass(frozen=True)
class PartitionAnswer:
    """The answer of one partition of the topic.

    Attributes
    ----------
    number : int or None
        The partition.
    rows : list of dict
        What the question gives.
    found : frozenset of str
        Where groups were named: those that the partition has records of.
    faults : int
        Corrupt places that were left out.
    trusted_from_ms : int or None
        From when on the partition's state is whole; None: from its start.
    newest_ms : int
        The time of its newest record, whatever was asked for; -1: none has one.
    """

    number: int | None
    rows: list[Row] = field(repr=False)
    found: frozenset[str]
    faults: int
    trusted_from_ms: int | None
    newest_ms: int


Asker = Callable[[QuestionRequest, Progress], Iterator[PartitionAnswer]]


def find_question(name: str) -> Question:
    """Return the module that answers a question."""
    return cast(Question, importlib.import_module(f"coterie.insight.questions.{name}"))


def find_asker(engine: str) -> Asker:
    """Return what puts questions on an engine; see ``coterie.replay.engine.find_entry``."""
    asker: Asker = find_entry(ASKERS, engine)
    return asker


def fields_of(question: Question) -> Fields:
    """Return the fields of an answer: the question's own, and since when they can be trusted."""
    return {**question.FIELDS, **TRUSTED}


def rows_of(view: PartitionView, question: Question, ask: Any) -> Iterator[Row]:
    """Yield the rows of one partition, with the fields of :func:`fields_of`."""
    for row in question.rows(view, ask):
        row["trusted_from"] = view.trusted_from_ms
        yield row


def part_of(view: PartitionView, question: Question, ask: Any) -> PartitionAnswer:
    """Put a question to one partition."""
    rows = list(rows_of(view, question, ask))
    found = frozenset(view.group_ids) if view.groups else frozenset()
    faults = len(view.fold.faults)
    return PartitionAnswer(view.number, rows, found, faults, view.trusted_from_ms, view.newest_ms)


def answer(request: QuestionRequest, progress: Progress) -> Iterator[PartitionAnswer]:
    """Answer in this process: threads read a large log."""
    question, ask = find_question(request.question), request.ask

    def part(view: PartitionView) -> PartitionAnswer:
        with resting_collector():  # rows are no cycles, and it would walk them again and again
            return part_of(view, question, ask)

    def states(view: PartitionView) -> PartitionView:
        for record_filter in states_of(view, question, ask):
            view.read(record_filter)
        return view

    each = partial(
        each_partition,
        request.log,
        groups=request.groups,
        at_ms=request.at_ms,
        since_ms=request.since_ms,
        progress=progress,
    )
    if getattr(ask, "now_ms", 0) is not None:
        yield from each(part)
        return
    read = deque(each(states))  # all of them, for the newest time of any
    ask = replace(ask, now_ms=max((view.newest_ms for view in read), default=-1))
    while read:
        yield part(read.popleft())


def missing_groups(
    groups: frozenset[str] | None,
    found: frozenset[str],
    at_ms: int | None = None,
    trusted_from_ms: int | None = None,
) -> CoterieError | None:
    """Return what to raise where a group that was named is not in the log; None: all are.

    ``trusted_from_ms``: from when on all of the log is whole; None: from its start.
    """
    missing = sorted((groups or frozenset()) - found)
    if not missing:
        return None
    names = ", ".join(repr(name) for name in missing)
    which = "group" if len(missing) == 1 else "groups"
    until = "" if at_ms is None else f" up to {format_time(at_ms)}"
    lost = ""
    if trusted_from_ms is not None:
        lost = f" (compacted: what was before {format_time(trusted_from_ms)} may be gone)"
    return CoterieError(
        f"the log has no record of {which} {names}{until}{lost}; "
        "`coterie groups LOG --list` names those it has"
    )
