from collections.abc import Callable
from typing import Any, final

from typing_extensions import Self, disjoint_base

@disjoint_base
class LogEnds:
    """The offsets of a partition's log: those of a rate, with appended ones between them.

    Attributes
    ----------
    log_start_offset : int
        The first offset that has not been deleted.
    """

    log_start_offset: int
    _phase: Any
    _stopped: int
    def __new__(cls, topic: str, partition: int) -> Self: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def _offsets(self) -> list[int]: ...
    @property
    def _appended(self) -> list[Any]: ...
    @property
    def _open(self) -> dict[int, int]: ...
    def end_offset(self, at_ms: int) -> int:
        """Return the next offset at a time, which must be now or within the present phase."""
    def last_stable_offset(self, at_ms: int) -> int:
        """Return the end of what ``read_committed`` may read."""
    def next_record_ms(self, at_ms: int) -> int | None:
        """Return when the rate gives the next record after a time; None: it gives none."""

@final
class PartitionState:
    """Where a consumer is in a partition.

    Attributes
    ----------
    position : int or None
        The offset that it reads next; None: not known yet.
    reset : str or None
        ``"earliest"`` or ``"latest"``: its position is being looked up.
    paused, pending_revocation : bool
        Whether the application has paused it; whether it will be revoked.
    pending_assigned : bool
        Whether ``on_partitions_assigned`` has yet to be called with it (consumer protocol).
    retry_ms : int
        No look-up is sent before this time.
    """

    position: int | None
    reset: str | None
    retry_ms: int
    paused: bool
    pending_revocation: bool
    pending_assigned: bool
    @property
    def valid(self) -> bool:
        """Whether it has a position."""
    def seek(self, position: int) -> None:
        """Go on from an offset."""

@disjoint_base
class AssignedPartitions:
    """The partitions of a consumer, in the order in which it reads them.

    Attributes
    ----------
    assigned : dict
        The state of each partition.
    """

    assigned: dict[Any, PartitionState]
    def __new__(cls, *_: Any) -> Self: ...
    @property
    def all_valid(self) -> bool:
        """Whether each partition has a position."""
    def positions(self, made: Callable[[int], Any] | None = None) -> dict[Any, Any]:
        """Return the positions of all partitions that have one, as they are or made of them."""
    def beyond_positions(
        self, topics: dict[str, Any], sees_ms: int, committed: bool
    ) -> list[tuple[Any, Any, Any, int]]:
        """Return the fetchable partitions that are not at their ends, in the order of reading.

        Each with its state, its log and the end of that, at the time ``sees_ms``. A partition that
        does not exist has neither: None and -1. A position may also be before the log, or after
        its end. ``committed``: up to the last stable offset. ``topics``: each has the ``logs`` of
        its partitions.
        """
    def next_record_ms(self, topics: dict[str, Any], sees_ms: int) -> int | None:
        """Return when a rate gives the next record of a fetchable partition; None: none does."""
    def to_end(self, partition: Any) -> None:
        """Read a partition after all others."""

def earliest(*times_ms: int | None) -> int | None:
    """Return the earliest time; None: never."""
