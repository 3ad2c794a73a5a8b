"""Requests and responses as a request log has them, by the table of messages.

Kafka's JSON converters write each field that a version has, but a tagged one at its default, and
none that it lacks. ``schemas.txt`` says which those are, and what is so where one is left out.
Read leniently, as a log may be of an older or a newer broker: values are not checked, a field that
the table does not know stays as it is, and a version that it lacks is read as the nearest one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from coterie.schemas import SECTIONS

__all__ = ["Logged", "as_logged"]

_FORMER = {"generationIdOrMemberEpoch": "generationId"}  # as brokers before 3.5 wrote it
_EMPTY: dict[str, Any] = {"string": "", "bytes": "", "records": "", "bool": False, "struct": None}


class Logged(dict[str, Any]):
    """What was logged, by Kafka's names; ``get`` and ``in`` say what stood there.

    ``[name]`` of a field that was not logged is the table's default: where the version lacks the
    field, or the table states one, or the field is tagged. Else it is a KeyError: Kafka would have
    written it.
    """

    __slots__ = ("_fields", "version")

    def __init__(self, given: dict[str, Any], fields: dict[str, tuple[Any, ...]], version: int):
        super().__init__(given)
        self._fields, self.version = fields, version
        for name, field in fields.items():
            former = _FORMER.get(name)
            if former in given and name not in given:
                self[name] = given[former]
            elif field[8] and name in given:
                self[name] = _below(given[name], field, version)

    def has(self, name: str) -> bool:
        """Whether the version has a field."""
        _, _, first, last, *_ = self._fields[name]
        return bool(first <= self.version <= last)

    def optional(self, name: str) -> Any:
        """Return what was logged, or the table's default, though Kafka would have written it."""
        return self[name] if name in self else self._default(name)

    def __missing__(self, name: str) -> Any:
        if name not in self._fields:
            raise KeyError(name)
        *_, tag, default, _ = self._fields[name]
        if self.has(name) and default is None and tag < 0:
            raise KeyError(name)
        return self._default(name)

    def _default(self, name: str) -> Any:
        _, kind, *_, default, _ = self._fields[name]
        if default is None:
            return [] if kind.startswith("[]") else _EMPTY.get(kind, 0)
        if default == "null":
            return None
        if kind == "string":
            return default
        return default == "true" if kind == "bool" else int(default)


def as_logged(api: str, direction: str, version: int, given: Any) -> Any:
    """Return a request or response as the table reads it; what has another shape, as it is.

    Parameters
    ----------
    api
        As a request log names it: ``OFFSET_COMMIT``.
    direction
        ``"request"`` or ``"response"``.
    """
    found = _fields(api, direction)
    if found is None or type(given) is not dict:
        return given
    fields, first, last = found
    return Logged(given, fields, min(max(version, first), last))


@cache
def _fields(api: str, direction: str) -> tuple[dict[str, tuple[Any, ...]], int, int] | None:
    section = SECTIONS.get(api.title().replace("_", ""))
    if section is None:
        return None
    return _by_name(section.fields(direction)), section.first, section.last


def _by_name(fields: Iterable[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Return fields by name, those of a struct in the place of its list of them."""
    return {field[0]: (*field[:8], _by_name(field[8]) if field[8] else None) for field in fields}


def _below(value: Any, field: tuple[Any, ...], version: int) -> Any:
    if type(value) is dict:
        return Logged(value, field[8], version)
    if type(value) is list:
        return [_below(each, field, version) for each in value]
    return value
