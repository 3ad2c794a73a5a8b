"""What is asked of transactions: those of a producer and its brokers, and those of an admin client.

Source: ``KafkaApis.scala``, ``TransactionCoordinator.scala``, ``TransactionStateManager.scala``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coterie.server.api.call import Call
from coterie.server.api.refusals import added_partitions
from coterie.server.services.txn.coordinator import OFFSETS_TOPIC
from coterie.server.services.txn.records import by_topic
from coterie.server.services.txn.transaction import NONE_YET, Partition, State, Transaction
from coterie.values import Error

__all__ = [
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "describe_transactions",
    "end_txn",
    "init_producer_id",
    "list_transactions",
    "write_txn_markers",
]

Body = Mapping[str, Any]
# Those that a filter may name; the last one is a fence on its way, which ends within a request.
STATES = frozenset([*(state.title for state in State), "PrepareEpochFence"])


def init_producer_id(call: Call) -> None:
    """Answer InitProducerId: a new producer, or one that goes on with its id and epoch."""
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
            "errorCode": _told(error, call, 4),
            "producerId": producer_id,
            "producerEpoch": epoch,
        }
    )


def add_offsets_to_txn(call: Call) -> None:
    """Answer AddOffsetsToTxn: the group's partition of the offsets topic comes in."""
    body, cluster = call.body, call.cluster
    offsets = (OFFSETS_TOPIC, cluster.groups.partition_for(body["groupId"]))
    error = cluster.transactions.add_partitions(
        body["transactionalId"], body["producerId"], body["producerEpoch"], [offsets]
    )
    call.answer({"errorCode": _told(error, call, 2)})


def end_txn(call: Call) -> None:
    """Answer EndTxn."""
    body = call.body
    error = call.cluster.transactions.end_txn(
        body["transactionalId"],
        body["producerId"],
        body["producerEpoch"],
        committed=body["committed"],
    )
    call.answer({"errorCode": _told(error, call, 2)})


def add_partitions_to_txn(call: Call) -> None:
    """Answer AddPartitionsToTxn; from version 4 on, for brokers, of several transactions at once.

    One that asks for none is never answered, as in Kafka.
    """
    body = call.body
    if call.api_version >= 4:
        results = [
            {"transactionalId": each["transactionalId"], "topicResults": _added(call, each)}
            for each in body["transactions"]
        ]
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
    call.answer({"resultsByTopicV3AndBelow": _added(call, transaction)})


def _added(call: Call, transaction: Body) -> list[dict[str, Any]]:
    """Add partitions, all or none, and return what is answered of each, by topic."""
    cluster = call.cluster
    partitions = list(dict.fromkeys(_partitions(transaction["topics"], "partitions")))
    unknown = {each for each in partitions if cluster.topics.partition(*each) is None}
    errors: Mapping[Partition, Error]
    if unknown:
        errors = {
            each: Error.UNKNOWN_TOPIC_OR_PARTITION if each in unknown
            else Error.OPERATION_NOT_ATTEMPTED
            for each in partitions
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
    error = _told(cluster.transactions.add_partitions(*producer, partitions), call, 2)
    return added_partitions(transaction["topics"], error)  # topics without a partition, too


def write_txn_markers(call: Call) -> None:
    """Answer WriteTxnMarkers: what a transaction coordinator asks of those who lead partitions."""
    answers: dict[int, dict[Partition, Error]] = {}
    if any(marker["producerId"] == NONE_YET for marker in call.body["markers"]):
        return call.refuse(Error.UNKNOWN_SERVER_ERROR)  # Kafka throws
    for marker in call.body["markers"]:
        partitions = _partitions(marker["topics"], "partitionIndexes")
        answers.setdefault(marker["producerId"], {}).update(_marked(call, marker, partitions))
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


def _marked(call: Call, marker: Body, partitions: Iterable[Partition]) -> dict[Partition, Error]:
    """Write one marker to partitions."""
    cluster = call.cluster
    written = (
        marker["producerId"],
        marker["producerEpoch"],
        marker["coordinatorEpoch"],
        marker["transactionResult"],
    )
    errors: dict[Partition, Error] = {}
    of_groups = []
    for topic, number in partitions:
        log = cluster.topics.partition(topic, number)
        if log is None:
            errors[topic, number] = Error.UNKNOWN_TOPIC_OR_PARTITION
        elif topic == OFFSETS_TOPIC:
            of_groups.append(number)
        else:
            errors[topic, number] = log.append_marker(*written, cluster.now_ms)
    if of_groups:
        ended = cluster.groups.end_txn(*written, of_groups)
        errors.update({(OFFSETS_TOPIC, number): error for number, error in ended.items()})
    return errors


def describe_transactions(call: Call) -> None:
    """Answer DescribeTransactions: one entry for each id that is named, an unknown one's error."""
    transactions = call.cluster.transactions
    states: list[dict[str, Any]] = []
    for transactional_id in call.body["transactionalIds"]:
        found = transactions.described(transactional_id)
        told: dict[str, Any] = {"transactionalId": transactional_id}
        if isinstance(found, Transaction):
            told |= {
                "transactionState": found.state.title,
                "transactionTimeoutMs": found.timeout_ms,
                "transactionStartTimeMs": found.start_ms,
                "producerId": found.producer_id,
                "producerEpoch": found.producer_epoch,
                "topics": [
                    {"topic": topic, "partitions": numbers}
                    for topic, numbers in by_topic(found.partitions).items()
                ],
            }
        else:
            told["errorCode"] = found
        states.append(told)
    call.answer({"transactionStates": states})


def list_transactions(call: Call) -> None:
    """Answer ListTransactions: the ids that fit, and which of the states asked for do not exist.

    States are compared with their case; a list that names unknown ones alone fits nothing.
    """
    body, now_ms = call.body, call.cluster.now_ms
    states = dict.fromkeys(body["stateFilters"])
    producers = set(body["producerIdFilters"])
    longer_than_ms = body["durationFilter"]
    found = [
        {
            "transactionalId": each.transactional_id,
            "producerId": each.producer_id,
            "transactionState": each.state.title,
        }
        for each in call.cluster.transactions
        if (not producers or each.producer_id in producers)
        and (not states or each.state.title in states)
        and (longer_than_ms < 0 or now_ms - each.start_ms > longer_than_ms)
    ]
    unknown = [each for each in states if each not in STATES]
    call.answer({"unknownStateFilters": unknown, "transactionStates": found})


def _partitions(topics: Iterable[Body], field: str) -> Iterator[Partition]:
    for topic in topics:
        for number in topic[field]:
            yield topic["name"], number


def _by_topic(errors: Mapping[Partition, Error], of_topic: str, code: str) -> list[dict[str, Any]]:
    """Return errors as an answer has them: partitions under their topic."""
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, number), error in errors.items():
        topics.setdefault(topic, []).append({"partitionIndex": number, code: int(error)})
    return [{"name": name, of_topic: results} for name, results in topics.items()]


def _told(error: Error, call: Call, since: int) -> int:
    """Return what is told of an error: older clients know no PRODUCER_FENCED."""
    if error is Error.PRODUCER_FENCED and call.api_version < since:
        return int(Error.INVALID_PRODUCER_EPOCH)
    return int(error)
