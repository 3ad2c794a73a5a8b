from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

from typing_extensions import Self

from coterie._core.coordinator.classic.group import GroupMetadata
from coterie._core.coordinator.outputs import Outputs
from coterie._core.coordinator.runtime import AppendOp
from coterie._core.coordinator.sink import CallerLog, DirectLog, MemoryLog
from coterie._core.coordinator.trace import Trace
from coterie._core.structures.offsets import OffsetMap

@final
class Coordinator:
    """The core of :class:`coterie.GroupCoordinator`: numbers, tuples and rows.

    One call at a time, also where ``member_ids`` is called: else a CoterieError.
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
        """Handle one request now, then what is due at once: whole, whatever signal comes."""
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
        """Handle one request as ``call`` does; its error and payload, if it alone was answered.

        The rows are dropped then. None: they are there, and say what happened.
        """
    def advance(self, now_ms: int) -> None:
        """Move the clock; fire what falls due."""
    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline of a timer; None without timers."""
    def set_image(self, brokers: Any, deleted: Any, topics: Any) -> None:
        """Set the metadata image that consumer groups are assigned by, before any load."""
    def complete(self, op: AppendOp, error: int, base_offset: int) -> None:
        """Let a deferred append come back; offset -1: the end of the log."""
    def import_log(self, batches: Iterable[tuple[Any, ...]]) -> None:
        """Put batches into the log and load all that it has."""
    def batches(self) -> list[tuple[Any, ...]]:
        """Return the rows of the log's batches."""
    @property
    def unsettled(self) -> bool:
        """Whether answers, or a failure of the caller's log, are left to be taken."""
    def take_failure(self) -> BaseException | None:
        """Return what the caller's log raised since the last call, or None."""
    def play(self, trace: Trace) -> Outputs:
        """Run every event of a trace, then what is due at the time of the last one.

        An event that cannot be run is a TraceError with its line.
        """
    def group(self, group_id: str) -> GroupMetadata | None:
        """Return the classic group with this id, or None."""
    def all_groups(self) -> list[GroupMetadata]:
        """Return every classic group."""
    def offsets_of(self, group_id: str) -> OffsetMap | None:
        """Return the offsets of a group of any type, or None if it has had no commits."""
    def take_outputs(self) -> Outputs:
        """Return the output rows since the last call."""
    def take_events(self, events: list[Any], fresh: deque[Any]) -> None:
        """Append what was done since the last call to both, or, interrupted, to neither."""
    def take_rows(self, with_events: bool) -> list[tuple[int, int | None, Any, Any]]:
        """Return what was answered since the last call; see ``Outputs.taken``."""
    def take_appends(self, fresh: deque[AppendOp]) -> None:
        """Append the deferred appends that were begun since the last call."""
    def timers_of(self, group: GroupMetadata) -> list[tuple[str, str | None, int]]:
        """Return (kind, member id or None, deadline) of each armed timer of a group."""
