"""Text of peers for people: names, messages and metadata, without what would drive a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return text with unprintable characters escaped, line breaks included.

    They could move a terminal's cursor, change its title, or turn the direction of the text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
