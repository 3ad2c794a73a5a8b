"""Requests and responses of a request log, with defaults from the table of messages.

Kafka's JSON converters write every field of a version, except tagged fields at their default.
``schemas.txt`` has the fields of each version and their defaults. Reading is lenient, because a log
may be of an older or a newer broker: unknown fields stay, and an unknown version is read as the
nearest known one. A value of another type is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from coterie.base.schemas import SECTIONS

# Kafka 3.5 renamed the field of OffsetCommit, 4.4 that of TxnOffsetCommit, in all versions.
_OTHER_NAME = {
    "generationIdOrMemberEpoch": "generationId",
    "generationId": "generationIdOrMemberEpoch",
}
_EMPTY: dict[str, Any] = {"string": "", "bytes": "", "records": "", "bool": False, "struct": None}
_FORMS: tuple[tuple[tuple[str, ...], tuple[type, ...], str], ...] = (
    (("int", "uint"), (int,), "a number"),  # followed by their bits
    (("bool",), (bool,), "true or false"),
    (("string", "uuid"), (str,), "text"),
    (("bytes",), (str,), "bytes in base64"),
    (("struct",), (dict,), "an object"),
)


class Logged(dict[str, Any]):
    """A logged struct by Kafka's field names; ``get`` and ``in`` see only logged fields.

    ``[name]`` of a field that was not logged gives the table's default if the version lacks the
    field, the table states a default, or the field is tagged. Otherwise it raises KeyError, because
    Kafka would have logged the field.
    """

    __slots__ = ("_fields", "version")

    def __init__(self, entry: dict[str, Any], fields: dict[str, tuple[Any, ...]], version: int):
        super().__init__(entry)
        self._fields, self.version = fields, version
        for name, field in fields.items():
            other = _OTHER_NAME.get(name)
            if other in entry and name not in entry and self.has(name):
                self[name] = entry[other]
            elif name in entry:
                self[name] = _nested(name, entry[name], field, version)

    def has(self, name: str) -> bool:
        """Whether the version has a field."""
        _, _, first, last, *_ = self._fields[name]
        return bool(first <= self.version <= last)

    def optional(self, name: str) -> Any:
        """Return a field, or the table's default even if Kafka would have logged the field."""
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


def as_logged(api: str, direction: str, version: int, entry: Any) -> Any:
    """Wrap a request or response of a log; anything but a dict of a known API stays as it is.

    Parameters
    ----------
    api
        The name in a request log, such as ``OFFSET_COMMIT``.
    direction
        ``"request"`` or ``"response"``.
    """
    section = _fields(api, direction)
    if section is None or type(entry) is not dict:
        return entry
    fields, first, last = section
    return Logged(entry, fields, min(max(version, first), last))


@cache
def _fields(api: str, direction: str) -> tuple[dict[str, tuple[Any, ...]], int, int] | None:
    section = SECTIONS.get(api.title().replace("_", ""))
    if section is None:
        return None
    return _by_name(section.fields(direction)), section.first, section.last


def _by_name(fields: Iterable[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Return fields by name; the fields of nested structs are by name, too."""
    return {field[0]: (*field[:8], _by_name(field[8]) if field[8] else None) for field in fields}


def _nested(name: str, value: Any, field: tuple[Any, ...], version: int) -> Any:
    kind: str = field[1]
    if value is None and field[4] <= field[5]:  # in some version: brokers are lenient
        return None
    if kind.startswith("[]"):
        if type(value) is not list:
            raise TypeError(f"{name} is a list, not {value!r:.80}")
        item_field = (name, kind[2:], *field[2:4], 1, 0, *field[6:])
        return [_nested(name, item, item_field, version) for item in value]
    for kinds, types, form in _FORMS:
        if kind.startswith(kinds) and type(value) not in types:
            raise TypeError(f"{name} is {form}, not {value!r:.80}")
    return Logged(value, field[8], version) if field[8] else value
