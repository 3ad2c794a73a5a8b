"""A fault as an edit of one file: its place, its operator and the new text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from operator import attrgetter

OPERATORS = {
    "comparison": "the opposite of a comparison or condition",
    "bound": "< for <=, > for >=, and the other way round",
    "off by one": "an integer, a range or the end of a slice is one more or less",
    "order": "min for max, no sorting, the last for the first, two statements swapped",
    "sign": "+ for -, no minus",
    "dropped call": "a call statement is missing, or a value is not converted",
    "dropped term": "one side of `and` or `or` is missing",
    "wrong field": "another field of the same class and type",
    "swapped arguments": "two neighbours among a call's arguments change places",
    "wrong default": "another default of a parameter, a field, an option or a look-up",
    "missing reset": "something is not reset, cleared or deleted",
    "wrong unit": "a time or a factor is 1,000 times too small or too large",
}


@dataclass(frozen=True)
class Change:
    """Replaces ``text[start:end]`` by ``new``; offsets are characters.

    ``function`` is the innermost enclosing one, dotted from its class; "" is the module itself.
    ``turn`` distinguishes changes of one file that read the same.
    """

    file: str
    function: str
    operator: str
    start: int
    end: int
    new: str
    was: str = ""
    becomes: str = ""
    turn: int = 0

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """The identity of the change, without line numbers."""
        return (self.file, self.function, self.operator, self.was, self.becomes)

    @property
    def id(self) -> str:
        """Eight hex digits, stable while the lines and the function's name do not change."""
        text = "\0".join((*self.key, str(self.turn)))
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def apply(self, text: str) -> str:
        """Return the file's text with the fault in it."""
        return text[: self.start] + self.new + text[self.end :]

    def line(self, text: str) -> int:
        """Return the number of the first line that differs, from 1."""
        return text.count("\n", 0, self.start) + 1

    def diff(self, text: str) -> list[str]:
        """Return the lines of the change, old ones with ``-`` and new ones with ``+``."""
        before, after = _lines(self, text)
        old, new = before.splitlines(), after.splitlines()
        return [f"- {line}" for line in old] + [f"+ {line}" for line in new]


def _lines(change: Change, text: str) -> tuple[str, str]:
    """Return the whole lines of a change, before and after it."""
    first = text.rfind("\n", 0, change.start) + 1
    last = text.find("\n", change.end)
    last = len(text) if last < 0 else last
    return text[first:last], text[first : change.start] + change.new + text[change.end : last]


def named(changes: list[Change], text: str) -> list[Change]:
    """Set each change's lines before and after, with single spaces, and its turn among equals."""
    turns: dict[tuple[str, ...], int] = {}
    complete = []
    order = attrgetter("start", "end", "operator", "new")
    for change in sorted(set(changes), key=order):
        if text[change.start : change.end] == change.new:
            continue
        was, becomes = (" ".join(lines.split()) for lines in _lines(change, text))
        same = (change.function, change.operator, was, becomes)
        turn = turns[same] = turns.get(same, -1) + 1
        complete.append(replace(change, was=was, becomes=becomes, turn=turn))
    return complete
