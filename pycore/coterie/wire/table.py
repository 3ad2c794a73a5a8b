"""The table of Kafka's messages: read from ``messages.txt``, an API's fields at their first use.

The form of its lines stands at its head. Reading it splits it into APIs, which takes under a
millisecond; the lines of an API become fields when a message of it is first met.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["LAST", "Api", "Section", "field_of_line", "fields_of", "sections", "versions_of"]

LAST = 32767  # the end of a span that has none: versions are int16
_DIRECTIONS = ("request", "response")
VersionRange = tuple[int, int]


class Api(NamedTuple):
    """One of Kafka's APIs: its name and key, and the versions that the table has of it.

    ``flexible_version`` is the first whose messages have tagged fields and compact lengths.
    """

    key: int
    name: str
    first_version: int
    last_version: int
    flexible_version: int


class Section(NamedTuple):
    """The lines of an API in the table."""

    key: int
    first: int
    last: int
    flexible: int
    lines: dict[str, list[str]]


def versions_of(text: str) -> VersionRange:
    """Return the first and the last version of ``3-5``, ``3+``, ``3`` or ``none``."""
    if text == "none":
        return 1, 0
    if text.endswith("+"):
        return int(text[:-1]), LAST
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def sections(text: str) -> dict[str, Section]:
    """Return the APIs of the table by name."""
    found = {}
    for part in text.split("\n\n"):
        lines = part.splitlines()
        if not lines or lines[0].startswith("#"):
            continue
        name, key, versions, flexible = lines[0].split()
        middle = lines.index("response")
        both = dict(zip(_DIRECTIONS, (lines[2:middle], lines[middle + 1 :]), strict=True))
        first, last = versions_of(versions)
        since = LAST if flexible == "none" else versions_of(flexible)[0]
        found[name] = Section(int(key), first, last, since, both)
    return found


def field_of_line(
    line: str, within: VersionRange
) -> tuple[str, str, int, int, int, int, int, str | None]:
    """Return name, type, versions, nullable versions, tag (-1: none) and default of a field.

    ``within`` are the versions of what holds it, which the field has if its line names none.
    """
    name, kind, *rest = line.split()
    kind, may_be_null, null = kind.partition("?")
    versions, tag, default = "", -1, None
    for word in rest:
        if word[0] == "#":
            tag = int(word[1:])
        elif word[0] == "=":
            default = word[1:]
        else:
            versions = word
    first, last = _within(versions, within)
    null_first, null_last = _within(null, (first, last)) if may_be_null else (1, 0)
    return name, kind, first, last, null_first, null_last, tag, default


def _within(text: str, within: VersionRange) -> VersionRange:
    if not text:
        return within
    first, last = versions_of(text)
    return first, min(last, within[1])


def fields_of(lines: Iterable[str], within: VersionRange) -> list[tuple[Any, ...]]:
    """Return the fields of a message: each as ``field_of_line`` has it, and those below it."""
    found: list[tuple[Any, ...]] = []
    stack: list[tuple[list[tuple[Any, ...]], VersionRange]] = [(found, within)]
    for line in lines:
        depth = len(line) - len(line.lstrip())
        del stack[depth:]
        fields, span = stack[-1]
        field = field_of_line(line, span)
        below: list[tuple[Any, ...]] = []
        fields.append((*field, below))
        stack.append((below, (field[2], field[3])))
    return found
