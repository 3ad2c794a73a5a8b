"""Batches of records: found, checked and read from bytes; written to bytes.

Nothing is read past the buffer: a length that leads beyond it is damage, and is named with its
place. A batch is decompressed at most once. Records of the old formats (magic 0 and 1) are read,
too.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, Self, final

from typing_extensions import Buffer

KINDS: Final[tuple[str | None, ...]]
"""Names of the kinds of fault, by number; 0 is no fault."""
FRAME_DETAIL: Final[dict[int, str]]
"""Why no batch can be framed, in words, by number; 0: its checksum does not hold."""

CODECS: tuple[str, ...]

class LogRecord(NamedTuple):
    """One record of a batch.

    ``offset`` is absolute, ``timestamp`` in ms (-1: none, magic 0), ``key`` and ``value`` the raw
    bytes (None: null), ``headers`` pairs of bytes, ``append_time`` says LogAppendTime.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    append_time: bool

class LogBatch(NamedTuple):
    """One batch: the fields of its header, and its records.

    ``position`` and ``size`` are bytes in the buffer. For a legacy wrapper ``base_offset`` is the
    first record's offset, as Kafka's tools print it. Timestamps are in ms; missing ids are -1.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int
    compression: str
    append_time: bool
    leader_epoch: int
    crc: int
    base_timestamp: int
    max_timestamp: int
    delete_horizon: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    records: list[LogRecord]

class BatchFault(NamedTuple):
    """A skipped part of a segment; ``coterie verify`` prints its ``kind``."""

    position: int
    base_offset: int | None
    kind: str
    detail: str

@final
class LogReader:
    """Iterate over the readable batches of a segment's bytes, in order.

    Faults are skipped, as with ``--on-fault skip``, and reported in ``faults``, in order of
    position. A batch with a wrong checksum, an unknown magic or codec, or broken records is skipped
    whole; a wrong length ends the segment. None of these raises.

    One thread at a time: a concurrent call raises a CoterieError.

    Parameters
    ----------
    data
        The bytes of a segment, from its first byte. Referenced until the reader is freed.
    check_crc
        False does not check checksums, like Kafka's file iterator.

    Notes
    -----
    Sources: FileLogInputStream, DefaultRecordBatch, AbstractLegacyRecordBatch.

    Examples
    --------
    >>> first = encode_batch([(0, 1_000, b"key", b"first")])
    >>> second = encode_batch([(1, 2_000, b"key", b"second")], base_offset=1)
    >>> reader = LogReader(first + second[:-1] + b"?")
    >>> [record.value for batch in reader for record in batch.records]
    [b'first']
    >>> [(fault.base_offset, fault.kind) for fault in reader.faults]
    [(1, 'crc')]
    """

    faults: list[BatchFault]

    def __new__(cls, data: Buffer, *, check_crc: bool = True) -> Self: ...
    def __iter__(self) -> Iterator[LogBatch]: ...
    def __next__(self) -> LogBatch: ...

def batch_boundaries(data: Buffer, max_bytes: int) -> list[int]:
    """Return the ascending positions at which a segment may be cut, including 0 and its size.

    Each piece has whole batches and at most ``max_bytes``, unless one batch is longer. The bytes
    after a wrong length stay in one piece with the last readable batch, from which a scan tells
    whether their base offset is plausible. Otherwise only headers are read. Empty bytes give
    ``[0]``.
    """

_Record = tuple[Any, ...]

def encode_batch(
    records: Iterable[_Record],
    base_offset: int = 0,
    *,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    base_timestamp_ms: int | None = None,
    max_timestamp_ms: int | None = None,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
) -> bytes:
    """Encode records as one batch of magic 2.

    Parameters
    ----------
    records
        In order of offset, from ``base_offset`` on. No records give the empty batch that
        compaction leaves: 61 bytes, codec 0.
    codec : int
        0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    append_time_ms : int, optional
        LogAppendTime: every record gets this time.
    delete_horizon_ms : int, optional
        Sets bit 6 of the attributes; the base timestamp is the horizon.
    base_timestamp_ms, max_timestamp_ms, last_offset_delta : int, optional
        Header fields to write instead of the computed ones: the first record's time, the greatest
        time, the last record's offset minus ``base_offset``. Compaction preserves them when it
        removes records. The defaults of an empty batch are -1, -1 and 0.

    Notes
    -----
    Kafka's coordinator writes group metadata and tombstones with producer fields of -1, an
    OffsetCommit with ``base_sequence=0``, and a TxnOffsetCommit with the producer's id and epoch,
    ``base_sequence=0`` and ``transactional``; all with leader epoch -1 until the log sets it.

    Examples
    --------
    >>> batch = encode_batch([(7, 1_000, b"key", b"value")], base_offset=7)
    >>> next(LogReader(batch)).records[0].offset
    7
    """

def encode_sized(
    records: bytes,
    count: int,
    base_offset: int,
    timestamp_ms: int,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
    leader_epoch: int = -1,
) -> bytes:
    """Encode records with one timestamp and without headers as one uncompressed batch.

    ``records`` has, for each of ``count`` records, the sizes of its key and its value (-1: null),
    big-endian in four bytes each, then both. Returns the same bytes as ``encode_batch``, without an
    object for each record: a coordinator writes a batch for each commit.
    """

def encode_marker(
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    *,
    timestamp_ms: int,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Encode the control batch that ends a transaction: COMMIT or ABORT.

    ``coordinator_epoch`` is the transaction coordinator's.

    Examples
    --------
    >>> marker = encode_marker(True, producer_id=7, producer_epoch=0, timestamp_ms=1_000)
    >>> next(LogReader(marker)).is_control
    True
    """

def encode_message_set(
    records: Iterable[_Record],
    magic: int,
    *,
    codec: int = 0,
    append_time_ms: int | None = None,
) -> bytes:
    """Encode records as a message set of magic 0 or 1.

    Codec 0 makes an entry for each record. Any other codec makes one wrapper with the last record's
    offset; the inner offsets are absolute in magic 0, and relative to the first record in magic 1.
    The wrapper has the greatest time, or ``append_time_ms``, which means LogAppendTime (magic 1).
    LZ4 in magic 0 has the header checksum that Kafka computed wrongly.

    Examples
    --------
    >>> old = encode_message_set([(0, 1_000, b"key", b"value")], magic=1, codec=1)
    >>> batch = next(LogReader(old))
    >>> batch.magic, batch.compression
    (1, 'gzip')
    """
