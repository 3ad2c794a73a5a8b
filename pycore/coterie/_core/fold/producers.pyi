from typing import NamedTuple

class Committed(NamedTuple):
    """A committed offset; times in ms, -1: none.

    ``batch_offset``: of the first record of the batch that holds it.
    """

    batch_offset: int
    offset: int
    commit_timestamp: int
    expire_timestamp: int
    leader_epoch: int
    metadata: bytes

class Producer:
    """The transactions of one producer id in a piece of log.

    ``first_seq`` and ``first_committed`` are the ordinal (-1: none) and the outcome of the first
    marker, which also decides what earlier pieces left open. ``first_row`` is the number of rows of
    the piece's history that were decided before it, ``before`` the keys written before it.
    ``pending`` is open at the end: index of the key -> the offset, or None for a tombstone.
    ``tracked`` has the tracks of the pending records if the fold tracks keys: index of the key ->
    bytes.
    """

    first_seq: int
    first_committed: bool
    first_row: int
    before: frozenset[int]
    pending: dict[int, Committed | None]
    tracked: dict[int, bytes]
