"""Partial states of a log: scan a piece, merge pieces, read the groups out.

The work is in ``coterie._core.fold``; here partitions are kept apart, and what it holds becomes
rows (``coterie.state.rows``) or Arrow tables (``coterie.state.tables``).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie._core.fold.dump import dump, restore
from coterie._core.fold.fold import PartitionFold
from coterie._core.fold.fold_state import ON_FAULT
from coterie._core.fold.merge import absorb
from coterie.arguments import integer, sequence, string, walked, within
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.ordering import java_order, partition_order
from coterie.state.pickling import pack, unpack

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

WHAT = "partial state"


class Tracking(NamedTuple):
    """Which records a scan tracks; see ``coterie._core.fold.partial.tracks``. Times are epoch ms.

    Attributes
    ----------
    since_ms : int or None
        Commits count from then on, and those without a time; None: all do.
    until_ms : int or None
        Records whose own timestamp is later have no part; None: all have.
    """

    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True)
class ScanOptions:
    """What a scan does with faults, and what it keeps; partial states merge only if these agree.

    Attributes
    ----------
    on_fault : str
        ``skip``, ``recover``, ``load`` or ``stop``: see ``coterie replay --help``.
    at_ms : int or None
        Apply only records whose own timestamp (ms) is not after this, and those without one;
        None: all.
    groups : frozenset of str or None
        Keep only these groups; None: all.
    history : bool
        Keep every commit, not only the last of each key.
    tracking : Tracking or None
        Count the commits of each key and keep which came last; None: do not.
    """

    on_fault: str = "skip"
    at_ms: int | None = None
    groups: frozenset[str] | None = None
    history: bool = False
    tracking: Tracking | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.on_fault, str) or self.on_fault not in ON_FAULT:
            names = ", ".join(ON_FAULT)
            raise ArgumentError(f"on_fault must be one of {names}, not {shown(self.on_fault)}")
        if self.at_ms is not None:
            integer(self.at_ms, "at_ms", 64)
        if not isinstance(self.history, bool):
            raise ArgumentError(f"history must be true or false, not {shown(self.history)}")
        if self.tracking is not None:
            if not isinstance(self.tracking, Tracking):
                raise ArgumentError(f"tracking must be a Tracking, not {shown(self.tracking)}")
            for name, ms in self.tracking._asdict().items():
                if ms is not None:
                    integer(ms, name, 64)
        if self.groups is not None:
            names_given = _group_ids(self.groups, "groups")
            object.__setattr__(self, "groups", names_given)

    def new_fold(self, *, survey: bool = False) -> PartitionFold:
        """Return the empty fold that these options ask for; ``survey``: see the fold."""
        return PartitionFold(
            on_fault=self.on_fault,
            at_ms=self.at_ms,
            only=self.groups,
            history=self.history,
            tracking=self.tracking,
            survey=survey is True,
        )


@dataclass
class PartialState:
    """What a piece of a log says, in a form that can be merged: see :func:`merge`.

    Any number of threads may read it or merge it into others; one at a time may change it.

    Attributes
    ----------
    options : ScanOptions
        How it was scanned.
    partitions : dict
        One fold for each partition of the topic; None where the partition is not known.
    """

    options: ScanOptions = field(default_factory=ScanOptions)
    partitions: dict[int | None, PartitionFold] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.options, ScanOptions):
            raise ArgumentError(f"options must be coterie.ScanOptions, not {shown(self.options)}")
        if not isinstance(self.partitions, dict):
            raise ArgumentError(f"partitions must be a dict, not {shown(self.partitions)}")
        self._folds()

    def fold(self, partition: int | None) -> PartitionFold:
        """Return the fold of a partition; the first call makes it."""
        number = _partition(partition)
        if number not in self.partitions:
            self.partitions[number] = self.options.new_fold()
        return _fold(self.partitions[number])

    def absorb(self, later: PartialState) -> None:
        """Merge ``later``, scanned from what comes next in the log, into this state.

        Raises
        ------
        CoterieError
            The two were scanned with different options, are the same object, or are in use by
            another thread.
        """
        if not isinstance(later, PartialState):
            raise ArgumentError(f"later must be a coterie.PartialState, not {shown(later)}")
        if later.options != self.options:
            raise CoterieError("partial states scanned with different options do not merge")
        if later is self:
            raise ArgumentError("a partial state does not follow on itself")
        for partition, theirs in later._folds():
            absorb(self.fold(partition), theirs)

    def to_bytes(self) -> bytes:
        """Serialize, for another process of the same version."""
        return pack(WHAT, self)

    @staticmethod
    def from_bytes(data: Buffer) -> PartialState:
        """Return what :meth:`to_bytes` was called on, in a process of the same version.

        Raises
        ------
        CoterieError
            The bytes are no partial state, or another version made them.
        """
        state = unpack(WHAT, data)
        if not isinstance(state, PartialState):
            raise CoterieError(f"not a {WHAT} but a {type(state).__name__}")
        return state

    def __getstate__(self) -> dict[str, Any]:
        return {
            "options": self.options,
            "folds": {number: dump(fold) for number, fold in self._folds()},
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.options = state["options"]
        self.partitions = {}
        for number, dumped in state["folds"].items():
            restore(self.fold(number), dumped)

    def groups(self, *, offsets_of: Container[str] | None = None) -> list[dict[str, Any]]:
        """Return every group, sorted by id, in the schema of ``groups.json`` (bytes stay bytes).

        A group is there if it has metadata, an offset or a pending transactional offset. A
        partition that Kafka's loader refuses (``on_fault="load"``) has no groups. Most of the
        result are offsets: ``offsets_of`` keeps only those of some groups.
        """
        from coterie.state.consumer_protocol_groups import name_topics
        from coterie.state.rows import group_rows

        if isinstance(offsets_of, Iterable) and not isinstance(offsets_of, Mapping):
            offsets_of = _group_ids(offsets_of, "offsets_of")
        if offsets_of is not None and not isinstance(offsets_of, Container):
            raise ArgumentError(f"offsets_of must hold group ids, not {shown(offsets_of)}")
        rows = [row for number, fold in self.live() for row in group_rows(number, fold, offsets_of)]
        name_topics(rows)
        return sorted(rows, key=lambda row: java_order(row["group_id"]))

    def to_arrow(self) -> dict[str, pa.Table]:
        """Return the tables of ``coterie replay``, by name. Needs the extra ``arrow``."""
        from coterie.state.tables import state_tables

        return state_tables(dict(self._folds()), history=self.options.history)

    def live(self) -> list[tuple[int | None, PartitionFold]]:
        """Return the partitions that count, in order of their number."""
        return [(number, fold) for number, fold in self._folds() if not fold.failed]

    def numbers(self) -> list[int | None]:
        """Return the partitions' numbers in order, the unknown one first."""
        return [number for number, _ in self._folds()]

    def _folds(self) -> list[tuple[int | None, PartitionFold]]:
        """Return the partitions in order; a caller may have written to them."""
        held = [(_partition(number), _fold(fold)) for number, fold in self.partitions.items()]
        return sorted(held, key=lambda one: partition_order(one[0]))


def _group_ids(values: Any, name: str) -> frozenset[str]:
    return frozenset(string(value, f"each of {name}") for value in sequence(values, name))


def _partition(value: Any) -> int | None:
    return None if value is None else within(value, "partition", 0, 2**31 - 1)


def _fold(value: Any) -> PartitionFold:
    if not isinstance(value, PartitionFold):
        raise ArgumentError(f"partitions must hold what scans made, not {shown(value)}")
    return value


def scan(
    data: Buffer,
    *,
    partition: int | None = None,
    file: str = "",
    position: int = 0,
    options: ScanOptions | None = None,
) -> PartialState:
    """Scan whole batches of one partition's log into a partial state.

    Parameters
    ----------
    data
        Bytes of a segment, from a batch boundary to another, or to the end of the segment.
    partition
        Number of the partition of ``__consumer_offsets``; None: not known.
    file, position
        Where the bytes come from; used only to say where faults are.
    options
        How to scan; by default everything, with faults skipped.

    Notes
    -----
    Memory grows with the keys. Cost: each byte is looked at twice, a commit takes no Python
    object. Source of the rules: GroupMetadataManager.doLoadGroupsAndOffsets.

    Raises
    ------
    ArgumentError
        ``data`` is not a contiguous buffer of bytes, or another argument is wrong.
    """
    state = PartialState(ScanOptions() if options is None else options)
    state.fold(partition).scan(data, file=file, position=position)
    return state


def merge(partials: Iterable[PartialState]) -> PartialState:
    """Merge partial states, given in log order within each partition, into one.

    The result equals one scan over all the pieces. The given states are left as they are.

    Raises
    ------
    CoterieError
        Something is not a partial state, or they were scanned with different options.
    """
    merged: PartialState | None = None
    for state in walked(partials, "partials"):
        if not isinstance(state, PartialState):
            raise ArgumentError(f"partials must hold coterie.PartialState, not {shown(state)}")
        if merged is None:
            merged = PartialState(state.options)
        merged.absorb(state)
    return merged if merged is not None else PartialState()
