from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, final

from coterie._core.coordinator.classic.group import GroupMetadata
from coterie._core.coordinator.offsets import Trace
from coterie._core.coordinator.runtime import AppendOp, CallerLog, DirectLog, MemoryLog, Outputs
from coterie._core.structures.offsets import OffsetMap
from coterie.events import Event

@final
class Coordinator:
    """The core of :class:`coterie.GroupCoordinator`: it takes tuples and returns rows.

    A call during another call raises a CoterieError, also a call from ``member_ids``.
    """

    outputs: Outputs
    sink: MemoryLog | CallerLog | DirectLog
    deferred: bool
    load_error: str | None
    session_evictions: int
    rebalance_evictions: int
    sync_evictions: int
    taken: int
    def __new__(
        cls,
        settings: Mapping[str, Any],
        now_ms: int = 0,
        member_ids: Callable[[str], str] | None = None,
        deferred: bool = False,
        sink: MemoryLog | CallerLog | DirectLog | None = None,
    ) -> Self: ...
    @property
    def now_ms(self) -> int:
        """The virtual time, in ms."""
    def availability_of(self, partition: int) -> str:
        """Whether a partition of the offsets topic is owned, resigned or loading."""
    @property
    def open_transactions(self) -> dict[int, list[str]]:
        """Groups with undecided offsets, by producer id."""
    def call(
        self,
        op: int,
        id: int,
        group_id: str | None,
        generation_id: int,
        member_id: str | None,
        instance: str | None,
        details: tuple[Any, ...] | None,
    ) -> None:
        """Handle one request, then the timers due now; a signal does not interrupt it."""
    def ask(
        self,
        op: int,
        id: int,
        group_id: str | None,
        generation_id: int,
        member_id: str | None,
        instance: str | None,
        details: tuple[Any, ...] | None,
    ) -> tuple[int, Any] | None:
        """Handle one request as ``call`` does; return its error and payload.

        None: it was not answered, or there were other outputs, too. The output rows then remain;
        otherwise they are dropped.
        """
    def advance(self, now_ms: int) -> None:
        """Move the clock and fire the due timers."""
    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline of a timer; None without timers."""
    def set_image(self, brokers: Any, deleted: Any, topics: Any) -> None:
        """Set the metadata image that consumer groups are assigned by, before any load."""
    def complete(self, op: AppendOp, error: int, base_offset: int) -> None:
        """Finish a deferred append; offset -1: the end of the log."""
    def import_log(self, batches: Iterable[tuple[Any, ...]]) -> None:
        """Append batches to the log, then load the whole log."""
    def batches(self) -> list[tuple[Any, ...]]:
        """Return the rows of the log's batches."""
    @property
    def unsettled(self) -> bool:
        """Whether there are untaken responses, or an untaken failure of the caller's log."""
    def take_failure(self) -> BaseException | None:
        """Return the exception that the caller's log raised since the last call, or None."""
    def play(self, trace: Trace) -> Outputs:
        """Run every event of a trace, then the timers due at the time of the last one.

        An event that cannot be run is a TraceError with its line.
        """
    def group(self, group_id: str) -> GroupMetadata | None:
        """Return the classic group with this id, or None."""
    def consumer_group(self, group_id: str) -> tuple[Any, ...] | None:
        """Return the row of a consumer group as ConsumerGroupDescribe has it, or None."""
    def group_type(self, group_id: str) -> str | None:
        """Return ``"classic"`` or ``"consumer"``; None: there is no such group."""
    def consumer_members(self, group_id: str) -> list[tuple[str, str | None, int]]:
        """Return id, instance id and epoch of each member of a consumer group, if it is one."""
    def all_groups(self) -> list[GroupMetadata]:
        """Return every classic group."""
    @property
    def group_count(self) -> int:
        """How many groups there are, of every type."""
    def offsets_of(self, group_id: str) -> OffsetMap | None:
        """Return the offsets of a group of any type, or None if it has had no commits."""
    def take_outputs(self) -> Outputs:
        """Return the output rows since the last call."""
    def take_events(self, events: list[Event], fresh: deque[Event]) -> None:
        """Append the events since the last call to both, or to neither if interrupted."""
    def take_rows(self, with_events: bool) -> list[tuple[int, int | None, Any, Any]]:
        """Return the responses since the last call; see ``Outputs.taken``."""
    def take_appends(self, fresh: deque[AppendOp]) -> None:
        """Append the deferred appends that were begun since the last call."""
    def timers_of(self, group_id: str) -> list[tuple[str, str | None, int]]:
        """Return (kind, member id or None, deadline) of each armed timer of a group of any type."""
