class Producer:
    """The transactions of one producer id in a piece of log.

    ``first_seq`` and ``first_committed`` tell of the first marker (-1: none), which also decides
    what earlier pieces left open; ``before`` are the keys this piece wrote before it; ``pending``
    is open at the end: index of the key -> (position, offset, commit_timestamp, expire_timestamp,
    leader_epoch, metadata), or None where a transactional tombstone took it back.
    """

    first_seq: int
    first_committed: bool
    before: frozenset[int]
    pending: dict[int, tuple[int, int, int, int, int, bytes] | None]
