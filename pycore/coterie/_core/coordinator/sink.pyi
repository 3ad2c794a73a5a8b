from collections.abc import Callable, Iterable
from typing import Any, final

from typing_extensions import Self

@final
class MemoryLog:
    """A log in memory, ordered by offset."""

    end: int
    failure: BaseException | None

@final
class CallerLog:
    """A log of the caller's: what appends a batch, and what reads them all, as rows.

    What either raises fails the append, and is kept in ``failure``.
    """

    failure: BaseException | None
    def __new__(
        cls,
        write: Callable[[tuple[Any, ...]], int | None],
        rows: Callable[[], Iterable[tuple[Any, ...]]],
    ) -> Self: ...
