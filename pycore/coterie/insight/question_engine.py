"""Put a question to a log, on any engine: the request, and one answer for each partition.

An asker is a function (request, progress) -> answers in order of the partition's number. It is
registered under the entry point group ``coterie.askers``, as replay engines are under theirs.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import Any, Protocol, cast

from coterie.base.times import Time, format_time, time_ms
from coterie.errors import CoterieError
from coterie.insight.fields import Fields
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.insight.records.threads import each_partition
from coterie.log.clock import Begin, ClockStep, Cut
from coterie.log.folders import Listing, Log
from coterie.log.joined import in_own_partition
from coterie.state.parallel_scan import resting_collector
from coterie.state.redpanda import is_of_redpanda
from coterie.state.replay_engine import Conf, Progress, find_entry

ASKERS = "coterie.askers"
TRUSTED: Fields = {"trusted_from": "timestamp"}  # earlier records may be missing
Row = dict[str, Any]


class Question(Protocol):
    """The interface of a question's module; see ``coterie.insight``."""

    NAME: str
    FIELDS: Fields
    Parameters: type[Any]

    def rows(self, view: PartitionView, parameters: Any) -> Iterator[Row]:
        """Yield the rows of one partition."""


@dataclass(frozen=True)
class QuestionRequest:
    """A question and the log to answer it from.

    Attributes
    ----------
    question : str
        The question's name, that of a module of ``coterie.insight.questions``.
    parameters : object
        ``Parameters`` of that module.
    log : Listing or tuple of str
        LOG..., listed or as given by the user.
    groups : frozenset of str or None
        Only these groups; None: all.
    at_ms : int or None
        Only records whose own timestamp is not after this.
    since_ms : int or None
        Report only states and events since then. Earlier records are read, too.
    master : str or None
        Spark's master URL; None: ``local[*]``.
    conf : tuple of (str, str)
        Settings of Spark.
    """

    question: str
    parameters: Any
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
        The partition's number.
    rows : list of dict
        The answer's rows.
    present_groups : frozenset of str
        The requested groups that the partition has records of.
    faults : int
        The number of corrupt places, which were left out.
    trusted_from_ms : int or None
        From when on the partition's state is complete; None: from its start.
    newest_ms : int
        The time of its newest record, regardless of the request; -1: no record has a time.
    clock_steps : tuple of ClockStep
        Where the time goes back. Empty if the question needed only states.
    cut : Cut or None
        Where the partition ends as of the request's time, if earlier times follow.
    begin : Begin or None
        Where the partition begins since the request's time; None: its records' times decide.
    is_redpandas : bool
        Whether Redpanda wrote it.
    """

    number: int | None
    rows: list[Row]
    present_groups: frozenset[str]
    faults: int
    trusted_from_ms: int | None
    newest_ms: int
    clock_steps: tuple[ClockStep, ...] = ()
    cut: Cut | None = None
    begin: Begin | None = None
    is_redpandas: bool = False


Asker = Callable[[QuestionRequest, Progress], Iterator[PartitionAnswer]]


def find_question(name: str) -> Question:
    return cast(Question, importlib.import_module(f"coterie.insight.questions.{name}"))


def find_asker(engine: str) -> Asker:
    """Return an engine's asker; see ``coterie.state.replay_engine.find_entry``."""
    asker: Asker = find_entry(ASKERS, engine)
    return asker


def fields_of(question: Question) -> Fields:
    """Return the fields of an answer: the question's own, and ``trusted_from``."""
    return {**question.FIELDS, **TRUSTED}


def states_of(view: PartitionView, question: Any, parameters: Any) -> tuple[RecordFilter, ...]:
    """Return the states that a question needs, as far as they are known yet."""
    states: tuple[RecordFilter, ...] = getattr(question, "states", lambda view, parameters: ())(
        view, parameters
    )
    return states


def rows_of(view: PartitionView, question: Question, parameters: Any) -> Iterator[Row]:
    """Yield the rows of one partition, with the fields of :func:`fields_of`."""
    for row in question.rows(view, parameters):
        row["trusted_from"] = view.trusted_from_ms
        yield in_own_partition(row, view.order) if view.is_joined else row


def partition_answer(view: PartitionView, question: Question, parameters: Any) -> PartitionAnswer:
    rows = list(rows_of(view, question, parameters))
    present_groups = frozenset(view.group_ids)
    faults = view.fold.fault_count
    return PartitionAnswer(
        view.number,
        rows,
        present_groups,
        faults,
        view.trusted_from_ms,
        view.newest_ms,
        tuple(view.clock_steps),
        view.end_cut,
        view.since_begin,
        is_of_redpanda(view.fold),
    )


def answer_each(request: QuestionRequest, progress: Progress) -> Iterator[PartitionAnswer]:
    """Answer in this process, each partition by itself; threads read a large log."""
    question, parameters = find_question(request.question), request.parameters

    def answer_of(view: PartitionView) -> PartitionAnswer:
        with resting_collector():  # rows have no cycles; it would walk them in vain
            return partition_answer(view, question, parameters)

    def read_states(view: PartitionView) -> PartitionView:
        for record_filter in states_of(view, question, parameters):
            view.read(record_filter)
        return view

    each_view = partial(
        each_partition,
        request.log,
        groups=request.groups,
        at_ms=request.at_ms,
        since_ms=request.since_ms,
        progress=progress,
    )
    if not hasattr(parameters, "now_ms") or parameters.now_ms is not None:
        with each_view(answer_of) as answers:
            yield from answers
        return
    with each_view(read_states) as read:  # answers read on, so they are made in here
        views = deque(read)  # all partitions, for the newest time of any
        parameters = replace(parameters, now_ms=max((view.newest_ms for view in views), default=-1))
        while views:
            yield answer_of(views.popleft())


def check_names(name: str, ask_type: type[Any], parameters: Mapping[str, Any]) -> None:
    """Refuse unknown and missing parameters of a question, by name."""
    known = {field.name: field for field in fields(ask_type)}
    for parameter in parameters:
        if parameter not in known:
            raise CoterieError(
                f"{name} has no {parameter}; it takes {', '.join(known) or 'nothing'}"
            )
    for parameter, field in known.items():
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if not has_default and parameters.get(parameter) is None:
            raise CoterieError(f"{name} needs {'at' if parameter == 'at_ms' else parameter}")


def question_request(
    name: str,
    list_log: Callable[[], Listing],
    newest_ms: Callable[[Listing], int | None],
    *,
    groups: str | Iterable[str] | None,
    at: Time,
    since: Time,
    until: Time,
    parameters: Mapping[str, Any],
) -> QuestionRequest:
    """Return the request of a call of Python, whose parameters are checked before the log is read.

    Parameters
    ----------
    name
        The question.
    list_log
        Lists the log.
    newest_ms
        Returns the time of its newest record, for parameters whose default it is.
    groups
        Only these groups; None: all.
    at, since, until
        As ``--at``, ``--since``, ``--until``.
    parameters
        Fields of the question's ``Parameters``.

    Raises
    ------
    CoterieError
        A parameter is unknown, missing, wrong or contradicts another one, or the log is.
    """
    groups = [groups] if isinstance(groups, str) else groups
    at_ms, until_ms = time_ms(at), time_ms(until, "until")
    ask_type, given = find_question(name).Parameters, dict(parameters)
    known = {field.name for field in fields(ask_type)}
    if "at_ms" in known and at_ms is not None:
        if "at_ms" in given:
            raise CoterieError("at and at_ms say the same; give one of them")
        given["at_ms"], at_ms = at_ms, None
    if at_ms is not None and until_ms is not None:
        raise CoterieError("at and until say the same; give one of them")
    check_names(name, ask_type, given)
    log = list_log()
    if "log_until_ms" in known and given.get("ends") is not None:
        given = {"log_until_ms": newest_ms(log), **given}
    if "now_ms" in known and given.get("now_ms") is None:
        given["now_ms"] = newest_ms(log) if until_ms is None else until_ms
        if given["now_ms"] is None:
            raise CoterieError("the log has no record with a time; give now_ms")
    return QuestionRequest(
        question=name,
        parameters=ask_type(**given),
        log=log,
        groups=None if groups is None else frozenset(groups),
        at_ms=until_ms if at_ms is None else at_ms,
        since_ms=time_ms(since, "since"),
    )


def missing_groups(
    groups: frozenset[str] | None,
    present: frozenset[str],
    at_ms: int | None = None,
    trusted_from_ms: int | None = None,
) -> CoterieError | None:
    """Return the error for requested groups that are not in the log; None: all are.

    ``trusted_from_ms``: from when on the whole log is complete; None: from its start.
    """
    missing = sorted((groups or frozenset()) - present)
    if not missing:
        return None
    names = ", ".join(repr(name) for name in missing)
    noun = "group" if len(missing) == 1 else "groups"
    until = "" if at_ms is None else f" up to {format_time(at_ms)}"
    compacted = ""
    if trusted_from_ms is not None:
        compacted = f" (compacted: what was before {format_time(trusted_from_ms)} may be gone)"
    return CoterieError(
        f"the log has no record of {noun} {names}{until}{compacted}; "
        "`coterie groups --list` names those it has"
    )
