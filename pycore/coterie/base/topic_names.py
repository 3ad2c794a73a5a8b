"""Which names a topic can have."""

from __future__ import annotations

import re

_LONGEST = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]*")


def name_refusal(name: str) -> str | None:
    """Return Kafka's reason to refuse a topic name; None if the name is valid."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _LONGEST:
        return f"the length of '{name}' is longer than the max allowed length {_LONGEST}"
    if _NAME.fullmatch(name) is None:
        return (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None
