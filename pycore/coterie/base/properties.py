"""Java's properties files, as ``java.util.Properties.load`` reads them from a stream.

Source: the documentation of ``java.util.Properties.load(Reader)``; Kafka reads its
``server.properties`` by it, in ISO 8859-1.
"""

from __future__ import annotations

import re

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u(?P<hex>[0-9a-fA-F]{4})|u|(?P<other>.)|$)", re.S)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class MalformedProperties(ValueError):
    r"""A ``\u`` that is not followed by four hexadecimal digits; ``line`` counts from 1."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}: \\u needs four hexadecimal digits")
        self.line = line


def read_properties(data: bytes) -> dict[str, tuple[str, int]]:
    """Return the value and the line number (from 1) of each key; the last line of a key counts.

    Raises
    ------
    MalformedProperties
        An escape is broken.
    """
    properties: dict[str, tuple[str, int]] = {}
    for line, number in _logical_lines(data.decode("latin-1")):
        key_end, value_start = _parts(line)
        try:
            key, value = _unescaped(line[:key_end]), _unescaped(line[value_start:])
        except ValueError:
            raise MalformedProperties(number) from None
        properties[key] = (value, number)
    return properties


def _logical_lines(text: str) -> list[tuple[str, int]]:
    """Join continued lines; leave out blank lines and comments, also after an empty beginning."""
    lines: list[tuple[str, int]] = []
    begun, first = "", 0
    naturals = _LINE_END.split(text)
    if not naturals[-1]:
        naturals.pop()  # behind the last line end
    for number, natural in enumerate(naturals, 1):
        stripped = natural.lstrip(_BLANKS)
        if not begun and (not stripped or stripped[0] in "#!"):
            continue
        first = first if begun else number
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2 and number < len(naturals):
            begun += stripped[:-1]
        else:
            lines.append((begun + stripped, first))
            begun = ""
    return [*lines, (begun, first)] if begun else lines  # a continuation that nothing follows


def _parts(line: str) -> tuple[int, int]:
    """Return where the key ends and where the value starts."""
    key_end, escaped = 0, False
    while key_end < len(line) and (escaped or line[key_end] not in f"=:{_BLANKS}"):
        escaped = line[key_end] == "\\" and not escaped
        key_end += 1
    start = _after_blanks(line, key_end)
    if start < len(line) and line[start] in "=:":
        start = _after_blanks(line, start + 1)
    return key_end, start


def _after_blanks(line: str, start: int) -> int:
    while start < len(line) and line[start] in _BLANKS:
        start += 1
    return start


def _unescaped(text: str) -> str:
    r"""Resolve escapes; ValueError for a ``\u`` that has no four digits."""

    def character(match: re.Match[str]) -> str:
        if match["hex"] is not None:
            return chr(int(match["hex"], 16))
        if match["other"] is None:
            if match[1] == "u":
                raise ValueError(text)
            return ""  # a backslash at the end
        return _LETTERS.get(match["other"], match["other"])

    plain = _ESCAPE.sub(character, text)
    # Java's characters are units of UTF-16: two surrogates are one character.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
