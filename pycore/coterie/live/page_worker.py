"""The process of :mod:`coterie.live.watched_files`: pages and questions, read from the files."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from coterie.base.printable import printable_json
from coterie.errors import CoterieError
from coterie.insight.answering import answer
from coterie.insight.offsets.divergence import Live
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.question_engine import QuestionRequest, find_question
from coterie.insight.questions import audit, lag
from coterie.insight.questions.expire import DEFAULT_RETENTION_MS
from coterie.insight.tables import json_lines
from coterie.live.watched_files import ANSWER, FAILED, PAGE, ReadRequest, Scope
from coterie.report.gather import gather_log
from coterie.report.page import render
from coterie.report.sections import Basis
from coterie.state.replay_engine import Silent


def main() -> None:
    request: ReadRequest = pickle.load(sys.stdin.buffer)
    try:
        found, status = answer_to(request), 0
    except CoterieError as error:
        found, status = str(error).encode("utf-8", "replace"), FAILED
    sys.stdout.buffer.write(ANSWER + found)
    sys.exit(status)


def answer_to(request: ReadRequest) -> bytes:
    """Return the bytes of a page, or the JSON of an answer.

    Raises
    ------
    CoterieError
        The files cannot be read.
    """
    if request.what == PAGE:
        return page_of(request.group, request.scope)
    rows = question_rows(request.what, request.group, request.scope)
    return printable_json("".join(json_lines(rows))).encode()


def only(group: str | None) -> frozenset[str] | None:
    return None if group is None else frozenset({group})


def question_rows(name: str, group: str | None, scope: Scope) -> list[dict[str, Any]]:
    """Return the answer to a question, read from the log."""
    given: dict[str, Any] = {}
    if name == "expire":
        given = {"now_ms": scope.newest_ms}
    elif name == audit.NAME:
        kinds = tuple(kind for kind in audit.KINDS if kind != audit.DIVERGENCE)
        given = {"only": kinds, "live": Live({}, log_starts=scope.log_starts)}
    parameters = find_question(name).Parameters(**given)
    request = QuestionRequest(name, parameters, scope.listing, only(group), since_ms=scope.since_ms)
    return [row for part in answer(request, Silent()) for row in part.rows]


def lag_of(last: dict[tuple[str, int], Sample]) -> lag.Parameters | None:
    """Return what asks for the lag at the last samples; None: there are none.

    What is watched is complete, however old its newest record.
    """
    ends: dict[tuple[str, int], tuple[Sample, ...]] = {
        place: (sample,) for place, sample in last.items() if sample.time_ms is not None
    }
    if not ends:
        return None
    until_ms = max(samples[-1].time_ms or 0 for samples in ends.values())
    return lag.Parameters(EndOffsets(True, ends), latest=True, log_until_ms=until_ms)


def page_of(group: str | None, scope: Scope) -> bytes:
    """Return the page of ``coterie report``, read from the log."""
    basis = Basis(scope.newest_ms, DEFAULT_RETENTION_MS, lag=lag_of(scope.last_ends))
    whole = gather_log(
        scope.listing, basis, groups=only(group), since_ms=scope.since_ms, progress=Silent()
    )
    title = "Consumer groups" if group is None else group
    pieces = render(whole, title, "Watched by coterie", basis)
    return "".join(pieces).encode("utf-8", "replace")
