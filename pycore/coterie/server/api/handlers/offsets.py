"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete.

Each unknown topic or partition gets an error; the coordinator handles the others.
Source: ``KafkaApis.scala``, ``GroupCoordinatorAdapter.scala`` and the response classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coterie.operations import NUMBER
from coterie.server.api.call import Call, Slices
from coterie.server.api.rows_in_slices import SLICE_ENTRIES, Pace, answer_in_slices, runs
from coterie.server.services.data.topics import OFFSETS_TOPIC
from coterie.values import Error

__all__ = ["offset_commit", "offset_delete", "offset_fetch", "txn_offset_commit"]

Row = tuple[Any, ...]
Refused = dict[str, list[Row]]  # topic -> (partition, error)
_COMMIT, _TXN_COMMIT = NUMBER["offset_commit"], NUMBER["txn_offset_commit"]
_FETCH, _DELETE = NUMBER["offset_fetch"], NUMBER["offset_delete"]
_INT64 = 1 << 64
_UNKNOWN = int(Error.UNKNOWN_TOPIC_OR_PARTITION)
_GROUP_ENTRIES = 10  # reading a group costs as much as so many of its offsets
_PAIR = 2  # a row of a partition and its error
_SEVERAL_SINCE = 8  # version of OffsetFetch that names several groups
_NO_TOPIC_ID = (None,)  # the topic id, a field of later versions


def offset_commit(call: Call) -> Slices:
    """Commit offsets, in one step after the partitions are checked in slices.

    Version 0, which used ZooKeeper, is refused.
    """
    group_id, generation_id, member_id, instance, retention_ms, topics = call.row
    expiry = -1 if retention_ms == -1 else _wrapped(call.cluster.now_ms + retention_ms)
    refused: Refused = {}
    accepted, pace = [], Pace()
    for name, _, partitions in topics:
        count = _count(call, name, refused)
        for run in runs(partitions):
            if pace.is_over(len(run)):
                yield
            for number, offset, epoch, timestamp, metadata in run:
                if 0 <= number < count:
                    stamp = None if timestamp == -1 else timestamp
                    accepted.append(((name, number), offset, epoch, metadata or "", stamp, expiry))
                else:
                    refused.setdefault(name, []).append((number, _UNKNOWN))
    if not accepted:
        return call.answer((0, _by_name(refused, _NO_TOPIC_ID)))
    if call.api_version == 0:
        return call.refuse(Error.UNSUPPORTED_VERSION)

    def answered(error: int, rows: Any) -> None:
        call.run(_answer_topics(call, refused, rows, lambda topics: (0, topics), _NO_TOPIC_ID))

    groups = call.cluster.groups
    details: tuple[Any, ...] = (tuple(accepted), -1, -1)
    if groups.replays:  # it checks members of consumer groups by the version
        details = (*details, call.api_version, -1)
    return groups.ask_row(_COMMIT, group_id, generation_id, member_id, instance, details, answered)


def txn_offset_commit(call: Call) -> Slices:
    """Commit offsets in a transaction that contains the partition of the group.

    The partitions are checked in slices.
    """
    transactional_id, group_id, producer, epoch, generation_id, member_id, instance, topics = (
        call.row
    )
    refused: Refused = {}
    accepted, pace = [], Pace()
    for name, partitions in topics:
        count = _count(call, name, refused)
        for run in runs(partitions):
            if pace.is_over(len(run)):
                yield
            for number, offset, leader_epoch, metadata in run:
                if 0 <= number < count:
                    key = (name, number)
                    accepted.append((key, offset, leader_epoch, metadata or "", None, -1))
                else:
                    refused.setdefault(name, []).append((number, _UNKNOWN))
    if not accepted:
        return call.answer((0, _by_name(refused)))
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
        return (yield from _answer_topics(call, refused, errors, lambda topics: (0, topics)))

    def answered(error: int, rows: Any) -> None:
        call.run(_answer_topics(call, refused, rows, lambda topics: (0, topics)))

    return groups.ask_row(
        _TXN_COMMIT, group_id, generation_id, member_id, instance,
        (tuple(accepted), producer, epoch), answered,
    )  # fmt: skip


def offset_fetch(call: Call) -> Slices:
    """Return the committed offsets of one group, or (version 8 and later) of several, in slices.

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
    outcomes: list[tuple[int, Any]] = []
    is_delivering = False

    def answered(error: int, rows: Any) -> None:
        outcomes.append((error, rows))
        if is_delivering and len(outcomes) == len(requested):
            call.run(_answer_offsets(call, requested, outcomes))

    pace = Pace()
    replays = call.cluster.groups.replays
    for group_id, topics, member_id, member_epoch in requested:
        keys: list[tuple[str, int]] = []
        for name, numbers in topics or ():
            for run in runs(numbers):
                if pace.is_over(len(run)):
                    yield
                keys += [(name, number) for number in run]
        details: tuple[Any, ...] = (None if topics is None else tuple(keys), stable)
        if replays:
            details = (*details, member_id, member_epoch)
        call.cluster.groups.ask_row(_FETCH, group_id, -1, None, None, details, answered)
        if pace.is_over(_GROUP_ENTRIES):
            yield
    is_delivering = len(outcomes) < len(requested)  # as in DescribeGroups
    if not is_delivering:
        yield from _answer_offsets(call, requested, outcomes)


def _answer_offsets(
    call: Call, requested: list[tuple[str, Any, Any, int]], outcomes: list[tuple[int, Any]]
) -> Slices:
    """Answer an OffsetFetch with the error and the rows of each group."""
    version = call.api_version
    behind = () if version < _SEVERAL_SINCE else _NO_TOPIC_ID
    groups: list[Row] = []
    pace = Pace()
    for (group_id, names, *_), (error, rows) in zip(requested, outcomes, strict=True):
        if pace.is_over(_GROUP_ENTRIES):
            yield
        if version == 1 and error:  # this version has no group-level error
            return call.refuse(error)
        topics: list[Row] = []
        if call.cluster.groups.replays and names is not None and not error:
            # Kafka 4 answers each requested topic, repeated ones and those without partitions too.
            left = iter(rows)
            for name, numbers in names:
                partitions = []
                for run in runs(numbers):
                    partitions += [next(left)[1:] for _ in run]
                    if len(run) == SLICE_ENTRIES:
                        yield
                topics.append((name, *behind, partitions))
        else:
            by_name: dict[str, list[Row]] = {}
            for run in runs(rows or ()):
                for row in run:
                    by_name.setdefault(row[0], []).append(row[1:])
                if len(run) == SLICE_ENTRIES:
                    yield
            topics = [(name, *behind, partitions) for name, partitions in by_name.items()]
        if version < _SEVERAL_SINCE:
            return call.answer((0, topics, error, ()))
        groups.append((group_id, topics, error))
    return (yield from answer_in_slices(call, lambda some: (0, (), 0, some), groups))


def offset_delete(call: Call) -> Slices:
    """Delete committed offsets of topics that no member subscribes to.

    The partitions are checked in slices.
    """
    group_id, topics = call.row
    refused: Refused = {}
    accepted, pace = [], Pace()
    for name, partitions in topics:
        count = _count(call, name, refused)
        for run in runs(partitions):
            if pace.is_over(len(run)):
                yield
            for (number,) in run:
                if 0 <= number < count:
                    accepted.append((name, number))
                else:
                    refused.setdefault(name, []).append((number, _UNKNOWN))

    def answered(error: int, rows: Any) -> None:
        if error:
            return call.answer((error, 0, ()))
        return call.run(_answer_topics(call, refused, rows, lambda topics: (0, 0, topics)))

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


def _answer_topics(
    call: Call,
    refused: Refused,
    rows: Sequence[Row],
    body_with: Callable[[list[Row]], Row],
    behind: Row = (),
) -> Slices:
    """Answer with the errors of partitions by topic, the refused partitions first.

    ``behind``: the fields after the topic's name.
    """
    entries: list[Row] = []
    topics, last = refused, None
    for run in runs(rows):
        for row in run:
            name, number = row[0]
            if name is not last:
                last, entries = name, topics.setdefault(name, [])
            entries.append((number, row[1] if len(row) == _PAIR else 0))  # a request row: no error
        if len(run) == SLICE_ENTRIES:
            yield
    call.answer(body_with(_by_name(topics, behind)))


def _by_name(topics: Refused, behind: Row = ()) -> list[Row]:
    return [(name, *behind, entries) for name, entries in topics.items()]


def _wrapped(value: int) -> int:
    """Wrap a number to int64, as Java's addition overflows."""
    return (value + _INT64 // 2) % _INT64 - _INT64 // 2
