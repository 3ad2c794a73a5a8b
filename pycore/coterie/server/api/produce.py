"""Produce: append the batches of clients to partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from coterie.server.api.call import Call, Slices
from coterie.server.api.rows_in_slices import Pace
from coterie.server.api.table import refusal
from coterie.server.rate_limited_log import quoted
from coterie.server.services.batch_checks import Refused
from coterie.server.services.batches import (
    ZSTD,
    Corrupt,
    batches_of,
    compressed,
    header,
    is_one,
    is_plain,
)
from coterie.server.services.partition import PartitionLog
from coterie.values import Error

_TRANSACTIONAL_ID, _ACKS = 0, 1  # fields of the request's row
_MAGIC_2 = 3
_ZSTD_SINCE = 7
_ABORTABLE = 11
_ADDS_PARTITIONS = 12
_BY_IDS = 13
_ENTRIES = 10  # an append costs as much as so many entries of a list
_ADMIN = "__admin_client"
_RETRY_LATER = {
    Error.CONCURRENT_TRANSACTIONS,
    Error.NETWORK_EXCEPTION,
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_COORDINATOR,
}


class PartitionRow(NamedTuple):
    """The response row of a partition, with its fields in the table's order."""

    number: int
    error: int
    base_offset: int
    append_time_ms: int
    log_start_offset: int
    record_errors: Sequence[tuple[int, str | None]]
    message: str | None
    current_leader: None


class _Topic(NamedTuple):
    """A topic of the request: its name, and since version 13 its id; None: unknown."""

    name: str | None
    topic_id: str | None


def produce(call: Call) -> Slices:
    """Append the records of a request, in slices; with acks 0 there is no response."""
    transactional_id, acks, _, topics = call.row
    entries = [
        (_Topic(*_identity(call, name, topic_id)), number, records)
        for name, topic_id, partitions in topics
        for number, records in partitions
    ]
    if any(records is None for _, _, records in entries):
        return call.leave_silent("brings null in the place of records")
    try:
        producers = set(_transactional(entries))
    except Corrupt as error:
        return _refuse(call, Error.CORRUPT_MESSAGE, str(error))
    if producers and transactional_id is None:
        return _refuse(call, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if len(producers) > 1:
        message = "Transactional records contained more than one producer ID"
        return _refuse(call, Error.INVALID_PRODUCER_ID_MAPPING, message)
    answers: dict[_Topic, list[PartitionRow]] = {}
    failed, pace = False, Pace()
    for topic, index, records in entries:
        if pace.is_over(_ENTRIES):
            yield
        answer = _write(call, topic.name, index, records)
        failed = failed or answer.error != Error.NONE
        answers.setdefault(topic, []).append(answer)
    if acks == 0:
        return call.drop(_first_failure(answers)) if failed else call.no_answer()
    return call.answer(([(*topic, found) for topic, found in answers.items()], 0, None))


def _identity(call: Call, name: str | None, topic_id: str | None) -> tuple[str | None, str | None]:
    """Return the name and the id of a requested topic; an unknown id has no name."""
    if call.api_version < _BY_IDS:
        return name, None
    topic = call.cluster.topics.by_id(topic_id or "")
    return None if topic is None else topic.name, topic_id


def _first_failure(answers: dict[_Topic, list[PartitionRow]]) -> str:
    """Describe the first failed partition for the log."""
    topic, row = next(
        (topic, candidate)
        for topic, rows in answers.items()
        for candidate in rows
        if candidate.error != Error.NONE
    )
    where = f"partition {row.number} of {quoted(topic.name or topic.topic_id)}"
    return f"wants no acks and failed with {Error(row.error).name} in {where}"


def _refuse(call: Call, error: Error, message: str | None = None) -> None:
    answer = refusal(call.api_key, call.api_version, call.body, error)
    if answer is None:
        return call.refuse(error)
    for topic in answer["responses"]:
        for partition in topic["partitionResponses"]:
            partition["errorMessage"] = message
    return call.answer(answer)


def _transactional(entries: list[tuple[Any, int, bytes]]) -> Iterator[tuple[int, int]]:
    """Yield the producer id and epoch of each transactional batch."""
    for _, _, records in entries:
        if is_plain(records):
            continue
        for batch in batches_of(records):
            if batch[16] == 2 and len(batch) >= 61:
                head = header(batch)
                if head.transactional and head.producer_id >= 0:
                    yield head.producer_id, head.producer_epoch


def _write(call: Call, name: str | None, index: int, records: bytes) -> PartitionRow:
    """Append to one partition; return its row."""
    if name is None:
        return _row(index, Error.UNKNOWN_TOPIC_ID)
    log = call.cluster.topics.partition(name, index)
    if log is None:
        return _row(index, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if call.api_version >= _MAGIC_2:
        error = _wrong_form(records, call.api_version)
        if error is not Error.NONE:
            return _row(index, error)
    error = _unverified(call, log, records)
    if error is not Error.NONE:
        return _row(index, *_verification_error(error, call.api_version))
    if call.row[_ACKS] not in (-1, 0, 1):
        return _row(index, Error.INVALID_REQUIRED_ACKS)
    if log.internal and call.client_id != _ADMIN:
        return _row(index, Error.INVALID_TOPIC_EXCEPTION)
    try:
        appended = log.produce(records)
    except Refused as refused:
        record_errors = [(record.number, record.message) for record in refused.records]
        start = log.log_start_offset if refused.reports_log_start else -1
        return _row(index, refused.error, refused.message)._replace(
            log_start_offset=start, record_errors=record_errors
        )
    return PartitionRow(
        index, Error.NONE, appended.base_offset, appended.append_time_ms,
        appended.log_start_offset, (), None, None,
    )  # fmt: skip


def _wrong_form(records: bytes, version: int) -> Error:
    """Return the error of records that are not one batch of magic 2, as the version requires."""
    batches = [records] if is_one(records) else list(batches_of(records))
    if [batch[16] for batch in batches] != [2]:
        return Error.INVALID_RECORD
    if version < _ZSTD_SINCE and ZSTD in map(compressed, batches):
        return Error.UNSUPPORTED_COMPRESSION_TYPE
    return Error.NONE


def _unverified(call: Call, log: PartitionLog, records: bytes) -> Error:
    """Return an error if the partition is not in the producer's transaction.

    The transaction coordinator is called only if the partition has no open transaction. Since
    version 12 it adds a partition that is missing.
    """
    if is_plain(records):
        return Error.NONE
    replays = call.cluster.groups.replays
    for producer_id, epoch in _transactional([("", 0, records)]):
        if not log.has_ongoing_transaction(producer_id, epoch if replays else None):
            error: Error = call.cluster.transactions.verify(
                call.row[_TRANSACTIONAL_ID],
                producer_id,
                epoch,
                log.topic,
                log.number,
                abortable=call.api_version >= _ABORTABLE,
                adds=call.api_version >= _ADDS_PARTITIONS,
            )
            return error
    return Error.NONE


def _verification_error(error: Error, version: int) -> tuple[Error, str | None]:
    """Map an error of the verification to the error that a producer gets."""
    if error is Error.INVALID_TXN_STATE:
        return error, "Partition was not added to the transaction"
    if error is Error.CONCURRENT_TRANSACTIONS and version >= _ADDS_PARTITIONS:
        return error, None
    if error in _RETRY_LATER:
        return Error.NOT_ENOUGH_REPLICAS, (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error.name}"
        )
    return error, None


def _row(index: int, error: Error, message: str | None = None) -> PartitionRow:
    return PartitionRow(index, error, -1, -1, -1, (), message, None)
