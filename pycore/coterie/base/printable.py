"""Text of peers for people: names, messages and metadata, without what would drive a terminal."""

from __future__ import annotations

import json


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
