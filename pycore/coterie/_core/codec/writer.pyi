"""Record batches of magic 2 and message sets of magic 0 and 1, from records.

A record is (offset, timestamp in ms, key, value[, headers]): ``LogRecord``, as ``LogReader`` gives
it, is one. Key and value are bytes or None, headers pairs of bytes. Sources: MemoryRecordsBuilder,
DefaultRecordBatch, LegacyRecord. Errors: ``coterie.CoterieError`` where a number does not fit its
field; ``coterie.CorruptData`` (``kind="codec"``) where the codec is not allowed.
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
    """Return one record batch v2.

    Parameters
    ----------
    records
        In order of offset, none below ``base_offset``. None at all gives the empty batch that
        compaction leaves: 61 bytes, codec 0.
    codec : int
        0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    append_time_ms : int, optional
        LogAppendTime: every record reads as of this time.
    delete_horizon_ms : int, optional
        Sets bit 6 of the attributes; the base timestamp is the horizon.
    base_timestamp_ms, max_timestamp_ms, last_offset_delta : int, optional
        In place of the first record's time, the greatest time, and the last record's offset less
        ``base_offset``: what compaction keeps of records that are gone. -1, -1 and 0 if empty.

    Notes
    -----
    What the coordinator writes: group metadata and tombstones with producer fields of -1, an
    OffsetCommit with ``base_sequence=0``, a TxnOffsetCommit with the producer's id and epoch,
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
    """Return one uncompressed batch of ``count`` records without headers, all at one time.

    ``records``: of each the size of its key and that of its value (-1: null), big-endian in four
    bytes each, then both. A coordinator writes one batch for each commit; this is what
    ``encode_batch`` gives for it, without an object for each record.
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
    """Return the control batch that ends a transaction: COMMIT, or ABORT.

    ``coordinator_epoch`` is that of the transaction coordinator.
    """

def encode_message_set(
    records: Iterable[_Record],
    magic: int,
    *,
    codec: int = 0,
    append_time_ms: int | None = None,
) -> bytes:
    """Return a message set of magic 0 or 1.

    Codec 0: an entry for each record. Otherwise one wrapper, under the last record's offset:
    inner offsets as they are in magic 0, counted from the first record in magic 1; the wrapper's
    time is the greatest, or ``append_time_ms``, which makes it LogAppendTime (magic 1). LZ4 in
    magic 0 has the header checksum that Kafka got wrong and kept.
    """
