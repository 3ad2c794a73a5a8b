"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete.

Each unknown topic or partition gets an error; the coordinator handles the others.
Source: ``KafkaApis.scala``, ``GroupCoordinatorAdapter.scala`` and the response classes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from coterie.base.operations import NUMBER
from coterie.server.api.call import Call, Slices
from coterie.server.api.rows_in_slices import SLICE_ENTRIES, Pace, answer_in_slices, runs
from coterie.server.services.topics import OFFSETS_TOPIC
from coterie.values import Error

Row = tuple[Any, ...]
_Found = tuple[str | None, Row, Sequence[int]]  # name, the fields that name it, partitions
_COMMIT, _TXN_COMMIT = NUMBER["offset_commit"], NUMBER["txn_offset_commit"]
_FETCH, _DELETE = NUMBER["offset_fetch"], NUMBER["offset_delete"]
_INT64 = 1 << 64
_UNKNOWN, _UNKNOWN_ID = int(Error.UNKNOWN_TOPIC_OR_PARTITION), int(Error.UNKNOWN_TOPIC_ID)
_GROUP_ENTRIES = 10  # reading a group costs as much as so many of its offsets
_ANSWER = 3  # a row of a partition and its error, where the log has topic ids also that
_SEVERAL_SINCE = 8  # version of OffsetFetch that names several groups
# The versions of OffsetCommit and OffsetFetch, and of TxnOffsetCommit, that name topics by ids.
_IDS_SINCE, _IDS_IN_TXN_SINCE = 10, 6
_NOT_COMMITTED = (-1, -1, "")  # offset, leader epoch and metadata


class _Topics:
    """The topics of a request: their names, and the errors of their partitions.

    A topic is the fields that name it, in the request as in the response: its name, and in some
    APIs its id, of which a version has one.
    """

    def __init__(self, call: Call, *, by_ids: bool = False) -> None:
        self.known, self.by_ids = call.cluster.topics, by_ids
        self.keeps_ids = call.cluster.groups.keeps_topic_ids
        self.found_id: tuple[bytes, ...] = ()  # of the last known topic, where the log has ids
        self.errors: dict[Row, list[Row]] = {}  # topic -> (partition, error)
        self._named: dict[str, Row] = {}

    def find(self, topic: Row) -> tuple[str, int, int]:
        """Return a topic's name, its partition count, and the error of any other partition.

        An unknown topic is in the response even if the request names none of its partitions.
        """
        found = self.known.by_id(topic[1]) if self.by_ids else self.known.get(topic[0])
        if found is None:
            self.errors.setdefault(topic, [])
            return "", 0, _UNKNOWN_ID if self.by_ids else _UNKNOWN
        self._named[found.name] = topic
        if self.keeps_ids:
            self.found_id = (found.id_bytes,)
        return found.name, len(found.partitions), _UNKNOWN

    def refuse(self, topic: Row, number: int, error: int) -> None:
        self.errors.setdefault(topic, []).append((number, error))

    def entries(self, name: str) -> list[Row]:
        """Return the list of a known topic's errors, to be extended."""
        return self.errors.setdefault(self._named[name], [])

    def rows(self) -> list[Row]:
        return [(*topic, entries) for topic, entries in self.errors.items()]

    def accept(
        self, topics: Iterable[Row], row_of: Callable[..., Row]
    ) -> Generator[None, None, tuple[Row, ...]]:
        """Return the rows of known partitions, in slices, and refuse the others.

        ``row_of`` gets a partition and the other fields of its entry.
        """
        accepted: list[Row] = []
        pace = Pace()
        for *named, partitions in topics:
            topic = tuple(named)
            name, count, error = self.find(topic)
            for run in runs(partitions):
                if pace.is_over(len(run)):
                    yield
                for number, *entry in run:
                    if 0 <= number < count:
                        accepted.append(row_of((name, number), *entry))
                    else:
                        self.refuse(topic, number, error)
        return tuple(accepted)


def offset_commit(call: Call) -> Slices:
    """Commit offsets, in one step after the partitions are checked in slices.

    Version 0, which used ZooKeeper, is refused.
    """
    group_id, generation_id, member_id, instance, retention_ms, topics = call.row
    expiry = -1 if retention_ms == -1 else _wrapped(call.cluster.now_ms + retention_ms)
    requested = _Topics(call, by_ids=call.api_version >= _IDS_SINCE)

    def row_of(key: Row, offset: int, epoch: int, timestamp: int, metadata: str | None) -> Row:
        stamp = None if timestamp == -1 else timestamp
        return key, offset, epoch, metadata or "", stamp, expiry, *requested.found_id

    accepted = yield from requested.accept(topics, row_of)
    if not accepted:
        return call.answer((0, requested.rows()))
    if call.api_version == 0:
        return call.refuse(Error.UNSUPPORTED_VERSION)

    def answered(error: int, rows: Any) -> None:
        call.run(_answer_topics(call, requested, rows, lambda topics: (0, topics)))

    groups = call.cluster.groups
    details: tuple[Any, ...] = (accepted, -1, -1)
    if groups.replays:  # it checks members of consumer groups by the version
        details = (*details, call.api_version, -1)
    return groups.ask_row(_COMMIT, group_id, generation_id, member_id, instance, details, answered)


def txn_offset_commit(call: Call) -> Slices:
    """Commit offsets in a transaction that contains the partition of the group.

    The partitions are checked in slices.
    """
    transactional_id, group_id, producer, epoch, generation_id, member_epoch, *rest = call.row
    member_id, instance, topics = rest
    by_ids = call.api_version >= _IDS_IN_TXN_SINCE
    if by_ids:
        generation_id = member_epoch
    requested = _Topics(call, by_ids=by_ids)

    def row_of(key: Row, offset: int, leader_epoch: int, metadata: str | None) -> Row:
        return key, offset, leader_epoch, metadata or "", None, -1, *requested.found_id

    accepted = yield from requested.accept(topics, row_of)
    if not accepted:
        return call.answer((0, requested.rows()))
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
        return (yield from _answer_topics(call, requested, errors, lambda topics: (0, topics)))

    def answered(error: int, rows: Any) -> None:
        call.run(_answer_topics(call, requested, rows, lambda topics: (0, topics)))

    details: tuple[Any, ...] = (accepted, producer, epoch)
    if groups.keeps_topic_ids:
        details = (*details, call.api_version)
    return groups.ask_row(
        _TXN_COMMIT, group_id, generation_id, member_id, instance, details, answered
    )


def offset_fetch(call: Call) -> Slices:
    """Return the committed offsets of one group, or (version 8 and later) of several, in slices.

    A request without groups is never answered.
    """
    group_id, topics, groups, stable = call.row
    version = call.api_version
    if version == 0:  # offsets in ZooKeeper
        return call.refuse(Error.UNSUPPORTED_VERSION)
    if version < _SEVERAL_SINCE:
        requested = [(group_id, _found(call, topics), None, -1)]
    else:
        requested = [
            (group_id, _found(call, topics), member_id, member_epoch)
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
        for name, _, numbers in topics or ():
            if name is None:
                continue
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


def _found(call: Call, topics: Iterable[Row] | None) -> list[_Found] | None:
    """Return the topics that a group's offsets are fetched of; those of unknown ids come last."""
    if topics is None:
        return None
    by_ids, known = call.api_version >= _IDS_SINCE, call.cluster.topics
    found: list[_Found] = []
    unknown: list[_Found] = []
    for *topic, numbers in topics:
        name = topic[0]
        if by_ids:
            topic_of_id = known.by_id(topic[1])
            name = None if topic_of_id is None else topic_of_id.name
        (unknown if name is None else found).append((name, tuple(topic), numbers))
    return found + unknown


def _answer_offsets(
    call: Call,
    requested: list[tuple[str, list[_Found] | None, Any, int]],
    outcomes: list[tuple[int, Any]],
) -> Slices:
    """Answer an OffsetFetch with the error and the rows of each group."""
    version = call.api_version
    groups: list[Row] = []
    pace = Pace()
    for (group_id, requests, *_), (error, rows) in zip(requested, outcomes, strict=True):
        if pace.is_over(_GROUP_ENTRIES):
            yield
        if version == 1 and error:  # this version has no group-level error
            return call.refuse(error)
        topics: list[Row] = []
        if call.cluster.groups.replays and requests is not None and not error:
            # Kafka 4 answers each requested topic, repeated ones and those without partitions too.
            left = iter(rows)
            for name, topic, numbers in requests:
                partitions: list[Row] = []
                for run in runs(numbers):
                    if name is None:
                        partitions += [(number, *_NOT_COMMITTED, _UNKNOWN_ID) for number in run]
                    else:
                        partitions += [next(left)[1:] for _ in run]
                    if len(run) == SLICE_ENTRIES:
                        yield
                topics.append((*topic, partitions))
        else:
            by_name: dict[str, list[Row]] = {}
            for some in runs(rows or ()):
                for row in some:
                    by_name.setdefault(row[0], []).append(row[1:])
                if len(some) == SLICE_ENTRIES:
                    yield
            topics = _named(call, by_name)
        if version < _SEVERAL_SINCE:
            return call.answer((0, topics, error, ()))
        groups.append((group_id, topics, error))
    return (yield from answer_in_slices(call, lambda some: (0, (), 0, some), groups))


def _named(call: Call, by_name: dict[str, list[Row]]) -> list[Row]:
    """Return the topics of a response; where it has ids, a topic that is gone is left out."""
    if call.api_version < _SEVERAL_SINCE:
        return list(by_name.items())
    if call.api_version < _IDS_SINCE:
        return [(name, None, partitions) for name, partitions in by_name.items()]
    known = ((call.cluster.topics.get(name), partitions) for name, partitions in by_name.items())
    return [
        (topic.name, topic.topic_id, partitions) for topic, partitions in known if topic is not None
    ]


def offset_delete(call: Call) -> Slices:
    """Delete committed offsets of topics that no member subscribes to.

    The partitions are checked in slices.
    """
    group_id, topics = call.row
    requested = _Topics(call)
    accepted = yield from requested.accept(topics, lambda key: key)

    def answered(error: int, rows: Any) -> None:
        if error:
            return call.answer((error, 0, ()))
        return call.run(_answer_topics(call, requested, rows, lambda topics: (0, 0, topics)))

    call.cluster.groups.ask_row(_DELETE, group_id, -1, None, None, accepted, answered)


def _answer_topics(
    call: Call, requested: _Topics, rows: Sequence[Row], body_with: Callable[[list[Row]], Row]
) -> Slices:
    """Answer with the errors of partitions by topic, the refused partitions first."""
    entries: list[Row] = []
    last = None
    for run in runs(rows):
        for row in run:
            name, number = row[0]
            if name is not last:
                last, entries = name, requested.entries(name)
            entries.append(
                (number, row[1] if len(row) <= _ANSWER else 0)
            )  # a request row: no error
        if len(run) == SLICE_ENTRIES:
            yield
    call.answer(body_with(requested.rows()))


def _wrapped(value: int) -> int:
    """Wrap a number to int64, as Java's addition overflows."""
    return (value + _INT64 // 2) % _INT64 - _INT64 // 2
