from collections.abc import Iterator
from typing import NamedTuple, final

from typing_extensions import Buffer, Self

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
