"""Fields of a question's ``Parameters``: default, least value and help, each written once.

The command line makes its options from them (``coterie.cli.params.parameter_options``); a value
that is too small is refused, whoever asks.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

from coterie.errors import ArgumentError


def parameter(default: Any, text: str, *, option: str | None = None, least: int = 0) -> Any:
    """Return a field. ``text``: its help; ``option``: by default ``--`` and the field's name."""
    return field(default=default, metadata={"text": text, "option": option, "least": least})


def same(question: type[Any], name: str) -> Any:
    """Return the field of another question's ``Parameters``, for one that has it, too."""
    (own,) = (one for one in fields(question) if one.name == name)
    return field(default=own.default, metadata=own.metadata)


def check_bounds(parameters: Any) -> None:
    """Raise ArgumentError for a value below its least one."""
    for one in fields(parameters):
        value, least = getattr(parameters, one.name), one.metadata.get("least")
        if least is not None and value is not None and value < least:
            raise ArgumentError(f"{one.name} must be at least {least}, not {value}")
