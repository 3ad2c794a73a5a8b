"""The handler of each API of the table, imported on first use."""

from __future__ import annotations

import importlib

from coterie.server.api.call import Handler
from coterie.server.api.table import SERVED_BY, Served

_ROWS = {key: row for rows in SERVED_BY.values() for key, row in rows.items()}
_handlers: dict[int, Handler | None] = {}


def handler_of(key: int) -> Handler | None:
    """Return the handler of an API; None if the API is not served."""
    try:
        return _handlers[key]
    except KeyError:
        pass
    row = _ROWS.get(key)
    handler = None
    if row is not None:
        module_name, _, function = row.handler.partition(":")
        try:
            module = importlib.import_module(f"coterie.server.api.{module_name}")
        except ModuleNotFoundError as error:
            if error.name != f"coterie.server.api.{module_name}":
                raise
        else:
            handler = getattr(module, function, None)
        _handlers[key] = handler
    return handler


def served(release: str) -> list[Served]:
    """Return the rows of a release that have a handler, by key; ApiVersions lists them."""
    return [row for row in SERVED_BY[release].values() if handler_of(row.key) is not None]
