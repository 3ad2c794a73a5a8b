"""What a client may write: the checks of Kafka's UnifiedLog and LogValidator, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coterie._core.codec.reader import LogReader, LogRecord
from coterie.server.services.data.batches import (
    Corrupt,
    Header,
    batches_of,
    compressed,
    converted,
    header,
    is_one,
    whole,
)
from coterie.server.services.data.settings import LogSettings
from coterie.values import Error

__all__ = ["Checked", "RecordError", "Refused", "checked"]

_CODECS = 5
_ZSTD = 4


class RecordError(NamedTuple):
    """A record that is refused: its number in the batch, and why."""

    number: int
    message: str


class Refused(Exception):
    """A write that is refused.

    ``told``: whether the answer says where the log begins, as Kafka's does for most errors.
    """

    def __init__(
        self,
        error: Error,
        *,
        told: bool = True,
        message: str | None = None,
        records: Sequence[RecordError] = (),
    ) -> None:
        super().__init__(error)
        self.error, self.told = error, told
        self.message, self.records = message, tuple(records)


class Checked(NamedTuple):
    """One batch of magic 2 that may be written; ``max_timestamp`` is that of its records."""

    batch: bytes
    head: Header
    max_timestamp: int


def checked(data: bytes, settings: LogSettings, place: str, now_ms: int) -> Checked | None:
    """Check what a client wants written; None: there is nothing in it.

    Raises
    ------
    Refused
        What Kafka refuses.
    """
    try:
        batches = [data] if is_one(data) else list(batches_of(data))
    except Corrupt as error:
        raise Refused(Error.CORRUPT_MESSAGE, told=False) from error
    if not batches:
        return None
    _fitting(batches, settings)
    batch = batches[0]
    if batch[16] != 2 or len(batches) > 1:
        if any(each[16] != batch[16] for each in batches) or batch[16] == 2:
            raise Refused(Error.INVALID_RECORD)
        batch = _as_magic_2(b"".join(batches))
    head = header(batch)
    _well_formed(head)
    if head.codec and not settings.looks_at_records:
        return Checked(batch, head, head.max_timestamp)
    records = _records(batch)
    _fine(records, head, settings, place, now_ms)
    return Checked(batch, head, max((r.timestamp for r in records), default=-1))


def _fitting(batches: Sequence[bytes], settings: LogSettings) -> None:
    """Refuse what is too large, or whose checksum or compression is wrong."""
    for batch in batches:
        if batch[16] == 2 and int.from_bytes(batch[:8], "big"):
            raise Refused(Error.INVALID_RECORD)
        if len(batch) > settings.max_message_bytes:
            raise Refused(Error.MESSAGE_TOO_LARGE, told=False)
        if batch[16] == 2 and not whole(batch):
            raise Refused(Error.CORRUPT_MESSAGE, told=False)
        if compressed(batch) >= (_CODECS if batch[16] == 2 else _ZSTD):
            raise Refused(Error.UNKNOWN_SERVER_ERROR)


def _as_magic_2(data: bytes) -> bytes:
    try:
        return converted(data)
    except Corrupt as error:
        raise Refused(Error.CORRUPT_MESSAGE, told=False) from error


def _well_formed(head: Header) -> None:
    """Refuse a header that does not fit itself, or that only a broker may write."""
    if head.last_offset_delta < 0 or head.records != head.last_offset_delta + 1:
        raise Refused(Error.INVALID_RECORD)
    if head.control or (head.producer_id >= 0 and head.base_sequence < 0):
        raise Refused(Error.INVALID_RECORD)


def _records(batch: bytes) -> list[LogRecord]:
    reader = LogReader(batch, check_crc=False)
    found = [record for each in reader for record in each.records]
    if reader.faults:
        raise Refused(Error.INVALID_RECORD)
    return found


def _fine(
    records: Sequence[LogRecord], head: Header, settings: LogSettings, place: str, now_ms: int
) -> None:
    """Refuse the batch if one of its records is refused."""
    wrong: list[RecordError] = []
    error, said = Error.INVALID_RECORD, ""
    least = now_ms - settings.timestamp_before_max_ms
    most = now_ms + settings.timestamp_after_max_ms
    told = f"[{least}, {most if most < 2**63 else most - 2**64}]"  # Java's sum overflows
    for index, record in enumerate(records):
        if settings.compacted and record.key is None:
            said = f"Compacted topic cannot accept message without key in topic partition {place}"
        elif head.append_time and (settings.append_time or record.timestamp == -1):
            error = Error.INVALID_TIMESTAMP
            said = "Invalid timestamp type in message. Producer should not set LogAppendTime."
        elif not settings.append_time and not (
            record.timestamp == -1 or least <= record.timestamp <= most
        ):
            error = Error.INVALID_TIMESTAMP
            said = (
                f"Timestamp {record.timestamp} of message with offset {record.offset} is out of "
                f"range. The timestamp should be within {told}"
            )
        else:
            continue
        wrong.append(RecordError(index, said))
    if not wrong:
        return
    if error is Error.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={w.number}, message={_quoted(w.message)})" for w in wrong[:3]
        )
        message = (
            f"One or more records have been rejected due to {len(wrong)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    raise Refused(error, message=message, records=wrong)


def _quoted(text: str) -> str:
    return f"'{text}'"
