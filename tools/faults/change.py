"""A fault as an edit of one file: where, by which operator, and what stands there afterwards."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

OPERATORS = {
    "comparison": "the opposite of a comparison or condition",
    "bound": "< for <=, > for >=, and the other way round",
    "off by one": "an integer, a range or the end of a slice is one more or less",
    "order": "min for max, no sorting, the last for the first, two statements swapped",
    "sign": "+ for -, no minus",
    "dropped call": "a statement that calls is gone, or a value is not converted",
    "dropped term": "one side of `and` or `or` is gone",
    "wrong field": "another field of the same class and type",
    "swapped arguments": "two neighbours among a call's arguments change places",
    "wrong default": "another default of a parameter, a field, an option or a look-up",
    "missing reset": "what is set to nothing, cleared or deleted stays",
    "wrong unit": "a time or a factor is 1,000 times too small or too large",
}


@dataclass(frozen=True)
class Change:
    """``new`` stands in place of ``text[start:end]``; offsets are characters.

    ``function`` is the innermost one around it, dotted from its class; "" is the module itself.
    ``turn`` tells apart the changes of one file that read the same.
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
        """What names the change without line numbers."""
        return (self.file, self.function, self.operator, self.was, self.becomes)

    @property
    def id(self) -> str:
        """Eight hex digits; the same as long as the lines and the function's name are."""
        said = "\0".join((*self.key, str(self.turn)))
        return hashlib.sha256(said.encode()).hexdigest()[:8]

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
        return [f"- {one}" for one in old] + [f"+ {one}" for one in new]


def _lines(change: Change, text: str) -> tuple[str, str]:
    """Return the whole lines that a change is in, before and after it."""
    first = text.rfind("\n", 0, change.start) + 1
    last = text.find("\n", change.end)
    last = len(text) if last < 0 else last
    return text[first:last], text[first : change.start] + change.new + text[change.end : last]


def named(changes: list[Change], text: str) -> list[Change]:
    """Give each change its lines before and after, in one space each, and its turn among equals."""
    turns: dict[tuple[str, ...], int] = {}
    found = []
    for change in sorted(set(changes), key=lambda one: (one.start, one.end, one.operator, one.new)):
        if text[change.start : change.end] == change.new:
            continue
        was, becomes = (" ".join(lines.split()) for lines in _lines(change, text))
        same = (change.function, change.operator, was, becomes)
        turn = turns[same] = turns.get(same, -1) + 1
        found.append(replace(change, was=was, becomes=becomes, turn=turn))
    return found
