from collections.abc import Collection
from typing import Final, NamedTuple

from typing_extensions import Self, disjoint_base

from coterie._core.fold.generations import GroupLog
from coterie._core.fold.history import History
from coterie._core.fold.producers import Producer
from coterie._core.fold.survey import Survey

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
    def key_count(self) -> int:
        """How many keys (group, topic, partition) were seen."""
    @property
    def metadata_bytes(self) -> int:
        """Bytes of memory allocated for the keys' metadata, used or not."""
