"""The fold of a partition: batches in, the last record of each key out; partial states merge.

A batch takes one of three paths: plain commits are queued and applied together, group metadata is
deferred, everything else goes record by record. A partial state travels as bytes. Merged in order,
the states of a log's pieces equal the fold of the log.
Source: GroupMetadataManager.scala (doLoadGroupsAndOffsets).
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Self, final

from typing_extensions import Buffer

from coterie._core.fold.fold_state import Committed, FoldState

def take(
    fold: FoldState,
    records: Iterable[tuple[int, int, bytes | None, bytes | None]],
    *,
    producer_id: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> None:
    """Apply one batch of decoded records as :meth:`PartitionFold.scan` applies an encoded one.

    Parameters
    ----------
    records
        (log offset, timestamp in ms or -1, key, value), in log order; None is null.
    producer_id, transactional, control
        As in the header of a batch. Only the first record of a control batch is read.
    """

def offset_columns(fold: FoldState) -> dict[str, Any]:
    """Return the committed offsets that readers see, in the order their keys were first seen.

    Returns
    -------
    dict of ndarray
        ``offset``, ``commit_timestamp`` (ms), ``expire_timestamp`` (ms, -1: none),
        ``batch_offset`` (of the first record of the batch that holds it), all int64 of shape (n,);
        ``leader_epoch`` (-1: none) and ``partition``, int32; ``topic_id``, uint32, the number of
        an id in ``topic_ids`` (uint8, 16 bytes each, end to end), from 1 on, 0: none; ``keys`` and
        ``metadata``, uint8, end to end, with ``metadata_end`` int64 of shape (n,) and ``bounds``
        int64 of shape (n, 4): start and end of the group's and of the topic's name in ``keys``.
    """

def offset_entries(fold: FoldState) -> Iterator[tuple[tuple[str, str, int], Committed]]:
    """Yield the rows of :func:`offset_columns`: each key as in :func:`keys`, and its value."""

def keys(fold: FoldState) -> list[tuple[str, str, int]]:
    """Return (group, topic, partition) of every key, in the order they were first seen."""

def tracks(fold: FoldState) -> Any:
    """Return the last records of each key in log order, and its number of commits.

    Records of open and of aborted transactions do not count. The rows are in the order of
    :func:`keys`, and a key without a record that counts has a row, too.

    Returns
    -------
    ndarray
        Structured, of shape (key_count,), all fields int64: ``count``, commits of the fold's range
        and those without a time; ``last``, the ordinal of the last record, 0: there is none,
        with ``last_log_offset``, ``last_timestamp`` (ms, -1: none), ``last_offset`` (what was
        committed) and ``last_gone`` (1: it is a tombstone); ``before``, ``before_offset`` and
        ``before_gone``: of the record before it; ``commit``, ``commit_offset``,
        ``commit_timestamp`` and ``expire_timestamp`` (ms, -1: none): of the last commit. Where an
        ordinal is 0 its other fields are undefined.

    Raises
    ------
    CoterieError
        The fold tracks no keys.
    """

def split_key(key: bytes) -> tuple[bytes, bytes, int]:
    """Return (group, topic, partition) of an offset key as the fold has it."""

def key_at(fold: FoldState, index: int) -> bytes:
    """Return the key that an index of ``Producer.pending`` stands for.

    Raises
    ------
    IndexError
        There is no such key.
    """

def pending_commits(fold: FoldState) -> list[tuple[int, tuple[str, str, int], Committed]]:
    """Return the commits that open transactions hold: producer id, key, value.

    Those that a tombstone removed are left out, if it does (``FoldState.follows_4x``).
    """

def group_ids(fold: FoldState) -> set[bytes]:
    """Return the ids of the groups that have an offset key or metadata, as UTF-8."""

def dump(fold: FoldState) -> tuple[Any, ...]:
    """Return the whole state of a fold as plain values that pickle."""

def restore(fold: FoldState, state: tuple[Any, ...]) -> None:
    """Fill an empty fold with the values that :func:`dump` returned.

    Raises
    ------
    coterie.CoterieError
        The fold is not empty.
    coterie.CorruptData
        The values do not fit each other or the options of the fold.
    """

def absorb(fold: FoldState, later: FoldState) -> None:
    """Add ``later``, the fold of what follows in the log, to ``fold``.

    ``later`` does not change. The result equals one scan over both pieces.
    """

def settle_removed(fold: FoldState, of_4x: bool) -> None:
    """Drop the commits that a tombstone removed (``of_4x``: pending ones, too).

    Then no tombstone counts any more, so the fold of another partition may follow.
    """

@final
class PartitionFold(FoldState):
    """The latest state of each key in a partition of ``__consumer_offsets`` or a piece.

    Parameters
    ----------
    on_fault
        ``skip``, ``recover``, ``load`` or ``stop``.
    at_ms
        Leave out records whose own timestamp is after this (ms); those without one count.
    only
        Ids of the groups to fold; None: all.
    history
        Collect every commit, with its outcome, in :attr:`history`.
    survey
        Collect the facts that a second reading needs, in :attr:`survey`.
    tracking
        Track keys (see ``partial.tracks``) and collect :attr:`group_records`: (since_ms, until_ms,
        since_offset). Commits are counted from ``since_ms`` on, and from the log offset
        ``since_offset`` on whatever their times. Records later than ``until_ms`` are not tracked; a
        record in time counts even if a later marker commits it. None: no bound.

    Notes
    -----
    Memory grows with the keys. A call during a change by another thread raises a CoterieError.
    Sources: GroupMetadataManager.doLoadGroupsAndOffsets, LogSegment.recover,
    ByteBufferLogInputStream.
    """

    def __new__(
        cls,
        *,
        on_fault: str = "skip",
        at_ms: int | None = None,
        only: Collection[str] | None = None,
        history: bool = False,
        survey: bool = False,
        tracking: tuple[int | None, int | None, int | None] | None = None,
    ) -> Self: ...
    def scan(
        self,
        data: Buffer,
        *,
        file: str = "",
        position: int = 0,
        expected_offset: int = -1,
        max_bytes: int | None = None,
    ) -> int:
        """Apply whole batches that follow the ones scanned before; return the bytes taken.

        Parameters
        ----------
        data
            From a batch boundary to another, or to the end of the segment. Not referenced
            afterwards.
        file, position
            Where the bytes come from, for the places of faults.
        expected_offset
            The offset that the first batch should begin with, -1: not known. Only used to find
            gaps and to judge the base offset of a fault.
        max_bytes
            Stop after the batch that reaches this size; None: take all of ``data``. If the fold
            has ended, all of it counts as taken.
        """
