"""What all protocols of a coordinator share: dispatch, timers, outputs, the log, stored offsets.

Components register the operations that they decide, by the type of the group. Each answer,
transition and appended record becomes a row of the outputs, in order. An append that does not
finish at once is settled later. It knows no rule of a group.
Source: GroupCoordinator.scala, GroupMetadataManager.scala (storeGroup, partitions).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, final

from coterie.errors import CoterieError
from coterie.events import Event

def response_of(op: int, error: int, payload: Any) -> Any:
    """Return the response of an operation, as one of :mod:`coterie.values`."""

@final
class Outputs:
    """The outputs of a coordinator, in order: rows of 32 bytes, made into objects on request."""

    count: int
    def __len__(self) -> int: ...
    def clear(self) -> None:
        """Forget every row."""
    def events(self) -> list[Event]:
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

class KafkaThrows(CoterieError):
    """Kafka's code throws here; as in Kafka, earlier changes are not undone."""

class UnreadableMetadata(KafkaThrows):
    """Kafka's code throws because a member's metadata cannot be read."""

@final
class AppendOp:
    """An append, and what to do when it finishes: nothing, unless a component derives its own.

    See :class:`coterie.PendingAppend`.
    """

    kind: str
    group_id: str
    records: tuple[tuple[bytes, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    transactional: bool
    done: bool
