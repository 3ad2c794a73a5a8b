"""Answers in which each group is once, also if several partitions have records of it.

Each partition is answered on its own. The answers tell which groups each has, and wait until all
are there. If a group is in several, its rows are dropped, and the question is put again, for this
group alone, to the logs of its partitions as one log (``coterie.log.joined``). Which partition is
the newest: ``coterie.state.several_partitions``. Cost: the waiting answers, of which the most go
to a temporary file; where a group is in several, these partitions are read again.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from coterie.errors import CoterieError
from coterie.insight.question_engine import Asker, PartitionAnswer, QuestionRequest, answer_each
from coterie.insight.questions import newest_commits
from coterie.insight.records.group_log import Spool
from coterie.log.folders import Listing, find_segments
from coterie.state.replay_engine import Progress, Silent
from coterie.state.several_partitions import (
    Number,
    Orders,
    Times,
    in_order,
    in_several,
    lines_of,
    times_of,
    together,
)

WITHOUT_GROUPS = ("group_names", "newest_commits", "time_range")  # what other questions ask
GROWTH = "growth"  # of which records fill the partition where they lie
ROWS_IN_MEMORY = 100_000  # of answers that wait
Row = dict[str, Any]


class Waiting:
    """Answers that wait, in order; those beyond ``ROWS_IN_MEMORY`` in a temporary file."""

    def __init__(self) -> None:
        self.answers: list[PartitionAnswer | tuple[int, int]] = []
        self.rows = 0
        self.spool = Spool()

    def put(self, answer: PartitionAnswer) -> None:
        self.rows += len(answer.rows)
        if self.rows <= ROWS_IN_MEMORY:
            self.answers.append(answer)
        else:
            body = pickle.dumps(answer, 5)
            self.answers.append((self.spool.append(body), len(body)))

    def take(self) -> Iterator[PartitionAnswer]:
        self.answers.reverse()
        while self.answers:
            answer = self.answers.pop()
            yield pickle.loads(self.spool.read(*answer)) if isinstance(answer, tuple) else answer


def answer(request: QuestionRequest, progress: Progress) -> Iterator[PartitionAnswer]:
    listing = find_segments(request.log)
    request = replace(request, log=listing)
    return each_group_once(request, listing, answer_each, answer_each(request, progress), progress)


def each_group_once(
    request: QuestionRequest,
    listing: Listing,
    ask: Asker,
    answers: Iterable[PartitionAnswer],
    progress: Progress,
) -> Iterator[PartitionAnswer]:
    """Yield the answers of the partitions, each group in the answer of its newest partition.

    Parameters
    ----------
    request
        What was asked.
    listing
        Its log.
    ask
        Answers for each partition.
    answers
        What it answered.
    progress
        Shows a line for each group in several partitions.
    """
    if len(listing.partitions()) < 2 or request.question in WITHOUT_GROUPS:
        yield from answers
        return
    waiting = Waiting()
    groups: dict[Number, Collection[str]] = {}
    newest_ms = -1
    try:
        for part in answers:
            waiting.put(part)
            groups[part.number] = part.present_groups
            newest_ms = max(newest_ms, part.newest_ms)
    except CoterieError:
        yield from waiting.take()
        raise
    orders = orders_in(groups, listing, ask, request.at_ms)
    for line in lines_of(orders, listing.partition_count()):
        progress.notice(line)
    if not orders or request.question == GROWTH:
        yield from waiting.take()
        return
    if getattr(request.parameters, "now_ms", 0) is None:
        request = replace(request, parameters=replace(request.parameters, now_ms=newest_ms))
    rows: dict[Number, list[Row]] = {}
    for order, names in together(orders).items():
        again = replace(request, log=listing.joined(order), groups=frozenset(names))
        for part in ask(again, Silent()):
            rows.setdefault(order[-1], []).extend(part.rows)
    for part in waiting.take():
        own = [row for row in part.rows if row.get("group_id") not in orders]
        yield replace(part, rows=own + rows.get(part.number, []))


def needs_each_group_once(request: QuestionRequest, listing: Listing) -> bool:
    """Whether the rows of a group in several partitions differ from those of each partition."""
    return len(listing.partitions()) > 1 and request.question not in (*WITHOUT_GROUPS, GROWTH)


def orders_in(
    groups: Mapping[Number, Collection[str]], listing: Listing, ask: Asker, at_ms: int | None
) -> Orders:
    """Return the groups in several partitions; ``groups``: those of each partition."""
    several = in_several(groups)
    count = listing.partition_count()
    newest: dict[Number, dict[str, Times]] = {}
    if several and count is None:
        question, names = (newest_commits.NAME, newest_commits.Parameters()), frozenset(several)
        for part in ask(QuestionRequest(*question, listing, names, at_ms), Silent()):
            newest[part.number] = {
                row["group_id"]: Times(row["commit_ms"], row["metadata_ms"]) for row in part.rows
            }
    return {
        name: in_order(name, numbers, count, times_of(name, newest))
        for name, numbers in several.items()
    }
