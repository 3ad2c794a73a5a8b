"""The table of Kafka's messages, ``schemas.txt``: requests, records and the consumer protocol.

The head of the table describes its format. At import it is split into messages, which takes a
millisecond; the lines of a message become fields at its first use.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

OFFSETS_TOPIC = "__consumer_offsets"
LAST = 32767  # the last version of an open range: versions are int16
VersionRange = tuple[int, int]


class Section(NamedTuple):
    """A message of the table: its keys and versions, and the lines of each of its parts.

    ``topic`` is that of a record.
    """

    keys: VersionRange
    first: int
    last: int
    flexible: int
    parts: dict[str, list[str]]
    topic: str

    def fields(self, part: str) -> list[tuple[Any, ...]]:
        """Return the fields of a part. A record's key is the same for all versions of its value."""
        within = (0, LAST) if part == "key" else (self.first, self.last)
        return fields_of(self.parts[part], within)


def versions_of(text: str) -> VersionRange:
    """Return the first and the last version of ``3-5``, ``3+``, ``3`` or ``none``."""
    if text == "none":
        return 1, 0
    if text.endswith("+"):
        return int(text[:-1]), LAST
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def sections(text: str) -> dict[str, Section]:
    messages = {}
    for block in text.split("\n\n"):
        head, *lines = block.splitlines()
        if head.startswith("#"):
            continue
        name, keys, versions, flexible, *topic = head.split()
        parts: dict[str, list[str]] = {}
        for line in lines:
            if line[0] != " ":
                part = parts[line] = []
            else:
                part.append(line)
        since = LAST if flexible == "none" else versions_of(flexible)[0]
        named = topic[0] if topic else OFFSETS_TOPIC
        messages[name] = Section(versions_of(keys), *versions_of(versions), since, parts, named)
    return messages


def field_of_line(
    line: str, within: VersionRange
) -> tuple[str, str, int, int, int, int, int, str | None]:
    """Parse a line into name, type, versions, nullable versions, tag (-1: none) and default.

    ``within`` are the versions of the parent, which a field without versions has as well.
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
    """Parse the lines of a message: for each field ``field_of_line``, and its own fields."""
    top: list[tuple[Any, ...]] = []
    stack: list[tuple[list[tuple[Any, ...]], VersionRange]] = [(top, within)]
    for line in lines:
        depth = len(line) - len(line.lstrip())
        del stack[depth:]
        fields, span = stack[-1]
        field = field_of_line(line, span)
        children: list[tuple[Any, ...]] = []
        fields.append((*field, children))
        stack.append((children, (field[2], field[3])))
    return top


SECTIONS = sections(Path(__file__).with_name("schemas.txt").read_text("utf-8"))
