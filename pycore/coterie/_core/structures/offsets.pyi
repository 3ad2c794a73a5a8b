from collections.abc import Collection, Iterable, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from coterie.values import OffsetAndMetadata

_Key = tuple[str, int]

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
class OffsetMap:
    """One group's offsets: commits, transactions, expiry.

    Keys are (topic, partition); a value may be an ``Offset``, an ``OffsetAndMetadata`` or an
    int. Log positions decide between plain and transactional commits, and equal positions do not
    replace. A key, value or time of another type is an ArgumentError. One thread at a time.
    Source: ``GroupMetadata.scala``; method names are Kafka's.
    """

    received_plain: bool
    received_txn: bool
    count: int

    def __len__(self) -> int:
        """How many offsets readers see."""
    def __contains__(self, key: _Key, /) -> bool:
        """Whether readers see an offset of this (topic, partition)."""
    def __getitem__(self, key: _Key, /) -> Offset:
        """Return the offset that readers see; KeyError if there is none."""
    @property
    def pending(self) -> Mapping[_Key, Offset]:
        """Plain commits whose append has not finished, as they are now; read-only."""
    @property
    def pending_txn(self) -> Mapping[int, Mapping[_Key, Offset]]:
        """Transactional commits that no marker has decided, by producer id; read-only."""
    @property
    def has_offsets(self) -> bool:
        """Whether anything keeps the group: an offset, a pending one, a producer's entry."""
    def items(self) -> list[tuple[_Key, Offset]]:
        """Return what readers see."""
    def commit(
        self, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int], position: int
    ) -> None:
        """Prepare and append a plain commit in one step."""
    def prepare_offset_commit(
        self, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int]
    ) -> None:
        """Note a plain commit that is being appended: pending until it comes back."""
    def on_offset_commit_append(
        self, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int], position: int
    ) -> None:
        """Show what came back, where it is still pending and no later offset is shown."""
    def fail_pending_offset_write(
        self, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int]
    ) -> None:
        """Forget what failed, unless a later commit is pending."""
    def prepare_txn_offset_commit(
        self, producer_id: int, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int]
    ) -> None:
        """Note a transactional commit that is being appended."""
    def on_txn_offset_commit_append(
        self,
        producer_id: int,
        offsets: Mapping[_Key, Offset | OffsetAndMetadata | int],
        position: int,
    ) -> None:
        """Give what came back its position."""
    def fail_pending_txn_offset_commit(
        self, producer_id: int, offsets: Mapping[_Key, Offset | OffsetAndMetadata | int]
    ) -> None:
        """Forget the partitions of what failed, whatever was pending for them."""
    def complete_pending_txn_offset_commit(self, producer_id: int, is_commit: bool) -> None:
        """Decide by the marker; CoterieError where an append had not come back before it."""
    def fetch(self, topic: str, partition: int, *, require_stable: bool = False) -> Offset | None:
        """Return the offset that a reader sees; CoterieError if it must be stable and is not."""
    def is_pending(self, topic: str, partition: int) -> bool:
        """Whether some commit of the partition is undecided."""
    def remove(self, keys: Iterable[_Key]) -> list[_Key]:
        """Remove partitions by name, pending commits too; those that were shown."""
    def expire(
        self,
        now_ms: int,
        retention_ms: int,
        *,
        base_ms: int | None = None,
        keep: Collection[str] | None = None,
    ) -> list[_Key]:
        """Take out what has expired, in no order that counts.

        Parameters
        ----------
        base_ms
            Since when retention runs for all of them; None: each since its own commit.
        keep
            Topics that do not expire.
        """

def expiry_rule(
    protocol_type: str | None, empty: bool, stable: bool, since_ms: int, topics_known: bool
) -> str | None:
    """Return by which rule a group's offsets expire; None: none of them does.

    Parameters
    ----------
    protocol_type
        None: no member was ever added.
    empty, stable
        Whether the group is in that state.
    since_ms
        When it came into its state, -1: the log does not say.
    topics_known
        Whether it is known what the group is subscribed to.

    Returns
    -------
    str or None
        ``standalone``: since each commit; ``empty_since``: all of them since ``since_ms``;
        ``empty_commit``: since each commit, as ``since_ms`` is unknown; ``not_subscribed``: since
        each commit, those of topics that are not subscribed to. Where it is None, not even an
        expiry that a commit carries itself counts. Source: GroupMetadata.removeExpiredOffsets.
    """

def expired(
    commit_ms: npt.ArrayLike,
    expire_ms: npt.ArrayLike | None,
    now_ms: int,
    retention_ms: int,
    base_ms: npt.ArrayLike | None = None,
    keep: Any = None,
) -> npt.NDArray[np.bool_]:
    """Which offsets have expired: Kafka's rule since 2.1 over columns.

    Parameters
    ----------
    commit_ms
        int64 (n,): when each was committed.
    expire_ms
        int64 (n,) or one value: its own expiry, -1: none. It alone decides then
        (``now_ms >= expire_ms``).
    base_ms
        int64 (n,) or one value: since when retention runs (``now_ms - base >= retention_ms``);
        None: since the commit.
    keep
        bool (n,): never expired (topics subscribed to, pending commits).

    Returns
    -------
    bool (n,)

    Raises
    ------
    ArgumentError
        Columns of other lengths or types.
    """
