"""Partial states of a log: scan a piece, merge pieces, get the groups.

A partial state has a fold (``coterie._core.fold``) per partition. ``coterie.state.rows`` and
``coterie.state.tables`` make rows and Arrow tables of it.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie._core.fold.fold import PartitionFold, absorb, dump, restore
from coterie._core.fold.fold_state import ON_FAULT
from coterie.base.arguments import integer, sequence, string, walked, within
from coterie.base.ordering import java_order, partition_order
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.log.mapped import intact
from coterie.state import several_partitions
from coterie.state.pickling import pack, unpack

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

WHAT = "partial state"


class Tracking(NamedTuple):
    """The time range in which a scan counts commits; see ``coterie._core.fold.fold.tracks``.

    Attributes
    ----------
    since_ms : int or None
        Epoch ms: earlier commits do not count, those without a time do; None: all count.
    until_ms : int or None
        Epoch ms: records with a later timestamp are ignored; None: none are.
    since_offset : int or None
        A log offset: commits from there on count, whatever their times; None: their times decide.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    since_offset: int | None = None


@dataclass(frozen=True)
class ScanOptions:
    """The options of a scan. Partial states merge only if their options are equal.

    Attributes
    ----------
    on_fault : str
        ``skip``, ``recover``, ``load`` or ``stop``: see ``coterie replay --help``.
    at_ms : int or None
        Epoch ms: ignore records with a later timestamp; None: apply all.
    groups : frozenset of str or None
        The groups to read; None: all.
    history : bool
        Retain every commit, not only the last of each key.
    tracking : Tracking or None
        Count the commits of each key, and retain the last; None: do not.
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
            object.__setattr__(self, "groups", _group_ids(self.groups, "groups"))

    def new_fold(self, *, survey: bool = False) -> PartitionFold:
        """Return an empty fold with these options; ``survey``: see ``PartitionFold``."""
        return PartitionFold(
            on_fault=self.on_fault,
            at_ms=self.at_ms,
            only=self.groups,
            history=self.history,
            tracking=self.tracking,
            survey=survey is True,
        )


@dataclass(repr=False)
class PartialState:
    """The state of a piece of a log, which can be merged with others: see :func:`merge`.

    Any number of threads may read it, or merge it into other states; only one may change it.

    Attributes
    ----------
    options : ScanOptions
        The options of the scan.
    partitions : dict
        The fold of each partition, by number; None is the number of an unknown partition.
    """

    options: ScanOptions = field(default_factory=ScanOptions)
    partitions: dict[int | None, PartitionFold] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.options, ScanOptions):
            raise ArgumentError(f"options must be coterie.ScanOptions, not {shown(self.options)}")
        if not isinstance(self.partitions, dict):
            raise ArgumentError(f"partitions must be a dict, not {shown(self.partitions)}")
        self._folds()

    def __repr__(self) -> str:
        return f"<PartialState: partitions {list(self.partitions)}>"

    def fold(self, partition: int | None) -> PartitionFold:
        """Return the fold of a partition; create it if necessary."""
        number = _partition(partition)
        if number not in self.partitions:
            self.partitions[number] = self.options.new_fold()
        return _fold(self.partitions[number])

    def absorb(self, later: PartialState) -> None:
        """Merge ``later``, the state of the next piece of the log, into this state.

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
        for partition, fold in later._folds():
            absorb(self.fold(partition), fold)

    def to_bytes(self) -> bytes:
        """Serialize the state for another process of the same version."""
        return pack(WHAT, self)

    @staticmethod
    def from_bytes(data: Buffer) -> PartialState:
        """Deserialize the bytes of :meth:`to_bytes`, in a process of the same version.

        Raises
        ------
        CoterieError
            The bytes are not a partial state, are damaged, or another version made them.
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
        """Return all groups, sorted by id, in the schema of ``groups.json`` (bytes stay bytes).

        A group exists if it has metadata, an offset or a pending transactional offset. It is there
        once, also if several partitions have records of it (see :meth:`joined`). A partition that
        Kafka's loader refuses (``on_fault="load"``) has no groups. Offsets are most of the result;
        with ``offsets_of``, only these groups have their offsets.
        """
        from coterie.state.consumer_protocol_groups import name_topics
        from coterie.state.rows import group_rows

        if isinstance(offsets_of, Iterable) and not isinstance(offsets_of, Mapping):
            offsets_of = _group_ids(offsets_of, "offsets_of")
        if offsets_of is not None and not isinstance(offsets_of, Container):
            raise ArgumentError(f"offsets_of must hold group ids, not {shown(offsets_of)}")
        rows = [
            row for number, fold in self.joined() for row in group_rows(number, fold, offsets_of)
        ]
        name_topics(rows)
        return sorted(rows, key=lambda row: java_order(row["group_id"]))

    def to_arrow(self) -> dict[str, pa.Table]:
        """Return the tables of ``coterie replay`` by name. Needs the extra ``arrow``."""
        from coterie.state.tables import state_tables

        folds, joined = dict(self._folds()), dict(self.joined())
        return state_tables(folds, joined, history=self.options.history)

    def live(self) -> list[tuple[int | None, PartitionFold]]:
        """Return the partitions that Kafka's loader accepts, in order of their numbers."""
        return [(number, fold) for number, fold in self._folds() if not fold.failed]

    def in_several_partitions(self) -> several_partitions.Orders:
        """Return the groups that several partitions have records of."""
        return several_partitions.found(self.live(), self.partition_count)

    def joined(self) -> several_partitions.Folds:
        """Return :meth:`live` with each group in one partition, its newest; the state stays so."""
        return joined(self, self.in_several_partitions())

    @property
    def partition_count(self) -> int | None:
        """The number of the topic's partitions; None if some may be missing."""
        return several_partitions.count_of(self.partitions)

    def numbers(self) -> list[int | None]:
        """Return the numbers of the partitions in order; None comes first."""
        return [number for number, _ in self._folds()]

    def _folds(self) -> list[tuple[int | None, PartitionFold]]:
        """Return the checked partitions in order; callers can modify ``partitions``."""
        folds = [(_partition(number), _fold(fold)) for number, fold in self.partitions.items()]
        return sorted(folds, key=lambda item: partition_order(item[0]))


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
        Bytes of a segment, from one batch boundary to another or to the end of the segment. They
        may be a ``mmap``.
    partition
        The number of the partition of ``__consumer_offsets``; None: unknown.
    file, position
        The place of the bytes, for faults.
    options
        The options of the scan; by default, everything is read and faults are skipped.

    Notes
    -----
    Memory grows with the keys. Cost: each byte is read twice; a commit creates no Python object.
    Source of the rules: GroupMetadataManager.doLoadGroupsAndOffsets.

    Raises
    ------
    ArgumentError
        ``data`` is not a contiguous buffer of bytes, or another argument is wrong.
    LogError
        ``data`` is a ``mmap``, and its file was truncated during the scan.

    Examples
    --------
    >>> from pathlib import Path
    >>> segment = Path("tests/golden/logs/basic/__consumer_offsets-1/00000000000000000000.log")
    >>> state = scan(segment.read_bytes(), partition=1)
    >>> state
    <PartialState: partitions [1]>
    >>> [group["group_id"] for group in state.groups()]
    ['grp-aio-range', 'grp-static-ck', 'grp-static-removed']
    """
    if isinstance(data, str | os.PathLike):
        raise ArgumentError(f"data must be bytes, not {shown(data)}; coterie.read reads paths")
    state = PartialState(ScanOptions() if options is None else options)
    with intact(data, file if isinstance(file, str) else None):
        state.fold(partition).scan(data, file=file, position=position)
    return state


def merge(partials: Iterable[PartialState]) -> PartialState:
    """Merge partial states, given in log order within each partition, into one.

    The result equals one scan of all pieces. ``partials`` are not changed.

    Raises
    ------
    CoterieError
        An element is not a partial state, or the options of the scans differ.

    Examples
    --------
    >>> from coterie.messages import encode_batch, encode_key, encode_value
    >>> key = encode_key({"version": 1, "data": {"group": "g", "topic": "orders", "partition": 0}})
    >>> def commit(at, offset):  # a batch of a log
    ...     data = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 0}
    ...     value = encode_value(1, {"version": 3, "data": data})
    ...     return encode_batch([(at, 0, key, value)], at)
    >>> state = merge([scan(commit(0, offset=5)), scan(commit(1, offset=9))])
    >>> state.groups()[0]["offsets"][0]["offset"]
    9
    """
    merged: PartialState | None = None
    for state in walked(partials, "partials"):
        if not isinstance(state, PartialState):
            raise ArgumentError(f"partials must hold coterie.PartialState, not {shown(state)}")
        if merged is None:
            merged = PartialState(state.options)
        merged.absorb(state)
    return merged if merged is not None else PartialState()


def joined(state: PartialState, orders: several_partitions.Orders) -> several_partitions.Folds:
    """Return the live partitions with each group of ``orders`` in its newest partition."""
    plain = replace(state.options, history=False, tracking=None)
    return several_partitions.joined(state.live(), plain.new_fold, orders)
