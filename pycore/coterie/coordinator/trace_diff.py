"""Compare two outputs of a trace by the rules of the format.

Within one time, responses are a set keyed by id. The transitions, appends and changes of a group
are ordered. Lists of a response that have no order are sorted. null equals an absent field. Of
version 2, decoded records, error messages, timers and notes are not compared.
Rules: docs/rules/trace-format.md#comparison.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

_SORTED_BY = {
    "members": ("member_id", "group_instance_id"),
    "partitions": ("topic", "partition"),
    "groups": ("group_id",),
    "assignment": ("topic_id",),
    "target_assignment": ("topic_id",),
}
_SORTED = ("partitions", "subscribed_topic_names")  # lists of numbers or names
_NOT_COMPARED = ("record", "error_message")
_COMMENTS = ("timer", "note")  # events that explain others
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two outputs; None: the line is missing."""

    at: int | None
    what: str
    expected: Line | None
    actual: Line | None

    def __str__(self) -> str:
        fields = []
        if self.expected is not None and self.actual is not None:
            names = dict.fromkeys([*self.expected, *self.actual])
            fields = [
                f"  {name}: expected {_text(self.expected.get(name))}, "
                f"came {_text(self.actual.get(name))}"
                for name in names
                if self.expected.get(name) != self.actual.get(name)
            ]
        if not fields:
            fields = [f"  expected: {_text(self.expected)}", f"  came:     {_text(self.actual)}"]
        return "\n".join([f"at {self.at}: {self.what}", *fields])


def _text(value: Any, limit: int = 1000) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _normal(line: Line) -> Line:
    line = _plain(line)
    if line.get("event") == "response":
        _sort_lists(line)
    return line


def _sort_lists(item: Line) -> None:
    """Sort the lists without an order in a response, the inner ones first."""
    for name, value in item.items():
        if not isinstance(value, list):
            continue
        rows = [row for row in value if isinstance(row, dict)]
        for row in rows:
            _sort_lists(row)
        if name in _SORTED_BY and rows:
            item[name] = sorted(value, key=partial(_row_key, _SORTED_BY[name]))
        elif name in _SORTED:
            item[name] = sorted(value, key=json.dumps)


def _row_key(names: tuple[str, ...], row: Any) -> tuple[list[str], str]:
    fields = row if isinstance(row, dict) else {}
    return [str(fields.get(name, "")) for name in names], json.dumps(row)


def _parse(lines: Iterable[str | Line]) -> Iterator[Line]:
    for number, line in enumerate(lines, 1):
        if isinstance(line, str):
            if not line.strip():
                continue
            try:
                line = json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number}: no JSON: {error}") from None
            except RecursionError:
                raise ValueError(f"line {number}: nested too deeply") from None
        if not isinstance(line, dict) or not isinstance(line.get("at"), int):
            raise ValueError(f"line {number}: must be an object with at, not {line!r:.60}")
        if line.get("event") in _COMMENTS:
            continue
        if any(name in line for name in _NOT_COMPARED):
            line = {name: value for name, value in line.items() if name not in _NOT_COMPARED}
        yield line


def _streams(lines: Iterable[Line]) -> dict[Any, list[Line]]:
    """Split lines into ordered streams: one per response id, one per group."""
    out: dict[Any, list[Line]] = defaultdict(list)
    for line in lines:
        if line.get("event") == "response":
            out["response", line.get("id")].append(line)
        else:
            out["group", line.get("group_id")].append(line)
    return out


def _moments(lines: Iterable[str | Line]) -> dict[int, list[Line]]:
    out: dict[int, list[Line]] = defaultdict(list)
    for line in _parse(lines):
        out[line["at"]].append(line)
    return out


def _of_moment(at: int | None, expected: list[Line], actual: list[Line]) -> Iterator[Difference]:
    if expected == actual:  # the usual case; the rest is ten times as slow
        return
    actual_streams, expected_streams = _streams(actual), _streams(expected)
    for key in dict.fromkeys([*expected_streams, *actual_streams]):
        kind, name = key
        streams = expected_streams.get(key, ()), actual_streams.get(key, ())
        absent: Line = {}
        for number, (e, a) in enumerate(zip_longest(*streams, fillvalue=absent), 1):
            expected_line, actual_line = _normal(e), _normal(a)
            if expected_line == actual_line:
                continue
            line = e or a
            what = f"response to {line.get('op')} (id {name})"
            if kind == "group":
                what = f"group {name!r}, {line.get('event')} number {number} of this moment"
            yield Difference(at, what, expected_line or None, actual_line or None)
            break


def compare_traces(
    expected: Iterable[str | Line], actual: Iterable[str | Line]
) -> Iterator[Difference]:
    """Yield the differences of two outputs, in order of time; a line is text or a dict.

    Raises
    ------
    ValueError
        A line is not a line of an output.
    """
    expected_at, actual_at = _moments(expected), _moments(actual)
    for at in sorted({*expected_at, *actual_at}):
        yield from _of_moment(at, expected_at.get(at, []), actual_at.get(at, []))


def compare_responses(
    expected: Iterable[str | Line], actual: Iterable[str | Line]
) -> Iterator[Difference]:
    """Compare only responses, ignoring their times, which come from a broker's wall clock.

    Leader epochs and types of members are not compared if an old version of a response lacks them.
    """
    expected_by_id, actual_by_id = (
        {line["id"]: line for line in _parse(lines) if line.get("event") == "response"}
        for lines in (expected, actual)
    )
    for key in dict.fromkeys([*expected_by_id, *actual_by_id]):
        e, a = expected_by_id.get(key), actual_by_id.get(key)
        if e is not None and a is not None:
            a = _without_unknown_types(e, _without_unknown_epochs(e, a))
        pair = [[] if x is None else [{**x, "at": 0}] for x in (e, a)]
        for difference in _of_moment(None, *pair):
            at = (e or actual_by_id[key])["at"]
            yield Difference(at, difference.what, difference.expected, difference.actual)


def _without_unknown_epochs(expected: Line, actual: Line) -> Line:
    """Return a response without the leader epochs that the expected one lacks."""
    theirs, rows = expected.get("partitions"), actual.get("partitions")
    if actual.get("op") != "offset_fetch" or not isinstance(theirs, list) or theirs == rows:
        return actual
    without_epoch = [
        _place(row) for row in theirs if isinstance(row, dict) and "leader_epoch" not in row
    ]
    if not without_epoch or not isinstance(rows, list):
        return actual
    return actual | {
        "partitions": [
            {key: value for key, value in row.items() if key != "leader_epoch"}
            if isinstance(row, dict) and _place(row) in without_epoch
            else row
            for row in rows
        ]
    }


def _without_unknown_types(expected: Line, actual: Line) -> Line:
    """Return a description without the types of members if the expected one lacks them."""
    if actual.get("op") != "consumer_group_describe" or any(
        "member_type" in member for member in _members(expected)
    ):
        return actual
    actual = copy.deepcopy(actual)
    for member in _members(actual):
        member.pop("member_type", None)
    return actual


def _members(described: Line) -> Iterator[Line]:
    for group in described.get("groups") or ():
        yield from group.get("members") or ()


def _place(item: Line) -> tuple[Any, Any]:
    return item.get("topic"), item.get("partition")
