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
    """A log of the caller's: a function that appends a batch, and one that reads all batches.

    An exception of either fails the append, and is stored in ``failure``.
    """

    failure: BaseException | None
    def __new__(
        cls,
        write: Callable[[tuple[Any, ...]], int | None],
        rows: Callable[[], Iterable[tuple[Any, ...]]],
    ) -> Self: ...

@final
class DirectLog:
    """A log that takes the bytes of a batch and has written them when ``write`` returns.

    ``write(group_id, records, count, producer_id, producer_epoch, transactional, control)`` returns
    the offset of the first record; ``records`` as ``encode_sized`` takes them. Markers of
    transactions (``control``) are of no group. ``rows`` reads all batches, as rows.

    An exception of either fails the append, and is stored in ``failure``.
    """

    failure: BaseException | None
    def __new__(
        cls,
        write: Callable[[str | None, bytes, int, int, int, bool, bool], int],
        rows: Callable[[], Iterable[tuple[Any, ...]]],
    ) -> Self: ...
