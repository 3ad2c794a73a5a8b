"""Requests in the form of the core: the fields are checked and become a flat tuple.

``coterie.base.operations`` has the fields of each operation. An error names the operation and the
field, and says what the value must be. The caller adds the place (the line of a trace).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.base.arguments import did_you_mean
from coterie.base.operations import ALONE, DETAILS, NOWHERE, OPERATIONS
from coterie.coordinator import consumer_fields, fields
from coterie.coordinator.fields import Fields
from coterie.errors import ArgumentError, shown

OPS = dict.fromkeys(op for op, each in OPERATIONS.items() if each.traced)  # of traces, in order

# group id, generation, member id, instance id, details
Compiled = tuple[str | None, int, str | None, str | None, tuple[Any, ...] | None]
KINDS = fields.KINDS | consumer_fields.KINDS
_NO_MEMBER = (None, -1, None, None)
_NAMES = {op: [field.name for field in each.fields] for op, each in OPERATIONS.items()}
_READ = {  # of each field: name, reader, place in the tuple, default
    op: [(name, KINDS[kind].read, place, default) for name, kind, place, default in each.fields]
    for op, each in OPERATIONS.items()
}
_BLANK = {op: each.blank for op, each in OPERATIONS.items()}


def compile_request(op: Any, fields: Fields) -> Compiled:
    """Check a request in the form of a trace event, and return it in the form of the core."""
    if not isinstance(op, str) or op not in OPS:
        known = did_you_mean(op, OPS) or f"; the ops are {', '.join(OPS)}"
        raise ArgumentError(f"{shown(op)} is no op{known}")
    return _compiled(op, fields)


def compile_values(op: str, values: tuple[Any, ...]) -> Compiled:
    """Check the values of all fields of an operation, in the order of its table."""
    fields = dict(zip(_NAMES[op], values, strict=True))
    refuse_sugar(fields)
    return _compiled(op, fields)


def _compiled(op: str, fields: Fields) -> Compiled:
    blank = _BLANK[op]
    row: list[Any] = [*_NO_MEMBER, *blank]
    details = None
    try:
        for name, read, place, default in _READ[op]:
            value = read(fields, name, default)
            if place >= 0:
                row[place] = value
            elif place == ALONE:
                details = value
    except ArgumentError as error:
        raise ArgumentError(f"{op}: {error}") from None
    if blank:
        details = tuple(row[DETAILS:])
    return row[0], row[1], row[2], row[3], details


def show_request(op: str, compiled: Compiled) -> dict[str, Any]:
    """Return the fields of a compiled request, in the form of a trace event."""
    *head, details = compiled
    blank = _BLANK[op]
    given = details or ()  # a server leaves out the last ones, which have their defaults
    row = [*head, *given, *blank[len(given) :]] if blank else head
    event: dict[str, Any] = {}
    for name, kind, place, _ in OPERATIONS[op].fields:
        if place != NOWHERE:
            event |= KINDS[kind].show(name, details if place == ALONE else row[place])
    return event


def arguments_of(request: Any) -> tuple[str, dict[str, Any]]:
    """Return the op of a trace event, and the keyword arguments of its method."""
    if not isinstance(request, Mapping):
        raise ArgumentError(f"request must be a mapping with an op, not {shown(request)}")
    op = request.get("op")
    if not isinstance(op, str) or op not in OPS:
        known = did_you_mean(op, OPS) or f"; the ops are {', '.join(OPS)}"
        raise ArgumentError(f"op {shown(op)} is none{known}")
    if op != "advance":  # it has no member
        refuse_sugar(request)
    return op, {name: request[name] for name in _NAMES[op] if request.get(name) is not None}


def has_sugar(fields: Fields) -> bool:
    """Whether some member id is a reference to an earlier answer (``member_id_of``)."""
    if "member_id_of" in fields:
        return True
    for name in ("assignments", "members"):
        value = fields.get(name)
        if isinstance(value, list | tuple) and any(
            isinstance(item, Mapping) and "member_id_of" in item for item in value
        ):
            return True
    return False


def refuse_sugar(fields: Fields) -> None:
    """Refuse a reference to an earlier answer, which only a trace has."""
    if has_sugar(fields):
        raise ArgumentError(
            "member_id_of stands in traces alone: give the member_id that the answer named"
        )
