"""Validation of the records of producers. Source: UnifiedLog, LogValidator of Kafka 3.9."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coterie._core.codec.batch import LogReader, LogRecord
from coterie.server.services.batches import (
    ZSTD,
    Corrupt,
    Header,
    batches_of,
    compressed,
    converted,
    header,
    is_one,
    whole,
)
from coterie.server.topic_settings import LogSettings
from coterie.values import Error

_CODECS = 5


class RecordError(NamedTuple):
    """A refused record: its index in the batch and the reason."""

    number: int
    message: str


class Refused(Exception):
    """A refused write.

    ``reports_log_start``: whether the response has the log start offset, as for most errors.
    """

    def __init__(
        self,
        error: Error,
        *,
        reports_log_start: bool = True,
        message: str | None = None,
        records: Sequence[RecordError] = (),
    ) -> None:
        super().__init__(error)
        self.error, self.reports_log_start = error, reports_log_start
        self.message, self.records = message, tuple(records)


class Checked(NamedTuple):
    """A valid batch of magic 2; ``max_timestamp`` is computed from its records."""

    batch: bytes
    head: Header
    max_timestamp: int


def checked(data: bytes, settings: LogSettings, place: str, now_ms: int) -> Checked | None:
    """Validate the records of a producer; None if there are none."""
    try:
        batches = [data] if is_one(data) else list(batches_of(data))
    except Corrupt as error:
        raise Refused(Error.CORRUPT_MESSAGE, reports_log_start=False) from error
    if not batches:
        return None
    _check_sizes_and_checksums(batches, settings)
    batch = b"".join(batches)
    magics = [each[16] for each in batches]
    if magics != [2]:
        if len(set(magics)) > 1 or 2 in magics:
            raise Refused(Error.INVALID_RECORD)
        batch = _as_magic_2(batch)
    head = header(batch)
    _check_header(head)
    if head.codec and not settings.looks_at_records:
        return Checked(batch, head, head.max_timestamp)
    records = _records(batch)
    _check_records(records, head, settings, place, now_ms)
    return Checked(batch, head, max(r.timestamp for r in records))


def _check_sizes_and_checksums(batches: Sequence[bytes], settings: LogSettings) -> None:
    """Refuse a batch that is too large, or has a wrong checksum or compression type."""
    for batch in batches:
        if batch[16] == 2 and int.from_bytes(batch[:8], "big"):
            raise Refused(Error.INVALID_RECORD)
        if len(batch) > settings.max_message_bytes:
            raise Refused(Error.MESSAGE_TOO_LARGE, reports_log_start=False)
        if batch[16] == 2 and not whole(batch):
            raise Refused(Error.CORRUPT_MESSAGE, reports_log_start=False)
        if compressed(batch) >= (_CODECS if batch[16] == 2 else ZSTD):
            raise Refused(Error.UNKNOWN_SERVER_ERROR)


def _as_magic_2(data: bytes) -> bytes:
    try:
        return converted(data)
    except Corrupt as error:
        raise Refused(Error.CORRUPT_MESSAGE, reports_log_start=False) from error


def _check_header(head: Header) -> None:
    """Refuse a header that is inconsistent or reserved for brokers."""
    if head.last_offset_delta < 0 or head.records != head.last_offset_delta + 1:
        raise Refused(Error.INVALID_RECORD)
    if head.control or (head.producer_id >= 0 and head.base_sequence < 0):
        raise Refused(Error.INVALID_RECORD)


def _records(batch: bytes) -> list[LogRecord]:
    reader = LogReader(batch, check_crc=False)
    records = [record for batch_of_records in reader for record in batch_of_records.records]
    if reader.faults:
        raise Refused(Error.INVALID_RECORD)
    return records


def _check_records(
    records: Sequence[LogRecord], head: Header, settings: LogSettings, place: str, now_ms: int
) -> None:
    invalid: list[RecordError] = []
    error, reason = Error.INVALID_RECORD, ""
    earliest = now_ms - settings.timestamp_before_max_ms
    latest = now_ms + settings.timestamp_after_max_ms
    allowed = (
        f"[{earliest}, {latest if latest < 2**63 else latest - 2**64}]"  # Java's sum overflows
    )
    for index, record in enumerate(records):
        if settings.compacted and record.key is None:
            reason = f"Compacted topic cannot accept message without key in topic partition {place}"
        elif head.append_time and (settings.append_time or record.timestamp == -1):
            error = Error.INVALID_TIMESTAMP
            reason = "Invalid timestamp type in message. Producer should not set LogAppendTime."
        elif not settings.append_time and not (
            record.timestamp == -1 or earliest <= record.timestamp <= latest
        ):
            error = Error.INVALID_TIMESTAMP
            reason = (
                f"Timestamp {record.timestamp} of message with offset {record.offset} is out of "
                f"range. The timestamp should be within {allowed}"
            )
        else:
            continue
        invalid.append(RecordError(index, reason))
    if not invalid:
        return
    if error is Error.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={w.number}, message={_quoted(w.message)})" for w in invalid[:3]
        )
        message = (
            f"One or more records have been rejected due to {len(invalid)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    raise Refused(error, message=message, records=invalid)


def _quoted(text: str) -> str:
    return f"'{text}'"
