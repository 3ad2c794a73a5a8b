from collections.abc import Iterator
from typing import Any, final

def response_of(op: int, error: int, payload: Any) -> Any:
    """Return the response of an operation, as one of :mod:`coterie.values`."""

@final
class Outputs:
    """The outputs of a coordinator, in order: rows of 32 bytes, made into objects on request."""

    count: int
    def __len__(self) -> int: ...
    def clear(self) -> None:
        """Forget every row."""
    def events(self) -> list[Any]:
        """Return each row as an event of :mod:`coterie.events`."""
    def taken(self, with_events: bool) -> list[tuple[int, int | None, Any, Any]]:
        """Return the answers as (request's id, number of the error, payload, event).

        The error is None for a request that gets no response. ``with_events`` makes the events, and
        adds those of other rows, under the id -1.
        """
    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield each row as the dict of a trace's output line, if such a line exists.

        Unanswered requests have none, nor have members that were reconciled or fenced.
        """
