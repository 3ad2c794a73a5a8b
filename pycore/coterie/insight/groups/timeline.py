"""The timeline of a classic group: a row for each metadata record, with the times between them.

Records do not show how long a rebalance took. A record is written when the leader's assignment
arrives. It says when the group began to wait for the assignment, but not when it began to wait
for members to join, which takes longer. The record before gives a lower bound for that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from coterie.insight.groups.causes import RECORDS, Cause, State, causes_of, in_words
from coterie.insight.records.partition_view import GroupHistory

GENERATION, STATIC, REWRITTEN = "generation", "static_replacement", "rewritten"
EMPTY, DELETED = "empty", "deleted"
RECORDED = (GENERATION, STATIC, REWRITTEN, EMPTY)  # events of a record that shows the group's state
SOURCE = "duration_source"
Row = dict[str, Any]


def timeline(history: GroupHistory, instead: Mapping[int, Row] | None = None) -> list[Row]:
    """Return a row for each metadata record of a group, in log order.

    ``instead``: rows that replace those of some records, by record number.
    """
    instead = instead or {}
    state: State | None = None
    before: State | None = None
    rows: list[Row] = []
    for index, record in enumerate(history.generations):
        older, before, state = before, state, history.state(index)
        if index in instead:
            rows.append(instead[index])
            continue
        causes = [] if state is None else causes_of(history, index, state, before, older)
        rows.append(_row(record, causes))
    _fill_empty(rows, history.generations)
    return rows


def _row(record: Row, causes: list[Cause]) -> Row:
    event = _event(record, causes)
    if event == DELETED:
        text = "the group was deleted, or had expired"
    elif event == EMPTY:
        words = in_words(causes)
        made = "the group was made" if record["generation"] == 0 else ""
        text = "; ".join(filter(None, [words or made, "no members"]))
    elif event == REWRITTEN:
        text = "the same generation was written again"
    else:
        text = in_words(causes)
    return {
        "event": event,
        "timestamp": record["timestamp"],
        "log_offset": record["log_offset"],
        "generation": record["generation"],
        "previous_generation": record["previous_generation"],
        "member_count": None if event == DELETED else record["member_count"],
        "protocol": record["protocol"],
        "leader": record["leader"],
        "cause": text,
        "causes": causes,
        "file": record["file"],
        "position": record["position"],
    }


def _event(record: Row, causes: list[Cause]) -> str:
    if record["tombstone"]:
        return DELETED
    if not record["member_count"]:
        return EMPTY
    if record["generation"] != record["previous_generation"]:
        return GENERATION
    return STATIC if any(cause["what"] == "replaced" for cause in causes) else REWRITTEN


def bound_waits(rows: list[Row]) -> None:
    """Set an upper bound for each generation's time without an assignment, if records give one.

    ``rows``: all rows of a group, including commits. If two records of the group are neighbours,
    the rebalance began after the first and ended by the second.
    """
    for before, row in pairwise(rows):
        if row["event"] == GENERATION and before["event"] in RECORDED and not row.get(SOURCE):
            began, ended = before["timestamp"], row["timestamp"]
            if began is not None and ended is not None and began <= ended:
                row |= {"duration_ms": ended - began, SOURCE: RECORDS}


def _fill_empty(rows: list[Row], records: list[Row]) -> None:
    """Set the end of each time without members; the last one may have none."""
    began: Row | None = None
    start: int | None = None
    for row, record in zip(rows, records, strict=True):
        if began is not None and row["event"] != EMPTY:
            if start is not None and row["timestamp"] is not None:
                began["until"] = row["timestamp"]
                began["duration_ms"] = max(row["timestamp"] - start, 0)
            began = None
        if row["event"] == EMPTY and began is None:
            began, since_ms = row, record["current_state_timestamp"]
            start = row["timestamp"] if since_ms is None else since_ms
