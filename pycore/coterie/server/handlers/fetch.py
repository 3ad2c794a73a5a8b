"""Fetch: what partitions hold, at once or when enough has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from coterie.server.clock import Timer
from coterie.server.data.downgrade import CannotDowngrade, downgraded
from coterie.server.data.fetch_sessions import (
    FIRST_EPOCH,
    NO_EPOCH,
    NO_SESSION,
    Asked,
    FetchSession,
    FetchSessions,
    Key,
)
from coterie.server.data.partition import PartitionLog
from coterie.server.data.topics import NO_ID
from coterie.server.handling import Call
from coterie.values import Error

__all__ = ["fetch"]

Body = dict[str, Any]

_BY_IDS = 13
_WHOLE_FIRST = 3
_MAGIC_2 = 4
_MOST_BYTES = 57671680  # fetch.max.bytes
_READ_COMMITTED = 1


def fetch(call: Call) -> None:
    """Answer a Fetch; it waits until there is enough, or its time is over."""
    body, by_ids = call.body, call.api_version >= _BY_IDS
    sessions = call.cluster.topics.sessions_of(call.node.id)
    asked = _asked(call, by_ids)
    session_id, epoch = body["sessionId"], body["sessionEpoch"]
    session: FetchSession | None = None
    if epoch in (FIRST_EPOCH, NO_EPOCH):
        sessions.drop(session_id)
    else:
        found = sessions.find(session_id, epoch, by_ids)
        if isinstance(found, Error):
            return call.answer({"errorCode": found, "sessionId": NO_SESSION, "responses": []})
        found.update(asked, _forgotten(body, by_ids))
        if found.asked:
            session = found
            sessions.use(session)
            asked = list(session.asked.items())
        else:
            sessions.drop(session_id)
            asked = []
    if session is not None and by_ids:
        _name(call, session.asked.values())
    return _Fetch(call, sessions, session, asked, new=epoch == FIRST_EPOCH).start()


def _asked(call: Call, by_ids: bool) -> list[tuple[Key, Asked]]:
    """Return the partitions of a request, each once."""
    found: dict[Key, Asked] = {}
    for topic in call.body["topics"]:
        topic_id = topic["topicId"] if by_ids else NO_ID
        name = None if by_ids else topic["topic"]
        for each in topic["partitions"]:
            asked = Asked(
                name,
                topic_id,
                each["partition"],
                each["fetchOffset"],
                each["partitionMaxBytes"],
                each["currentLeaderEpoch"],
                each["lastFetchedEpoch"],
            )
            found[topic_id if by_ids else topic["topic"], each["partition"]] = asked
    if by_ids:
        _name(call, found.values())
    return list(found.items())


def _name(call: Call, asked: Iterable[Asked]) -> None:
    """Put names to ids, where they are known."""
    for each in asked:
        topic = call.cluster.topics.by_id(each.topic_id)
        if topic is not None:
            each.topic = topic.name


def _forgotten(body: Body, by_ids: bool) -> list[Key]:
    field = "topicId" if by_ids else "topic"
    return [
        (topic[field], number)
        for topic in body["forgottenTopicsData"]
        for number in topic["partitions"]
    ]


class _Fetch:
    """A fetch on its way: read now, and again when enough was written or its time is over."""

    def __init__(
        self,
        call: Call,
        sessions: FetchSessions,
        session: FetchSession | None,
        asked: Sequence[tuple[Key, Asked]],
        *,
        new: bool,
    ) -> None:
        self.call, self.sessions, self.session, self.new = call, sessions, session, new
        body = call.body
        self.committed = body["isolationLevel"] == _READ_COMMITTED
        self.max_bytes = min(body["maxBytes"], _MOST_BYTES)
        self.min_bytes = min(body["minBytes"], self.max_bytes)
        self.asked = asked
        self.refused: list[tuple[Key, Body]] = []
        self.logs: list[tuple[Key, Asked, PartitionLog]] = []
        self.timer: Timer | None = None
        for key, each in asked:
            log = self._log(each)
            if isinstance(log, PartitionLog):
                self.logs.append((key, each, log))
            else:
                self.refused.append((key, _nothing(each.partition, log, aborted=[])))

    def start(self) -> None:
        """Answer now, or wait."""
        answers, size, ready = self._read()
        wait_ms = self.call.body["maxWaitMs"]
        if ready or wait_ms <= 0 or not self.logs or size >= self.min_bytes:
            return self._answer(answers)
        self.timer = self.call.cluster.waits.call_later(wait_ms, self._finish)
        self.call.on_close = self._stop
        for _, _, log in self.logs:
            log.waiters[self] = self._written
        return None

    def _log(self, asked: Asked) -> PartitionLog | Error:
        if asked.topic is None:
            return Error.UNKNOWN_TOPIC_ID
        log = self.call.cluster.topics.partition(asked.topic, asked.partition)
        return Error.UNKNOWN_TOPIC_OR_PARTITION if log is None else log

    def _written(self) -> None:
        """See whether there is enough now."""
        size = 0
        for _, each, log in self.logs:
            end = log.last_stable_offset if self.committed else log.high_watermark
            if log.deleted or end < each.offset:
                return self._finish()
            size += min(log.readable(each.offset, end), each.max_bytes)
        if size >= self.min_bytes:
            self._finish()
        return None

    def _finish(self) -> None:
        """Stop waiting, read again and answer."""
        if self.timer is not None:
            self._stop()
            self._answer(self._read()[0])

    def _stop(self) -> None:
        """Wait no longer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
            for _, _, log in self.logs:
                log.waiters.pop(self, None)

    def _read(self) -> tuple[list[tuple[Key, Body]], int, bool]:
        """Read all; the answers, their bytes, and whether one of them cannot wait."""
        room, size, ready = self.max_bytes, 0, False
        whole_first = self.call.api_version >= _WHOLE_FIRST
        answers = []
        for key, each, log in self.logs:
            first = whole_first and size == 0
            answer = self._read_one(each, log, min(each.max_bytes, room), whole_first=first)
            size += len(answer["records"])
            room = max(0, room - len(answer["records"]))
            ready = ready or answer["errorCode"] != 0 or "divergingEpoch" in answer
            answers.append((key, answer))
        return answers, size, ready

    def _read_one(
        self, asked: Asked, log: PartitionLog, max_bytes: int, *, whole_first: bool
    ) -> Body:
        if log.deleted:
            return _nothing(asked.partition, Error.UNKNOWN_TOPIC_OR_PARTITION)
        error = log.epoch_refusal(asked.leader_epoch)
        if error is not Error.NONE:
            return _nothing(asked.partition, error)
        answer: Body = {
            "partitionIndex": asked.partition,
            "errorCode": 0,
            "highWatermark": log.high_watermark,
            "lastStableOffset": log.last_stable_offset,
            "logStartOffset": log.log_start_offset,
            "abortedTransactions": None,
            "records": b"",
        }
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(asked.last_fetched_epoch)
            if epoch < 0 or end < 0:
                return _nothing(asked.partition, Error.OFFSET_OUT_OF_RANGE)
            if epoch < asked.last_fetched_epoch or end < asked.offset:
                answer["divergingEpoch"] = {"epoch": epoch, "endOffset": end}
                return answer
        end = log.last_stable_offset if self.committed else log.high_watermark
        if asked.max_bytes < 0:
            return _nothing(asked.partition, Error.UNKNOWN_SERVER_ERROR)
        found = log.read(asked.offset, max_bytes, end, whole_first=whole_first)
        if found is None:
            return _nothing(asked.partition, Error.OFFSET_OUT_OF_RANGE)
        if self.committed:
            answer["abortedTransactions"] = [
                {"producerId": each.producer_id, "firstOffset": each.first_offset}
                for each in (log.aborted(asked.offset, found.behind) if found.records else ())
            ]
        if not found.cut or self.call.api_version < _WHOLE_FIRST:
            answer["records"] = found.records
        return answer

    def _answer(self, answers: Sequence[tuple[Key, Body]]) -> None:
        """Answer; a session is told only what is new to it."""
        everything = [*answers, *self.refused]
        session_id = NO_SESSION
        if self.session is not None:
            session_id = self.session.id
            everything = self.session.changed(everything)
        elif self.new:
            asked = dict(self.asked)
            for key, answer in everything:
                asked[key].told_high_watermark = answer["highWatermark"]
                asked[key].told_log_start = answer["logStartOffset"]
            told = [(key, asked[key]) for key, _ in everything]
            session_id = self.sessions.make(told, self.call.api_version >= _BY_IDS)
        if self.call.api_version < _MAGIC_2:
            everything = [(key, self._old(key, answer)) for key, answer in everything]
        self.call.answer(
            {"errorCode": 0, "sessionId": session_id, "responses": self._by_topic(everything)}
        )

    def _old(self, key: Key, answer: Body) -> Body:
        """Return an answer with records of magic 0 or 1."""
        offset = next(each.offset for known, each in self.asked if known == key)
        magic = 0 if self.call.api_version < 2 else 1
        try:
            return {**answer, "records": downgraded(answer["records"], magic, offset)}
        except CannotDowngrade:
            return _nothing(answer["partitionIndex"], Error.UNSUPPORTED_COMPRESSION_TYPE)

    def _by_topic(self, answers: Iterable[tuple[Key, Body]]) -> list[Body]:
        """Put neighbours of one topic together."""
        field = "topicId" if self.call.api_version >= _BY_IDS else "topic"
        topics: list[Body] = []
        for (topic, _), answer in answers:
            if not topics or topics[-1][field] != topic:
                topics.append({field: topic, "partitions": []})
            topics[-1]["partitions"].append(answer)
        return topics


def _nothing(partition: int, error: Error, *, aborted: list[Any] | None = None) -> Body:
    return {
        "partitionIndex": partition,
        "errorCode": error,
        "highWatermark": -1,
        "lastStableOffset": -1,
        "logStartOffset": -1,
        "abortedTransactions": aborted,
        "records": b"",
    }
