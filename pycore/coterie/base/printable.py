"""Text of peers for people: names, messages and metadata, without what would drive a terminal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable


def printable(text: str) -> str:
    """Return text with unprintable characters escaped, line breaks included.

    They could move a terminal's cursor, change its title, or turn the direction of the text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable_json(text: str) -> str:
    """Return JSON with unprintable characters as escapes of JSON: its values stay the same."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def shell_words(words: Iterable[str]) -> str:
    """Return the words of a command as bash takes them: unprintable characters are octal bytes."""
    return " ".join(shlex.quote(word) if word.isprintable() else _octal(word) for word in words)


def _octal(word: str) -> str:
    def numbers(c: str) -> str:
        return "".join(f"\\{byte:03o}" for byte in c.encode(errors="surrogateescape"))

    text = "".join(c if c.isprintable() and c not in "'\\" else numbers(c) for c in word)
    return f"$'{text}'"
