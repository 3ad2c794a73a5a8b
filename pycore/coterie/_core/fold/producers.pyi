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

    ``first_seq`` and ``first_committed`` tell of the first marker (-1: none), which also decides
    what earlier pieces left open; ``first_row`` is how many commits of the piece's history were
    decided before it; ``before`` are the keys this piece wrote before it; ``pending``
    is open at the end: index of the key -> what was committed, or None where a transactional
    tombstone took it back. ``tracked`` has what its records say of each key, where a fold tracks
    keys: index of the key -> bytes.
    """

    first_seq: int
    first_committed: bool
    first_row: int
    before: frozenset[int]
    pending: dict[int, Committed | None]
    tracked: dict[int, bytes]
