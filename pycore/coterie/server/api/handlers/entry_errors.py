"""What is wrong with one entry of a request: its error, and Kafka's message."""

from __future__ import annotations

from coterie.values import Error

__all__ = ["Wrong"]


class Wrong(Exception):
    """An entry is refused; the others of its request are not."""

    def __init__(self, error: Error, message: str | None) -> None:
        super().__init__(message)
        self.error, self.message = error, message
