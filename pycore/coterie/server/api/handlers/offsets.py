"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete.

Each unknown topic or partition gets an error; the coordinator handles the others.
Source: ``KafkaApis.scala``, ``GroupCoordinatorAdapter.scala`` and the response classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.operations import NUMBER
from coterie.server.api.call import Call
from coterie.server.services.data.topics import OFFSETS_TOPIC
from coterie.values import Error

__all__ = ["offset_commit", "offset_delete", "offset_fetch", "txn_offset_commit"]

Row = tuple[Any, ...]
Refused = dict[str, list[Row]]  # topic -> (partition, error)
_COMMIT, _TXN_COMMIT = NUMBER["offset_commit"], NUMBER["txn_offset_commit"]
_FETCH, _DELETE = NUMBER["offset_fetch"], NUMBER["offset_delete"]
_INT64 = 1 << 64
_UNKNOWN = int(Error.UNKNOWN_TOPIC_OR_PARTITION)
_PAIR = 2  # a row of a partition and its error
_SEVERAL_SINCE = 8  # version of OffsetFetch that names several groups
_NO_TOPIC_ID = (None,)  # the topic id, a field of later versions


def offset_commit(call: Call) -> None:
    """Commit offsets; version 0, which used ZooKeeper, is refused."""
    group_id, generation_id, member_id, instance, retention_ms, topics = call.row
    expiry = -1 if retention_ms == -1 else _wrapped(call.cluster.now_ms + retention_ms)
    refused: Refused = {}
    accepted = []
    for name, _, partitions in topics:
        count = _count(call, name, refused)
        for number, offset, epoch, timestamp, metadata in partitions:
            if 0 <= number < count:
                stamp = None if timestamp == -1 else timestamp
                accepted.append(((name, number), offset, epoch, metadata or "", stamp, expiry))
            else:
                refused.setdefault(name, []).append((number, _UNKNOWN))
    if not accepted:
        return call.answer((0, _topics(refused, (), _NO_TOPIC_ID)))
    if call.api_version == 0:
        return call.refuse(Error.UNSUPPORTED_VERSION)

    def answered(error: int, rows: Any) -> None:
        call.answer((0, _topics(refused, rows, _NO_TOPIC_ID)))

    groups = call.cluster.groups
    details: tuple[Any, ...] = (tuple(accepted), -1, -1)
    if groups.replays:  # it checks members of consumer groups by the version
        details = (*details, call.api_version, -1)
    return groups.ask_row(_COMMIT, group_id, generation_id, member_id, instance, details, answered)


def txn_offset_commit(call: Call) -> None:
    """Commit offsets in a transaction that contains the partition of the group."""
    transactional_id, group_id, producer, epoch, generation_id, member_id, instance, topics = (
        call.row
    )
    refused: Refused = {}
    accepted = []
    for name, partitions in topics:
        count = _count(call, name, refused)
        for number, offset, leader_epoch, metadata in partitions:
            if 0 <= number < count:
                accepted.append(((name, number), offset, leader_epoch, metadata or "", None, -1))
            else:
                refused.setdefault(name, []).append((number, _UNKNOWN))
    if not accepted:
        return call.answer((0, _topics(refused, ())))
    groups = call.cluster.groups
    number = groups.partition_for(group_id)
    log = groups.log.partition(number)
    known_producer = None if log is None else log.producers.known.get(producer)
    # Kafka 3.9 does not compare the epoch with that of the open transaction.
    epoch_of_transaction = epoch if groups.replays else None
    error = Error.NONE
    if not group_id:
        pass  # the coordinator refuses the id, which Kafka checks before the transaction
    elif log is None or not log.has_ongoing_transaction(producer, epoch_of_transaction):
        error = call.cluster.transactions.verify(
            transactional_id,
            producer,
            epoch,
            OFFSETS_TOPIC,
            number,
            abortable=call.api_version >= 4,
            adds=call.api_version >= 5,
        )
    elif known_producer is not None and epoch < known_producer.epoch:
        error = Error.INVALID_PRODUCER_EPOCH  # a newer epoch has written to the log
    if error:
        keys = [row[0] for row in accepted]
        errors = [(key, error) for key in (keys if groups.replays else dict.fromkeys(keys))]
        return call.answer((0, _topics(refused, errors)))

    def answered(error: int, rows: Any) -> None:
        call.answer((0, _topics(refused, rows)))

    return groups.ask_row(
        _TXN_COMMIT, group_id, generation_id, member_id, instance,
        (tuple(accepted), producer, epoch), answered,
    )  # fmt: skip


def offset_fetch(call: Call) -> None:
    """Return the committed offsets of one group, or (version 8 and later) of several.

    A request without groups is never answered.
    """
    group_id, topics, groups, stable = call.row
    version = call.api_version
    if version == 0:  # offsets in ZooKeeper
        return call.refuse(Error.UNSUPPORTED_VERSION)
    if version < _SEVERAL_SINCE:
        requested = [(group_id, topics, None, -1)]
    else:
        requested = [
            (
                group_id,
                None if topics is None else [(name, numbers) for name, _, numbers in topics],
                member_id,
                member_epoch,
            )
            for group_id, member_id, member_epoch, topics in groups
        ]
        if not requested:
            if call.cluster.groups.replays:
                return call.answer((0, (), 0, ()))
            return call.leave_silent("names no group")
    answers: list[Row] = []
    coordinator = call.cluster.groups

    def answered(error: int, rows: Any) -> None:
        group_id, topics, *_ = requested[len(answers)]
        behind = () if version < _SEVERAL_SINCE else _NO_TOPIC_ID
        if coordinator.replays and topics is not None and not error:
            fetched = _fetched_as_requested(topics, rows, behind)
        else:
            fetched = _fetched(rows, behind)
        if version == 1 and error:  # this version has no group-level error
            return call.refuse(error)
        if version < _SEVERAL_SINCE:
            return call.answer((0, fetched, error, ()))
        answers.append((group_id, fetched, error))
        if len(answers) == len(requested):
            call.answer((0, (), 0, answers))
        return None

    for group_id, topics, member_id, member_epoch in requested:
        keys = None if topics is None else tuple(
            [(name, number) for name, numbers in topics for number in numbers]
        )  # fmt: skip
        details: tuple[Any, ...] = (keys, stable)
        if coordinator.replays:
            details = (*details, member_id, member_epoch)
        coordinator.ask_row(_FETCH, group_id, -1, None, None, details, answered)
    return None


def offset_delete(call: Call) -> None:
    """Delete committed offsets of topics that no member subscribes to."""
    group_id, topics = call.row
    refused: Refused = {}
    accepted = []
    for name, partitions in topics:
        count = _count(call, name, refused)
        for (number,) in partitions:
            if 0 <= number < count:
                accepted.append((name, number))
            else:
                refused.setdefault(name, []).append((number, _UNKNOWN))

    def answered(error: int, rows: Any) -> None:
        call.answer((error, 0, () if error else _topics(refused, rows)))

    call.cluster.groups.ask_row(_DELETE, group_id, -1, None, None, tuple(accepted), answered)


def _count(call: Call, name: str, refused: Refused) -> int:
    """Return the partition count of a topic; 0 if it does not exist.

    An unknown topic is listed in the response even if the request names none of its partitions.
    """
    topic = call.cluster.topics.get(name)
    if topic is None:
        refused.setdefault(name, [])
        return 0
    return len(topic.partitions)


def _topics(refused: Refused, rows: Iterable[Row] | None, behind: Row = ()) -> list[Row]:
    """Return the errors of partitions by topic, the refused partitions first.

    ``behind``: the fields after the topic's name.
    """
    entries: list[Row] = []
    topics, last = refused, None
    for row in rows or ():
        name, number = row[0]
        if name is not last:
            last, entries = name, topics.setdefault(name, [])
        entries.append((number, row[1] if len(row) == _PAIR else 0))  # a request row: no error
    return [(name, *behind, entries) for name, entries in topics.items()]


def _fetched(rows: Iterable[Row] | None, behind: Row = ()) -> list[Row]:
    """Return the offsets of a group by topic."""
    by_name: dict[str, list[Row]] = {}
    for row in rows or ():
        by_name.setdefault(row[0], []).append(row[1:])
    return [(name, *behind, partitions) for name, partitions in by_name.items()]


def _fetched_as_requested(topics: Iterable[Row], rows: Iterable[Row], behind: Row) -> list[Row]:
    """Return the offsets of a group for each requested topic, as Kafka 4 does, none left out."""
    left = iter(rows)
    return [(name, *behind, [next(left)[1:] for _ in numbers]) for name, numbers in topics]


def _wrapped(value: int) -> int:
    """Wrap a number to int64, as Java's addition overflows."""
    return (value + _INT64 // 2) % _INT64 - _INT64 // 2
