"""The history of a partition: each commit and each generation of its groups, as rows.

Rows of transactions wait for their marker. A history is dumped and merged with its fold: the
histories of a log's pieces, joined in order, equal the history of the log.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Self, final

class MetadataRecord(NamedTuple):
    """A record of group metadata as it stands in the log.

    ``timestamp`` is in ms (-1: none); a tombstone has no ``value``.
    """

    log_offset: int
    timestamp: int
    value: bytes | None

class Generation(NamedTuple):
    """A group at a metadata record, and what changed since the record before.

    ``joined``, ``left`` and ``subscription_changed`` are lists of member ids, ``replaced`` of
    (group instance id, old member id, new member id): a static member that came back under a
    new id. In the first record every member joined.
    """

    log_offset: int
    timestamp: int | None
    tombstone: bool
    protocol_type: str | None
    generation: int | None
    protocol: str | None
    leader: str | None
    current_state_timestamp: int | None
    member_count: int
    joined: list[str]
    left: list[str]
    replaced: list[tuple[str, str, str]]
    subscription_changed: list[str]
    leader_changed: bool
    protocol_changed: bool
    previous_generation: int | None
    since_previous_ms: int | None
    """Between the two records' own timestamps."""

class GroupLog:
    """The metadata records of one group, in log order."""

    first: MetadataRecord
    last: MetadataRecord
    changes: list[Generation]

    def add(self, log_offset: int, timestamp: int, value: bytes | None) -> None:
        """Add the next record.

        Raises
        ------
        coterie.CorruptData
            The value cannot be read.
        """
    def copy(self) -> Self:
        """Return an independent copy."""
    def absorb(self, later: GroupLog) -> None:
        """Append the records of a later piece of the log."""
    def generations(self) -> list[Generation]:
        """Return a row for each record."""

OUTCOMES: Final[tuple[str, ...]]
"""Names of the values of the column ``outcome``."""

@final
class History:
    """The decided commits of a fold, in the order of their decision.

    A commit outside of transactions has its own place in the log; a commit of a transaction has
    the place of its marker.

    Notes
    -----
    A call during a change by another thread raises a CoterieError. Memory: 80 bytes
    a row, and the metadata.
    """

    def __new__(cls) -> History: ...
    def __len__(self) -> int: ...
    def clear(self) -> None:
        """Remove all rows. Pending commits stay, and become rows with their marker."""
    def columns(self, start: int = 0, end: int | None = None) -> dict[str, Any]:
        """Return the rows from ``start`` to ``end`` as arrays.

        Returns
        -------
        dict
            Arrays of shape (rows,): ``log_offset``, ``timestamp`` (ms, -1: none),
            ``producer_id``, ``offset``, ``commit_timestamp``, ``expire_timestamp`` (ms, -1:
            none), int64; ``group``, ``topic`` (numbers of names), ``partition``,
            ``leader_epoch`` (-1: none), ``topic_id`` (number of an id, from 1 on; 0: none), int32;
            ``kind`` (0: a commit, 1: a tombstone), ``transactional`` and ``outcome`` (see
            ``OUTCOMES``), int8. ``metadata`` (uint8, end to end) is cut at ``metadata_bounds``
            (int64, shape (rows + 1,)). ``groups`` and ``topics``: the names' bytes end to end, and
            the bounds of each name; ``topic_ids``: 16 bytes each.
        """
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows one by one, in the form of the table ``commits``.

        The fields are in the order of its columns, without ``offsets_partition``; times are ms,
        topic ids bytes.
        """
    def pending(self) -> History:
        """Return the commits that no marker has decided yet, in order of their log offsets."""
