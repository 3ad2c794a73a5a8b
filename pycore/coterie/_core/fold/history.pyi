from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, final

class CommitEvent(NamedTuple):
    """A commit of the history; ``producer_id`` where it is of a transaction.

    ``value``: (offset, leader epoch, metadata, commit timestamp, expire timestamp), or None.
    """

    what: Literal["commit"]
    key: bytes
    log_offset: int
    timestamp: int
    producer_id: int | None
    value: tuple[int, int, bytes, int, int] | None

class MarkerEvent(NamedTuple):
    """The end of a transaction in the history."""

    what: Literal["marker"]
    producer_id: int
    committed: bool

OUTCOMES: Final[tuple[str, ...]]
"""Names of the values of the column ``outcome``."""

@final
class History:
    """Every commit and marker that a scan noted, in log order: rows of C, 80 bytes each.

    Notes
    -----
    One call at a time may change it, and none reads it meanwhile: else a CoterieError.
    """

    def __new__(cls) -> History: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[CommitEvent | MarkerEvent]:
        """Give the rows one by one, as events."""
    def clear(self) -> None:
        """Forget all rows."""
    def columns(self, start: int = 0, end: int | None = None) -> dict[str, Any]:
        """Give the rows from ``start`` to ``end`` as arrays.

        Returns
        -------
        dict
            Arrays of shape (rows,): ``log_offset``, ``timestamp`` (ms, -1: none),
            ``producer_id``, ``offset``, ``commit_timestamp``, ``expire_timestamp`` (ms, -1:
            none), int64; ``group``, ``topic`` (numbers of names), ``partition``,
            ``leader_epoch`` (-1: none), int32; ``kind`` (0: a commit, 1: a tombstone, 2: a
            marker), ``transactional`` and ``outcome`` (see ``OUTCOMES``), int8. ``metadata``
            (uint8, end to end) is cut at ``metadata_bounds`` (int64, shape (rows + 1,)).
            ``groups`` and ``topics``: the names' bytes, and where to cut them.
        """
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Give decided commits one by one, as the table ``commits`` has them.

        In order of its columns without ``offsets_partition``; times are ms.
        """

@final
class Undecided:
    """The commits of transactions that no marker has decided, of one partition of the topic."""

    def __new__(cls) -> Undecided: ...
    def decide(self, events: History) -> History:
        """Go on with what was noted next; give what is decided by it.

        A commit outside of transactions stands in its place, one of a transaction where its
        marker stood. Where there is neither transaction nor marker this is ``events`` itself.
        """
    def finish(self) -> History:
        """Give what no marker decided, as pending, in order of the log."""
