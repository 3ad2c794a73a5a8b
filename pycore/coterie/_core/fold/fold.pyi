from collections.abc import Collection
from typing import Final, NamedTuple, final

from typing_extensions import Buffer, Self

from coterie._core.fold.generations import GroupLog
from coterie._core.fold.history import History
from coterie._core.fold.producers import Producer
from coterie._core.fold.survey import Survey

class Fault(NamedTuple):
    """What could not be taken, and where."""

    file: str
    position: int | None
    """Of the batch, in bytes; None where the records did not come from a file."""
    base_offset: int | None
    kind: str
    offset: int | None
    detail: str

class Scanned(NamedTuple):
    """The result of scanning a piece of a file; times in ms, -1 for none."""

    file: str
    position: int
    bytes: int
    """That were looked at: where the fold has ended, up to the end of that batch."""
    batches: int
    records: int
    first_offset: int
    last_offset: int
    max_timestamp: int
    gap: bool
    """Within it, offsets are missing."""
    first_timestamp: int
    """Of its first batch."""

ON_FAULT: Final[dict[str, int]]

@final
class PartitionFold:
    """The latest state of each key in a partition of ``__consumer_offsets`` or a piece.

    Parameters
    ----------
    on_fault
        ``skip``, ``recover``, ``load`` or ``stop``.
    at_ms
        Leave out records whose own timestamp is after this (ms); those without one count.
    only
        Group ids to keep; None: all.
    history
        Keep every commit, with its outcome, in :attr:`history`.
    tracking
        Track keys (see ``partial.tracks``), and keep :attr:`group_records`: (since_ms, until_ms).
        Commits count from ``since_ms`` on; records later than ``until_ms`` have no part, but
        those of their time that a later marker commits do. None: no bound.

    Notes
    -----
    Memory grows with the keys. One call at a time may change it, and none reads it meanwhile:
    else a CoterieError. Sources: GroupMetadataManager.doLoadGroupsAndOffsets,
    LogSegment.recover, ByteBufferLogInputStream.
    """

    on_fault: int
    at_ms: int | None
    only: frozenset[bytes] | None
    seq: int
    """Ordinal of the next batch; counts on from piece to piece."""
    expected_offset: int
    """What the batch behind what was scanned last should begin with, -1: not known. Knows nothing
    of what was absorbed."""
    failed: bool
    """Kafka's loader gives the partition up: nothing of it counts."""
    cut: bool
    """Recovery cut the log here: what follows does not count."""
    stopped: bool
    """``on_fault`` is ``stop``, and there was a fault."""
    producers: dict[int, Producer]
    groups: dict[bytes, GroupLog]
    newer: dict[bytes, tuple[bytes | None, int, int]]
    """Records of key versions 3 to 23: key -> (value or None, log offset, timestamp)."""
    unknown: dict[int, int]
    """Records of unknown key versions, counted by version."""
    faults: list[Fault]
    segments: list[Scanned]
    """What was scanned, in log order."""
    history: History | None
    """Every commit, each once it is decided."""
    survey: Survey | None
    """What a second reading must know, if it was asked for."""
    number: int
    """Records of the batches that could be read, so far."""
    group_records: list[tuple[bytes, int, int, int, bytes, bytes | None, str, int]] | None
    """Records of groups that are no commits, in log order, whole: group id, log offset, timestamp
    (ms, -1: none), version of the key, key, value (None: a tombstone), file, position of the
    batch. They grow with the log: take them out between two scans."""

    def __new__(
        cls,
        *,
        on_fault: str = "skip",
        at_ms: int | None = None,
        only: Collection[str] | None = None,
        history: bool = False,
        survey: bool = False,
        tracking: tuple[int | None, int | None] | None = None,
    ) -> Self: ...
    @property
    def key_count(self) -> int:
        """How many keys (group, topic, partition) were seen."""
    @property
    def metadata_bytes(self) -> int:
        """Bytes of memory that the keys' metadata takes, dead and free ones among them."""
    def scan(
        self,
        data: Buffer,
        *,
        file: str = "",
        position: int = 0,
        expected_offset: int = -1,
        max_bytes: int | None = None,
    ) -> int:
        """Apply whole batches, which follow on what was scanned before; return the bytes taken.

        Parameters
        ----------
        data
            From a batch boundary to another, or to the end of the segment. Not kept.
        file, position
            Where the bytes come from; they name the places of faults.
        expected_offset
            What the first batch should begin with, -1: not known. Only tells gaps and the
            plausible base offset of a fault.
        max_bytes
            Stop behind the batch with which so many bytes, or more, were taken; None: take all
            of ``data``. Where the fold has ended, all of it counts as taken.
        """
