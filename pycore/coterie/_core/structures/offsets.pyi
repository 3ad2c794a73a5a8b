from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar, final, overload

from coterie.values import OffsetAndMetadata

_Key = tuple[str, int]
_T = TypeVar("_T")

@final
class Offset:
    """A committed offset and where it was appended. -1: no epoch, no expiry, not appended."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    position: int
    def __init__(
        self,
        offset: int,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = -1,
        expire_timestamp: int = -1,
        position: int = -1,
    ) -> None: ...

@final
class OffsetMap(Mapping[_Key, Offset]):
    """One group's offsets: commits, transactions, expiry; a mapping of what readers see.

    Keys are (topic, partition); a value is an ``Offset``, an ``OffsetAndMetadata`` or an int.
    Readers see the commit with the higher log position, plain or transactional; equal positions do
    not replace. A key, value or time of another type is an ArgumentError. It can be copied and
    pickled, with what is pending. One thread at a time.
    Source: ``GroupMetadata.scala``; method names are Kafka's.

    Examples
    --------
    >>> offsets = OffsetMap()
    >>> offsets.commit({("orders", 0): 5}, position=100)
    >>> offsets.prepare_offset_commit({("orders", 0): 9})  # its append begins
    >>> offsets["orders", 0].offset, offsets.is_pending("orders", 0)
    (5, True)
    >>> offsets
    <OffsetMap: 1 offsets, 1 pending, 0 producers>
    >>> offsets.on_offset_commit_append({("orders", 0): 9}, position=101)
    >>> offsets["orders", 0].offset
    9
    """

    count: int

    def __len__(self) -> int:
        """How many offsets readers see."""
    def __contains__(self, key: object, /) -> bool:
        """Whether readers see an offset of this (topic, partition)."""
    def __getitem__(self, key: _Key, /) -> Offset:
        """Return the offset that readers see; KeyError if there is none."""
    @property
    def pending(self) -> Mapping[_Key, Offset]:
        """Plain commits whose append has not finished: a read-only copy."""
    @property
    def pending_txn(self) -> Mapping[int, Mapping[_Key, Offset]]:
        """Transactional commits without a marker, by producer id: a read-only copy."""
    @property
    def has_offsets(self) -> bool:
        """Whether the group must stay: for an offset, a pending one, or a producer's entry."""
    def __iter__(self) -> Iterator[_Key]: ...
    @overload
    def get(self, key: _Key, default: None = None) -> Offset | None:
        """Return the offset that readers see, or the default."""
    @overload
    def get(self, key: _Key, default: _T) -> Offset | _T: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    # Lists, which stay as they are when the map changes; so the views of a Mapping are overridden.
    def keys(self) -> list[_Key]:  # type: ignore[override]
        """Return the keys of the offsets that readers see."""
    def values(self) -> list[Offset]:  # type: ignore[override]
        """Return the offsets that readers see."""
    def items(self) -> list[tuple[_Key, Offset]]:  # type: ignore[override]
        """Return the keys and offsets that readers see."""
    def commit(
        self, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int], position: int
    ) -> None:
        """Prepare and append a plain commit in one step."""
    def prepare_offset_commit(
        self, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int]
    ) -> None:
        """Record a plain commit whose append has begun: it is pending until that finishes."""
    def on_offset_commit_append(
        self, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int], position: int
    ) -> None:
        """Finish an append at a log position: show pending offsets that are not superseded."""
    def fail_pending_offset_write(
        self, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int]
    ) -> None:
        """Forget a plain commit whose append failed, unless a later commit is pending."""
    def prepare_txn_offset_commit(
        self, producer_id: int, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int]
    ) -> None:
        """Record a transactional commit whose append has begun."""
    def on_txn_offset_commit_append(
        self,
        producer_id: int,
        offsets: Mapping[_Key, Offset | OffsetAndMetadata | int],
        position: int,
    ) -> None:
        """Finish the append of a transactional commit: record its log position."""
    def fail_pending_txn_offset_commit(
        self, producer_id: int, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int]
    ) -> None:
        """Forget all that is pending for the partitions of a commit whose append failed."""
    def complete_pending_txn_offset_commit(self, producer_id: int, is_commit: bool) -> None:
        """Apply a transaction's marker; CoterieError if one of its appends has not finished."""
    def fetch(self, topic: str, partition: int, *, require_stable: bool = False) -> Offset | None:
        """Return the offset that readers see, or None.

        Raises
        ------
        CoterieError
            ``require_stable``, and a commit of the partition is pending.
        """
    def is_pending(self, topic: str, partition: int) -> bool:
        """Whether a commit of the partition is pending, plain or transactional."""
    def remove(self, keys: Iterable[_Key]) -> list[_Key]:
        """Remove partitions, with their pending commits; return those that readers saw."""
    def expire(
        self,
        now_ms: int,
        retention_ms: int,
        *,
        base_ms: int | None = None,
        keep: Collection[str] | None = None,
    ) -> list[_Key]:
        """Remove the offsets that have expired; return their keys, in no defined order.

        Parameters
        ----------
        now_ms, retention_ms
            The time at which to judge, and the retention, in ms.
        base_ms
            When retention starts for all offsets; None: for each at its own commit.
        keep
            Topics whose offsets do not expire.
        """
