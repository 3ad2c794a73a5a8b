"""The state of a fold: the last record of each key, open transactions, counts and faults.

Commits of a transaction are pending by producer until its marker comes. A survey notes how the
transactions ended that were open at the end of a piece.
"""

from collections.abc import Collection
from typing import Final, NamedTuple, Self, final

from typing_extensions import disjoint_base

from coterie._core.fold.history import GroupLog, History

class Committed(NamedTuple):
    """A committed offset; times in ms, -1: none.

    ``batch_offset``: of the first record of the batch that holds it. ``topic_id``: 16 bytes; None:
    the commit has none.
    """

    batch_offset: int
    offset: int
    commit_timestamp: int
    expire_timestamp: int
    leader_epoch: int
    metadata: bytes
    topic_id: bytes | None = None

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

@final
class Survey:
    """The transactions of the piece scanned last: which are open, and the first markers.

    Attributes
    ----------
    open : dict of int to int
        Producers with a transaction that has records in the piece and is open at its end -> the
        number of the first of these records.
    ended : dict
        Producer -> its first marker, as (0 for ABORT or 1 for COMMIT,
        the number of its record, its time in ms, -1: none).

    Notes
    -----
    Records are numbered from 0 over all pieces; only readable batches count.
    """

    def __new__(cls) -> Survey: ...
    @property
    def open(self) -> dict[int, int]: ...
    @property
    def ended(self) -> dict[int, tuple[int, int, int]]: ...

class Fault(NamedTuple):
    """A batch or record that could not be read: its place, and why."""

    file: str
    position: int | None
    """Byte of the batch in the file; None if the records do not come from a file."""
    base_offset: int | None
    kind: str
    offset: int | None
    detail: str

class Scanned(NamedTuple):
    """The result of scanning a piece of a file; times in ms, -1 for none."""

    file: str
    position: int
    bytes: int
    """Size of what was scanned: if the fold has ended, up to the end of that batch."""
    batches: int
    records: int
    first_offset: int
    last_offset: int
    max_timestamp: int
    gap: bool
    """Whether offsets are missing inside the piece."""
    first_timestamp: int
    """Of the first batch."""

ON_FAULT: Final[dict[str, int]]

@disjoint_base
class FoldState:
    """The latest state of each key, with the options of the fold that fills it.

    See ``PartitionFold`` for the options.
    """

    on_fault: int
    at_ms: int | None
    only: frozenset[bytes] | None
    seq: int
    """Ordinal of the next batch; counts on from piece to piece."""
    expected_offset: int
    """The offset that should follow the last scanned batch, -1: not known. ``absorb`` does not
    change it."""
    failed: bool
    """Kafka's loader would give the partition up: none of its records count."""
    cut: bool
    """Recovery cut the log here: later records do not count."""
    stopped: bool
    """``on_fault`` is ``stop``, and there was a fault."""
    producers: dict[int, Producer]
    groups: dict[bytes, GroupLog]
    newer: dict[bytes, tuple[bytes | None, int, int]]
    """Records of key versions 3 to 23: key -> (value or None, log offset, timestamp)."""
    has_records_of_4x: bool
    """Whether a record was read that only Kafka 4.x writes, of whatever group and time."""
    unknown: dict[int, int]
    """Records of unknown key versions, counted by version."""
    faults: list[Fault]
    """The first ``faults_max`` of them."""
    more_faults: dict[str, int]
    """The faults behind these, counted by kind."""
    faults_max: int
    segments: list[Scanned]
    """The scanned pieces, in log order."""
    history: History | None
    """Every commit from its decision on, if requested."""
    survey: Survey | None
    """The facts that a second reading needs, if requested."""
    number: int
    """Number of records in readable batches so far."""
    group_records: list[tuple[bytes, int, int, int, bytes, bytes | None, str, int]] | None
    """Whole records of groups that are no commits, in log order: group id, log offset, timestamp
    (ms, -1: none), version of the key, key, value (None: a tombstone), file, position of the
    batch. The list grows with the log: empty it between two scans."""

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
    @property
    def follows_4x(self) -> bool:
        """Whether a tombstone removes pending commits, as in Kafka 4.x."""
    @property
    def fault_count(self) -> int:
        """Number of all faults."""
    @property
    def key_count(self) -> int:
        """How many keys (group, topic, partition) were seen."""
    @property
    def metadata_bytes(self) -> int:
        """Bytes of memory allocated for the keys' metadata, used or not."""
