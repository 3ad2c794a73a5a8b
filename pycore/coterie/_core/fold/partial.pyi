from collections.abc import Iterator
from typing import Any

from coterie._core.fold.fold import PartitionFold
from coterie._core.fold.producers import Committed

def absorb(fold: PartitionFold, later: PartitionFold) -> None:
    """Let ``later``, scanned from what follows in the log, follow on ``fold``.

    ``later`` stays as it is. The result equals one scan over both pieces.
    """

def offset_columns(fold: PartitionFold) -> dict[str, Any]:
    """Give the committed offsets that readers see, in order of first sight of their keys.

    Returns
    -------
    dict of ndarray
        ``offset``, ``commit_timestamp`` (ms), ``expire_timestamp`` (ms, -1: none),
        ``batch_offset`` (of the first record of the batch that holds it), all int64 of shape (n,);
        ``leader_epoch`` (-1: none) and ``partition``, int32; ``keys`` and ``metadata``, uint8,
        end to end, with ``metadata_end`` int64 of shape (n,) and ``bounds`` int64 of shape
        (n, 4): start and end of the group's and of the topic's name in ``keys``.
    """

def offset_entries(fold: PartitionFold) -> Iterator[tuple[tuple[str, str, int], Committed]]:
    """Give what :func:`offset_columns` gives, one by one: the key as of :func:`keys`, the value."""

def keys(fold: PartitionFold) -> list[tuple[str, str, int]]:
    """Give (group, topic, partition) of every key, in order of first sight."""

def tracks(fold: PartitionFold) -> Any:
    """Give what came last of each key, in log order, and how many commits.

    Counted and ordered is what is outside of transactions or of a committed one. A key's place is
    its index, as of :func:`keys`; a key of which nothing counts has a row, too.

    Returns
    -------
    ndarray
        Structured, of shape (key_count,), all fields int64: ``count``, commits from ``since_ms``
        on and those without a time; ``last``, the ordinal of the last record, 0: there is none,
        with ``last_log_offset``, ``last_timestamp`` (ms, -1: none), ``last_offset`` (what was
        committed) and ``last_gone`` (1: it is a tombstone); ``before``, ``before_offset`` and
        ``before_gone``: of the record before it; ``commit``, ``commit_offset``,
        ``commit_timestamp`` and ``expire_timestamp`` (ms, -1: none): of the last commit. Where an
        ordinal is 0 its other fields say nothing.

    Raises
    ------
    CoterieError
        The fold tracks no keys.
    """

def split_key(key: bytes) -> tuple[bytes, bytes, int]:
    """(group, topic, partition) of an offset key as the fold keeps it."""

def key_at(fold: PartitionFold, index: int) -> bytes:
    """Key of an index of ``Producer.pending``.

    Raises
    ------
    IndexError
        There is no such key.
    """

def dump(fold: PartitionFold) -> tuple[Any, ...]:
    """Everything the fold knows, as plain values that pickle."""

def restore(fold: PartitionFold, state: tuple[Any, ...]) -> None:
    """Fill an empty fold with what :func:`dump` gave."""

def group_ids(fold: PartitionFold) -> set[bytes]:
    """Give the groups that have an offset key or metadata, as UTF-8."""
