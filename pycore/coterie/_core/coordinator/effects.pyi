from collections.abc import Iterator
from typing import Any, final

OPS: dict[str, int]

@final
class Effects:
    """What a coordinator did, in order: rows of 32 bytes, made objects when asked for."""

    count: int
    def __len__(self) -> int: ...
    def clear(self) -> None:
        """Forget every row."""
    def events(self) -> list[Any]:
        """Return each row as an event of :mod:`coterie.events`."""
    def answers(self) -> list[Any]:
        """Return the events that answer a request, or say that it gets no answer."""
    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield each row as the dict of a trace's output line, unanswered requests left out."""
