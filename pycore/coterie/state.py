"""Partial states of a log: scan a piece, merge pieces, read the groups out.

The work is in ``coterie._core.fold`` and ``coterie._core.partial``; here partitions are kept
apart, and what the fold holds becomes rows (``coterie.rows``) or Arrow tables (``coterie.tables``).
"""

from __future__ import annotations

import pickle
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie._core import partial
from coterie._core.fold import PartitionFold
from coterie.errors import CoterieError

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer


@dataclass(frozen=True)
class ScanOptions:
    """What a scan does with faults and how far it goes; partial states merge only if alike.

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
    """

    on_fault: str = "skip"
    at_ms: int | None = None
    groups: frozenset[str] | None = None
    history: bool = False

    def new_fold(self) -> PartitionFold:
        """Return the empty fold that these options ask for."""
        return PartitionFold(
            on_fault=self.on_fault, at_ms=self.at_ms, only=self.groups, history=self.history
        )


@dataclass
class PartialState:
    """What a piece of log says, in a form that composes: see :func:`merge`.

    Attributes
    ----------
    options : ScanOptions
        How it was scanned.
    partitions : dict
        One fold for each partition of the topic; None where the partition is not known.
    """

    options: ScanOptions = field(default_factory=ScanOptions)
    partitions: dict[int | None, PartitionFold] = field(default_factory=dict)

    def fold(self, partition: int | None) -> PartitionFold:
        """Return the fold of a partition, a new one at its first call."""
        if partition not in self.partitions:
            self.partitions[partition] = self.options.new_fold()
        return self.partitions[partition]

    def absorb(self, later: PartialState) -> None:
        """Let ``later``, scanned from what follows in the log, follow on this state.

        Raises
        ------
        CoterieError
            The two were scanned with other options.
        """
        if later.options != self.options:
            raise CoterieError("partial states scanned with different options do not merge")
        for partition, theirs in later.partitions.items():
            partial.absorb(self.fold(partition), theirs)

    def to_bytes(self) -> bytes:
        """Serialize, for another process of the same version."""
        return pickle.dumps(self, protocol=5)

    @staticmethod
    def from_bytes(data: Buffer) -> PartialState:
        """Return what :meth:`to_bytes` was called on. Only for bytes of your own: it unpickles."""
        state = pickle.loads(data)
        if not isinstance(state, PartialState):
            raise CoterieError(f"not a partial state but a {type(state).__name__}")
        return state

    def __getstate__(self) -> dict[str, Any]:
        return {
            "options": self.options,
            "folds": {number: partial.dump(fold) for number, fold in self.partitions.items()},
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.options = state["options"]
        self.partitions = {}
        for number, dumped in state["folds"].items():
            partial.restore(self.fold(number), dumped)

    def groups(self, *, offsets_of: Container[str] | None = None) -> list[dict[str, Any]]:
        """Every group, sorted by id, in the schema of ``groups.json`` (bytes stay bytes).

        A group is there if it has metadata, an offset or a pending transactional offset. Of a
        partition that Kafka's loader refuses (``on_fault="load"``) there is none. Offsets are by
        far the most: ``offsets_of`` leaves those of other groups out.
        """
        from coterie.newer import name_topics
        from coterie.rows import group_rows

        rows = [row for number, fold in self.live() for row in group_rows(number, fold, offsets_of)]
        name_topics(rows)
        return sorted(rows, key=lambda row: row["group_id"].encode("utf-16-be", "surrogatepass"))

    def to_arrow(self) -> dict[str, pa.Table]:
        """Return the tables of ``coterie replay``, by name. Needs the extra ``arrow``."""
        from coterie.tables import state_tables

        return state_tables(self)

    def live(self) -> list[tuple[int | None, PartitionFold]]:
        """Return the partitions that count, in order of their number."""
        order = sorted(self.partitions, key=lambda number: -1 if number is None else number)
        return [(n, self.partitions[n]) for n in order if not self.partitions[n].failed]


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
        Where the bytes come from: they only name the places of faults.
    options
        How to scan; by default all of it, faults skipped.

    Notes
    -----
    Memory grows with the keys. Cost: each byte is looked at twice, a commit takes no Python
    object. Source of the rules: GroupMetadataManager.doLoadGroupsAndOffsets.
    """
    state = PartialState(options or ScanOptions())
    state.fold(partition).scan(data, file=file, position=position)
    return state


def merge(partials: Iterable[PartialState]) -> PartialState:
    """Merge partial states, given in log order within each partition, into one.

    The result equals one scan over all the pieces. The given states are left as they are.
    """
    merged: PartialState | None = None
    for state in partials:
        if merged is None:
            merged = PartialState(state.options)
        merged.absorb(state)
    return merged if merged is not None else PartialState()
