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
    """One batch: its header as it stands, and its records.

    ``position`` and ``size`` are bytes in the given buffer; of a legacy wrapper ``base_offset`` is
    the first record's offset, as Kafka's tools print it. Timestamps are ms, ids -1 where none.
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
    """A skipped part of a segment: ``kind`` as ``coterie verify`` prints it."""

    position: int
    base_offset: int | None
    kind: str
    detail: str

@final
class LogReader:
    """Iterate over the whole batches of a segment's bytes, in order.

    What cannot be read is skipped as by ``--on-fault skip`` and noted in ``faults``, in order of
    position. A batch with a wrong checksum, an unknown magic or codec, or broken records is left
    out whole; a wrong length ends the segment. None of these raises.

    One thread at a time: a call during another one is a CoterieError.

    Parameters
    ----------
    data
        The bytes of a segment, from its first byte. Borrowed until the reader goes.
    check_crc
        False does not check checksums, as Kafka's file iterator does not.

    Notes
    -----
    Sources: FileLogInputStream, DefaultRecordBatch, AbstractLegacyRecordBatch.
    """

    faults: list[BatchFault]

    def __new__(cls, data: Buffer, *, check_crc: bool = True) -> Self: ...
    def __iter__(self) -> Iterator[LogBatch]: ...
    def __next__(self) -> LogBatch: ...

def batch_boundaries(data: Buffer, max_bytes: int) -> list[int]:
    """Return the ascending positions at which a segment may be cut, 0 and its size included.

    Each piece holds whole batches and at most ``max_bytes``, but for a batch that is longer. What
    follows a wrong length stays with the last batch before it that can be read, so that a scan of
    the piece still knows which base offset would be plausible there. Apart from that only headers
    are looked at; empty bytes: ``[0]``.
    """
