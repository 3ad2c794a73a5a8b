"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

Topics and partitions that do not exist are refused one by one; the others go to the coordinator.
Source: ``KafkaApis.scala``, ``GroupCoordinatorAdapter.scala`` and the response classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.operations import NUMBER
from coterie.server.api.call import Call
from coterie.server.services.offsets_log import NAME
from coterie.values import Error

__all__ = ["offset_commit", "offset_delete", "offset_fetch", "txn_offset_commit"]

Row = tuple[Any, ...]
Refused = dict[str, list[Row]]  # by topic: the errors of its partitions
_COMMIT, _TXN_COMMIT = NUMBER["offset_commit"], NUMBER["txn_offset_commit"]
_FETCH, _DELETE = NUMBER["offset_fetch"], NUMBER["offset_delete"]
_INT64 = 1 << 64
_UNKNOWN = int(Error.UNKNOWN_TOPIC_OR_PARTITION)
_PAIR = 2  # of a partition's key and its error
_BY_TOPIC_ID = (None,)  # a field of later versions, behind a topic's name


def offset_commit(call: Call) -> None:
    """Commit offsets; version 0 kept them in ZooKeeper, which is no more."""
    group_id, generation_id, member_id, instance, kept_ms, topics = call.row
    expiry = -1 if kept_ms == -1 else _wrapped(call.cluster.now_ms + kept_ms)
    refused: Refused = {}
    wanted = []
    for name, _, partitions in topics:
        count = _count(call, name, refused)
        for number, offset, epoch, stamped, metadata in partitions:
            if 0 <= number < count:
                stamp = None if stamped == -1 else stamped
                wanted.append(((name, number), offset, epoch, metadata or "", stamp, expiry))
            else:
                refused.setdefault(name, []).append((number, _UNKNOWN))
    if not wanted:
        return call.answer((0, _topics(refused, (), _BY_TOPIC_ID)))
    if call.api_version == 0:
        return call.refuse(Error.UNSUPPORTED_VERSION)

    def answered(error: int, told: Any) -> None:
        call.answer((0, _topics(refused, told, _BY_TOPIC_ID)))

    return call.cluster.groups.ask_row(
        _COMMIT, group_id, generation_id, member_id, instance, (tuple(wanted), -1, -1), answered
    )


def txn_offset_commit(call: Call) -> None:
    """Commit offsets in a transaction, which has to hold the group's partition."""
    transactional_id, group_id, producer, epoch, generation_id, member_id, instance, topics = (
        call.row
    )
    refused: Refused = {}
    wanted = []
    for name, partitions in topics:
        count = _count(call, name, refused)
        for number, offset, leader_epoch, metadata in partitions:
            if 0 <= number < count:
                wanted.append(((name, number), offset, leader_epoch, metadata or "", None, -1))
            else:
                refused.setdefault(name, []).append((number, _UNKNOWN))
    if not wanted:
        return call.answer((0, _topics(refused, ())))
    groups = call.cluster.groups
    number = groups.partition_for(group_id)
    log = groups.log.partition(number)
    written = None if log is None else log.producers.known.get(producer)
    error = Error.NONE
    if not groups.log.has_ongoing_transaction(number, producer):
        error = call.cluster.transactions.verify(
            transactional_id, producer, epoch, NAME, number, abortable=call.api_version >= 4
        )
    elif written is not None and epoch < written.epoch:
        error = Error.INVALID_PRODUCER_EPOCH  # the log has a newer producer
    if error:
        errors = [(key, error) for key in dict.fromkeys(row[0] for row in wanted)]
        return call.answer((0, _topics(refused, errors)))

    def answered(error: int, told: Any) -> None:
        call.answer((0, _topics(refused, told)))

    return groups.ask_row(
        _TXN_COMMIT, group_id, generation_id, member_id, instance,
        (tuple(wanted), producer, epoch), answered,
    )  # fmt: skip


def offset_fetch(call: Call) -> None:
    """Tell committed offsets: of one group to version 7, then of several.

    A request that names no group is never answered.
    """
    group_id, topics, groups, stable = call.row
    version = call.api_version
    if version == 0:  # they were in ZooKeeper
        return call.refuse(Error.UNSUPPORTED_VERSION)
    if version < 8:
        asked = [(group_id, topics)]
    else:
        asked = [
            (group_id, None if topics is None else [(name, some) for name, _, some in topics])
            for group_id, _, _, topics in groups
        ]
        if not asked:
            return call.leave_silent("names no group")
    found: list[Row] = []

    def answered(error: int, told: Any) -> None:
        if version == 1 and error:  # it has no error of the group
            return call.refuse(error)
        if version < 8:
            return call.answer((0, _fetched(told), error, ()))
        found.append((asked[len(found)][0], _fetched(told, _BY_TOPIC_ID), error))
        if len(found) == len(asked):
            call.answer((0, (), 0, found))
        return None

    for group_id, topics in asked:
        keys = None if topics is None else tuple(
            [(name, number) for name, numbers in topics for number in numbers]
        )  # fmt: skip
        call.cluster.groups.ask_row(_FETCH, group_id, -1, None, None, (keys, stable), answered)
    return None


def offset_delete(call: Call) -> None:
    """Forget committed offsets of topics to which no member subscribes."""
    group_id, topics = call.row
    refused: Refused = {}
    wanted = []
    for name, partitions in topics:
        count = _count(call, name, refused)
        for (number,) in partitions:
            if 0 <= number < count:
                wanted.append((name, number))
            else:
                refused.setdefault(name, []).append((number, _UNKNOWN))

    def answered(error: int, told: Any) -> None:
        call.answer((error, 0, () if error else _topics(refused, told)))

    call.cluster.groups.ask_row(_DELETE, group_id, -1, None, None, tuple(wanted), answered)


def _count(call: Call, name: str, refused: Refused) -> int:
    """Return how many partitions a topic has.

    One that does not exist is told even if none of its partitions is asked for.
    """
    topic = call.cluster.topics.get(name)
    if topic is None:
        refused.setdefault(name, [])
        return 0
    return len(topic.partitions)


def _topics(refused: Refused, told: Iterable[Row] | None, behind: Row = ()) -> list[Row]:
    """Return the errors of partitions, by topic: those refused first.

    ``behind``: what stands behind a topic's name.
    """
    entries: list[Row] = []
    topics, last = refused, None
    for row in told or ():
        name, number = row[0]
        if name is not last:
            last, entries = name, topics.setdefault(name, [])
        entries.append((number, row[1] if len(row) == _PAIR else 0))  # else as it was asked: good
    return [(name, *behind, entries) for name, entries in topics.items()]


def _fetched(told: Iterable[Row] | None, behind: Row = ()) -> list[Row]:
    """Return a group's offsets, by topic."""
    by_name: dict[str, list[Row]] = {}
    for row in told or ():
        by_name.setdefault(row[0], []).append(row[1:])
    return [(name, *behind, found) for name, found in by_name.items()]


def _wrapped(value: int) -> int:
    """Return a number as an int64 has it, where Java's addition goes over its end."""
    return (value + _INT64 // 2) % _INT64 - _INT64 // 2
