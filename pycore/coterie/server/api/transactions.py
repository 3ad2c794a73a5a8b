"""The transaction APIs of producers, brokers and admin clients.

Source: ``KafkaApis.scala``, ``TransactionCoordinator.scala``, ``TransactionStateManager.scala``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

from coterie.coordinator.transaction import NONE_YET, Partition, State, Transaction
from coterie.coordinator.transaction_records import by_topic
from coterie.server.api.call import Call, Slices
from coterie.server.api.expressions import InvalidExpression, compiled
from coterie.server.api.refusals import added_partitions
from coterie.server.api.rows_in_slices import Pace, answer_in_slices
from coterie.server.services.topics import OFFSETS_TOPIC
from coterie.values import Error

Body = Mapping[str, Any]
_MARKER_ENTRIES = 10  # a marker costs as much as so many entries of a list
# The states that a filter may name. A transaction here is never in PrepareEpochFence.
STATES = frozenset([*(state.title for state in State), "PrepareEpochFence"])


def init_producer_id(call: Call) -> None:
    """Answer InitProducerId of a new producer, or of one that continues with its id and epoch."""
    body = call.body
    expected = (body["producerId"], body["producerEpoch"])
    if NONE_YET in expected and expected != (NONE_YET, NONE_YET):
        error, producer_id, epoch = Error.INVALID_REQUEST, NONE_YET, NONE_YET
    else:
        error, producer_id, epoch = call.cluster.transactions.init_producer_id(
            body["transactionalId"],
            body["transactionTimeoutMs"],
            None if NONE_YET in expected else expected,
        )
    call.answer(
        {
            "errorCode": _error_code(error, call, 4),
            "producerId": producer_id,
            "producerEpoch": epoch,
        }
    )


def add_offsets_to_txn(call: Call) -> None:
    """Add the group's partition of the offsets topic to a transaction."""
    body, cluster = call.body, call.cluster
    offsets = (OFFSETS_TOPIC, cluster.groups.partition_for(body["groupId"]))
    error = cluster.transactions.add_partitions(
        body["transactionalId"], body["producerId"], body["producerEpoch"], [offsets]
    )
    call.answer({"errorCode": _error_code(error, call, 2)})


def end_txn(call: Call) -> None:
    """Commit or abort a transaction; since version 5, with the epoch for the next one."""
    body, transactions = call.body, call.cluster.transactions
    producer = (body["transactionalId"], body["producerId"], body["producerEpoch"])
    if call.api_version < 5:
        error = transactions.end_txn(*producer, committed=body["committed"])
        return call.answer({"errorCode": _error_code(error, call, 2)})
    error, producer_id, epoch = transactions.end_txn_with_bump(
        *producer, committed=body["committed"]
    )
    return call.answer({"errorCode": error, "producerId": producer_id, "producerEpoch": epoch})


def add_partitions_to_txn(call: Call) -> Slices:
    """Add partitions to a transaction, or (version 4 and later, from brokers) to several.

    They are checked in slices, and added in one step.

    As in Kafka, a request of version 4 or later without transactions is never answered.
    """
    body = call.body
    if call.api_version >= 4:
        results = []
        for entry in body["transactions"]:
            rows = yield from _added(call, entry)
            results.append({"transactionalId": entry["transactionalId"], "topicResults": rows})
        if results:
            call.answer({"resultsByTransaction": results})
        return
    transaction = {
        "transactionalId": body["v3AndBelowTransactionalId"],
        "producerId": body["v3AndBelowProducerId"],
        "producerEpoch": body["v3AndBelowProducerEpoch"],
        "topics": body["v3AndBelowTopics"],
        "verifyOnly": False,
    }
    added = yield from _added(call, transaction)
    call.answer({"resultsByTopicV3AndBelow": added})


def _added(call: Call, transaction: Body) -> Generator[None, None, list[dict[str, Any]]]:
    """Add all partitions or none; return their errors by topic."""
    cluster, pace = call.cluster, Pace()
    partitions: dict[Partition, None] = {}
    unknown: set[Partition] = set()
    for partition in _partitions(transaction["topics"], "partitions"):
        partitions[partition] = None
        if cluster.topics.partition(*partition) is None:
            unknown.add(partition)
        if pace.is_over():
            yield
    errors: Mapping[Partition, Error]
    if unknown:
        errors = {
            partition: Error.UNKNOWN_TOPIC_OR_PARTITION if partition in unknown
            else Error.OPERATION_NOT_ATTEMPTED
            for partition in partitions
        }  # fmt: skip
        return _by_topic(errors, "resultsByPartition", "partitionErrorCode")
    producer = (
        transaction["transactionalId"],
        transaction["producerId"],
        transaction["producerEpoch"],
    )
    if transaction["verifyOnly"]:
        errors = cluster.transactions.verify_partitions(*producer, partitions)
        return _by_topic(errors, "resultsByPartition", "partitionErrorCode")
    added = cluster.transactions.add_partitions(
        *producer, partitions, client_version=2 if call.api_version > 3 else 0
    )
    error = _error_code(added, call, 2)
    return added_partitions(transaction["topics"], error)  # includes topics without partitions


def write_txn_markers(call: Call) -> Slices:
    """Write the markers that a transaction coordinator sends to the leaders of partitions.

    They are written in slices: each partition for itself.
    """
    answers: dict[int, dict[Partition, Error]] = {}
    if any(marker["producerId"] == NONE_YET for marker in call.body["markers"]):
        return call.refuse(Error.UNKNOWN_SERVER_ERROR)  # Kafka throws
    for marker in call.body["markers"]:
        partitions = _partitions(marker["topics"], "partitionIndexes")
        errors = yield from _marked(call, marker, partitions)
        answers.setdefault(marker["producerId"], {}).update(errors)
    return call.answer(
        {
            "markers": [
                {
                    "producerId": producer_id,
                    "topics": _by_topic(errors, "partitions", "errorCode"),
                }
                for producer_id, errors in answers.items()
            ]
        }
    )


def _marked(
    call: Call, marker: Body, partitions: Iterable[Partition]
) -> Generator[None, None, dict[Partition, Error]]:
    """Write one marker to partitions; return their errors."""
    cluster, pace = call.cluster, Pace()
    written = (
        marker["producerId"],
        marker["producerEpoch"],
        marker["coordinatorEpoch"],
        marker["transactionResult"],
    )
    version = marker.get("transactionVersion", 0)  # WriteTxnMarkers 2 has it
    errors: dict[Partition, Error] = {}
    of_groups = []
    for topic, number in partitions:
        if pace.is_over(_MARKER_ENTRIES):
            yield
        log = cluster.topics.partition(topic, number)
        if log is None:
            errors[topic, number] = Error.UNKNOWN_TOPIC_OR_PARTITION
        elif topic == OFFSETS_TOPIC:
            of_groups.append(number)
        else:
            errors[topic, number] = log.append_marker(*written, cluster.now_ms, version)
    if of_groups:
        ended = cluster.groups.end_txn(*written, of_groups, version)
        errors.update({(OFFSETS_TOPIC, number): error for number, error in ended.items()})
    return errors


def describe_transactions(call: Call) -> Slices:
    """Describe transactions, in slices; an unknown id gets an error."""
    return answer_in_slices(call, lambda rows: {"transactionStates": rows}, _described(call))


def _described(call: Call) -> Iterator[dict[str, Any] | None]:
    transactions, pace = call.cluster.transactions, Pace()
    for transactional_id in call.body["transactionalIds"]:
        transaction = transactions.described(transactional_id)
        state: dict[str, Any] = {"transactionalId": transactional_id}
        if isinstance(transaction, Transaction):
            state |= {
                "transactionState": transaction.state.title,
                "transactionTimeoutMs": transaction.timeout_ms,
                "transactionStartTimeMs": transaction.start_ms,
                "producerId": transaction.producer_id,
                "producerEpoch": transaction.producer_epoch,
                "topics": [
                    {"topic": topic, "partitions": numbers}
                    for topic, numbers in by_topic(transaction.partitions).items()
                ],
            }
        else:
            state["errorCode"] = transaction
        yield state
        if isinstance(transaction, Transaction) and pace.is_over(len(transaction.partitions)):
            yield None


def list_transactions(call: Call) -> Slices | None:
    """List, in slices, the transactions that match the filters, and the unknown state filters.

    State filters are case-sensitive. A list of only unknown states matches nothing.
    """
    body, now_ms = call.body, call.cluster.now_ms
    states = dict.fromkeys(body["stateFilters"])
    producers = set(body["producerIdFilters"])
    longer_than_ms = body["durationFilter"]
    pattern: Any = None
    if body["transactionalIdPattern"]:
        try:
            pattern = compiled(body["transactionalIdPattern"])
        except InvalidExpression:
            call.answer({"errorCode": Error.INVALID_REGULAR_EXPRESSION})
            return None

    def rows() -> Iterator[dict[str, Any] | None]:
        pace = Pace()
        for transaction in list(call.cluster.transactions):
            if pace.is_over():
                yield None
            if (
                (pattern is None or pattern.fullmatch(transaction.transactional_id))
                and (not producers or transaction.producer_id in producers)
                and (not states or transaction.state.title in states)
                and (longer_than_ms < 0 or now_ms - transaction.start_ms > longer_than_ms)
            ):
                yield {
                    "transactionalId": transaction.transactional_id,
                    "producerId": transaction.producer_id,
                    "transactionState": transaction.state.title,
                }

    unknown = [transaction for transaction in states if transaction not in STATES]
    body = {"unknownStateFilters": unknown}
    return answer_in_slices(call, lambda some: {**body, "transactionStates": some}, rows())


def _partitions(topics: Iterable[Body], field: str) -> Iterator[Partition]:
    for topic in topics:
        for number in topic[field]:
            yield topic["name"], number


def _by_topic(errors: Mapping[Partition, Error], of_topic: str, code: str) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, number), error in errors.items():
        topics.setdefault(topic, []).append({"partitionIndex": number, code: int(error)})
    return [{"name": name, of_topic: results} for name, results in topics.items()]


def _error_code(error: Error, call: Call, since: int) -> int:
    """Return the code of an error; older versions have no PRODUCER_FENCED."""
    if error is Error.PRODUCER_FENCED and call.api_version < since:
        return int(Error.INVALID_PRODUCER_EPOCH)
    return int(error)
