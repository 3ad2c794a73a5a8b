"""The error of one entry of a request, with Kafka's message."""

from __future__ import annotations

from coterie.values import Error


class EntryError(Exception):
    """Refuses one entry of a request; the other entries are not affected."""

    def __init__(self, error: Error, message: str | None) -> None:
        super().__init__(message)
        self.error, self.message = error, message
