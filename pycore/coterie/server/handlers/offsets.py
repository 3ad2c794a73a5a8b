"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

Topics and partitions that do not exist are refused one by one; the others go to the coordinator.
Source: ``KafkaApis.scala``, ``GroupCoordinatorAdapter.scala`` and the response classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from coterie._core.coordinator.effects import OPS
from coterie.server.handling import Call
from coterie.server.offsets_log import NAME
from coterie.values import Error, OffsetFetchResponse, PartitionError

__all__ = ["offset_commit", "offset_delete", "offset_fetch", "txn_offset_commit"]

Body = dict[str, Any]
Refused = dict[str, list[Body]]  # by topic: the errors of its partitions
_COMMIT, _TXN_COMMIT = OPS["offset_commit"], OPS["txn_offset_commit"]
_FETCH, _DELETE = OPS["offset_fetch"], OPS["offset_delete"]
_INT64 = 1 << 64


def offset_commit(call: Call) -> None:
    """Commit offsets; version 0 kept them in ZooKeeper, which is no more."""
    body, version = call.body, call.api_version
    known, refused = _split(call, body["topics"])
    if not known:
        return call.answer({"topics": _topics(refused)})
    if version == 0:
        return call.refuse(Error.UNSUPPORTED_VERSION)
    now_ms, kept_ms = call.cluster.now_ms, body["retentionTimeMs"]
    expiry = -1 if kept_ms == -1 else _wrapped(now_ms + kept_ms)
    rows = _rows(known, expiry)
    return call.cluster.groups.ask(
        _COMMIT, body["groupId"], body["generationIdOrMemberEpoch"], body["memberId"],
        body["groupInstanceId"], (rows, -1, -1), _told(call, refused),
    )  # fmt: skip


def txn_offset_commit(call: Call) -> None:
    """Commit offsets in a transaction, which has to hold the group's partition."""
    body = call.body
    known, refused = _split(call, body["topics"])
    if not known:
        return call.answer({"topics": _topics(refused)})
    groups = call.cluster.groups
    producer, epoch = body["producerId"], body["producerEpoch"]
    number = groups.partition_for(body["groupId"])
    written = groups.log.partition(number).producers.known.get(producer)
    error = Error.NONE
    if not groups.log.has_ongoing_transaction(number, producer):
        error = call.cluster.transactions.verify(
            body["transactionalId"], producer, epoch, NAME, number, abortable=call.api_version >= 4
        )
    elif written is not None and epoch < written.epoch:
        error = Error.INVALID_PRODUCER_EPOCH  # the log has a newer producer
    if error:
        errors = [PartitionError(*key, error) for key in dict.fromkeys(_keys(known))]
        return call.answer({"topics": _topics(refused, errors)})
    return groups.ask(
        _TXN_COMMIT, body["groupId"], body["generationId"], body["memberId"],
        body["groupInstanceId"], (_rows(known, -1), producer, epoch), _told(call, refused),
    )  # fmt: skip


def offset_fetch(call: Call) -> None:
    """Tell committed offsets: of one group to version 7, then of several.

    A request that names no group is never answered.
    """
    body, version = call.body, call.api_version
    if version == 0:  # they were in ZooKeeper
        return call.refuse(Error.UNSUPPORTED_VERSION)
    if version < 8:
        asked = [(body["groupId"], body["topics"])]
    else:
        asked = [(each["groupId"], each["topics"]) for each in body["groups"]]
    found: list[Body] = []

    def answered(response: OffsetFetchResponse) -> None:
        if version == 1 and response.error:  # it has no error of the group
            return call.refuse(response.error)
        found.append({"groupId": asked[len(found)][0], **_fetched(response)})
        if len(found) == len(asked):
            call.answer({"groups": found} if version >= 8 else found[0])
        return None

    for group_id, topics in asked:
        keys = None if topics is None else tuple(
            [(each["name"], number) for each in topics for number in each["partitionIndexes"]]
        )  # fmt: skip
        call.cluster.groups.ask(
            _FETCH, group_id, -1, None, None, (keys, body["requireStable"]), answered
        )
    return None


def offset_delete(call: Call) -> None:
    """Forget committed offsets of topics to which no member subscribes."""
    body = call.body
    known, refused = _split(call, body["topics"])

    def answered(found: Any) -> None:
        if found.error:
            call.answer({"errorCode": found.error})
        else:
            call.answer({"topics": _topics(refused, found.partitions)})

    call.cluster.groups.ask(_DELETE, body["groupId"], -1, None, None, tuple(_keys(known)), answered)


def _split(call: Call, topics: Iterable[Body]) -> tuple[list[Body], Refused]:
    """Return the topics with those partitions that exist, and the errors of the others.

    A topic that does not exist is told even if none of its partitions is asked for.
    """
    known: list[Body] = []
    refused: Refused = {}
    topic_of = call.cluster.topics.get
    for asked in topics:
        name, partitions = asked["name"], asked["partitions"]
        topic = topic_of(name)
        count = 0 if topic is None else len(topic.partitions)
        there = [each for each in partitions if 0 <= each["partitionIndex"] < count]
        if topic is None or len(there) < len(partitions):
            refused.setdefault(name, []).extend(
                {
                    "partitionIndex": each["partitionIndex"],
                    "errorCode": Error.UNKNOWN_TOPIC_OR_PARTITION,
                }
                for each in partitions
                if not 0 <= each["partitionIndex"] < count
            )
        if there:
            known.append({"name": name, "partitions": there})
    return known, refused


def _keys(topics: Iterable[Body]) -> Iterator[tuple[str, int]]:
    for topic in topics:
        for each in topic["partitions"]:
            yield topic["name"], each["partitionIndex"]


def _rows(topics: Iterable[Body], expiry: int) -> tuple[Any, ...]:
    """Return what is committed as the core takes it."""
    return tuple(
        [
            (
                (topic["name"], each["partitionIndex"]),
                each["committedOffset"],
                each["committedLeaderEpoch"],
                each["committedMetadata"] or "",
                None if each.get("commitTimestamp", -1) == -1 else each["commitTimestamp"],
                expiry,
            )
            for topic in topics
            for each in topic["partitions"]
        ]
    )


def _told(call: Call, refused: Refused) -> Any:
    """Return what answers a commit: those refused first, then what the coordinator says."""

    def answered(found: Any) -> None:
        call.answer({"topics": _topics(refused, found.partitions)})

    return answered


def _topics(refused: Refused, told: Iterable[PartitionError] = ()) -> list[Body]:
    """Return the errors of partitions, by topic: those refused first."""
    topics = {name: list(entries) for name, entries in refused.items()}
    for each in told:
        topics.setdefault(each.topic, []).append(
            {"partitionIndex": each.partition, "errorCode": each.error}
        )
    return [{"name": name, "partitions": entries} for name, entries in topics.items()]


def _fetched(response: OffsetFetchResponse) -> Body:
    """Return a group's offsets, by topic."""
    by_name: dict[str, list[Body]] = {}
    for found in response.partitions:
        by_name.setdefault(found.topic, []).append(
            {
                "partitionIndex": found.partition,
                "committedOffset": found.offset,
                "committedLeaderEpoch": found.leader_epoch,
                "metadata": found.metadata,
                "errorCode": found.error,
            }
        )
    return {
        "errorCode": response.error,
        "topics": [{"name": name, "partitions": each} for name, each in by_name.items()],
    }


def _wrapped(value: int) -> int:
    """Return a number as an int64 has it, where Java's addition goes over its end."""
    return (value + _INT64 // 2) % _INT64 - _INT64 // 2
