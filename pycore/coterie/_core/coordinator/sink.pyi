from collections.abc import Callable, Iterable
from typing import Any

from typing_extensions import Self

class Sink:
    """What a coordinator needs of a log: see :class:`coterie.coordinator.sink.LogSink`."""

    failure: Exception | None

class MemoryLog(Sink):
    """A log in memory, ordered by offset."""

    batches: list[tuple[int, int, int, bool, bool, tuple[tuple[bytes | None, bytes | None], ...]]]
    end: int

class CallerLog(Sink):
    """A log of the caller's: what appends a batch, and what reads them all, as rows."""

    def __new__(
        cls,
        write: Callable[[tuple[Any, ...]], int | None],
        rows: Callable[[], Iterable[tuple[Any, ...]]],
    ) -> Self: ...
