"""The function that handles each API of the table. It is imported when it is first needed."""

from __future__ import annotations

import importlib

from coterie.server.api.call import Handler
from coterie.server.api.table import SERVED, Served

__all__ = ["handler_of", "served"]

_found: dict[int, Handler | None] = {}


def handler_of(key: int) -> Handler | None:
    """Return the function that answers an API; None where it is not served."""
    try:
        return _found[key]
    except KeyError:
        pass
    row = SERVED.get(key)
    found = None
    if row is not None:
        module, _, function = row.handler.partition(":")
        try:
            home = importlib.import_module(f"coterie.server.api.handlers.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"coterie.server.api.handlers.{module}":
                raise
        else:
            found = getattr(home, function, None)
        _found[key] = found
    return found


def served() -> list[Served]:
    """Return the rows that have a function, by key: what ApiVersions lists."""
    return [row for row in SERVED.values() if handler_of(row.key) is not None]
