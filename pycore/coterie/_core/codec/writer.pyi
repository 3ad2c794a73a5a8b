"""Record batches of magic 2 and message sets of magic 0 and 1, from records.

A record is (offset, timestamp in ms, key, value[, headers]), as the ``LogRecord`` of ``LogReader``
is. Key and value are bytes or None, headers pairs of bytes. A number that does not fit its field
raises ``coterie.CoterieError``, a codec that is not allowed ``coterie.CorruptData``
(``kind="codec"``). Sources: MemoryRecordsBuilder, DefaultRecordBatch, LegacyRecord.
"""

from collections.abc import Iterable
from typing import Any

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
    """
