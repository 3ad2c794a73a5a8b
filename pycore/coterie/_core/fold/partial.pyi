from collections.abc import Iterator
from typing import Any

from coterie._core.fold.fold_state import FoldState
from coterie._core.fold.producers import Committed

def offset_columns(fold: FoldState) -> dict[str, Any]:
    """Return the committed offsets that readers see, in the order their keys were first seen.

    Returns
    -------
    dict of ndarray
        ``offset``, ``commit_timestamp`` (ms), ``expire_timestamp`` (ms, -1: none),
        ``batch_offset`` (of the first record of the batch that holds it), all int64 of shape (n,);
        ``leader_epoch`` (-1: none) and ``partition``, int32; ``keys`` and ``metadata``, uint8,
        end to end, with ``metadata_end`` int64 of shape (n,) and ``bounds`` int64 of shape
        (n, 4): start and end of the group's and of the topic's name in ``keys``.
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
