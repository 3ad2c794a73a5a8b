from typing import Any

def whole(value: Any, name: str) -> int:
    """Return a whole number of any size as an int.

    An integer of numpy is accepted; a float or a bool is an ArgumentError.
    """

def within(value: Any, name: str, least: int, most: int) -> int:
    """Return a whole number from ``least`` to ``most``."""

def text_of(value: Any, name: str) -> str:
    """Return a string, whatever its characters, as a ``str``."""
