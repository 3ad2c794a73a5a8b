"""Fetch sessions: what a consumer asked for and was told, so that it need not say it again.

Source: FetchSession of Kafka 3.9 (KIP-227).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.server.services.data.partition import PartitionLog
from coterie.values import Error

__all__ = ["Asked", "FetchSession", "FetchSessions", "Key", "PartitionAnswer"]

_MOST = 1000
_STALE_MS = 120000
_LAST_EPOCH = 2**31 - 1
NO_SESSION, FIRST_EPOCH, NO_EPOCH = 0, 0, -1

Key = tuple[str, int]  # a topic's id or its name, and a partition


class PartitionAnswer(NamedTuple):
    """What a fetch is told of a partition: a row of the answer, its fields in the table's order."""

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: tuple[int, int] | None  # and where it ended
    current_leader: None
    snapshot_id: None
    aborted: Sequence[tuple[int, int]] | None  # producer id and first offset
    preferred_read_replica: int
    records: bytes


@dataclass(slots=True)
class Asked:
    """A partition that a fetch asks for; ``topic`` is None where its id was never known.

    ``log`` is where it was found last, ``quiet_at`` its state when there was nothing to tell: a
    session asks for the same ones again and again.
    """

    key: Key
    topic: str | None
    topic_id: str
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    told_high_watermark: int = -1
    told_log_start: int = -1
    log: PartitionLog | None = None
    quiet_at: object = None


@dataclass
class FetchSession:
    """A session: its partitions in their order; ``epoch`` is that of its next fetch."""

    id: int
    by_ids: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    asked: dict[Key, Asked] = field(default_factory=dict)

    def update(self, asked: Iterable[Asked], forgotten: Iterable[Key]) -> None:
        """Take what a fetch adds, changes and forgets."""
        for new in asked:
            old = self.asked.get(new.key)
            if old is not None:
                new.told_high_watermark = old.told_high_watermark
                new.told_log_start = old.told_log_start
                if old.topic is not None:  # a name stays, also once its topic is gone
                    new.topic = old.topic
            self.asked[new.key] = new
        for key in forgotten:
            self.asked.pop(key, None)

    def changed(
        self, answers: Sequence[tuple[Key, PartitionAnswer]]
    ) -> list[tuple[Key, PartitionAnswer]]:
        """Return those answers that say anything new; partitions with data go to the end."""
        found = []
        for key, answer in answers:
            asked = self.asked.get(key)
            if asked is None:
                continue
            told = (asked.told_high_watermark, asked.told_log_start)
            now = (answer.high_watermark, answer.log_start_offset)
            new = told != now or bool(answer.records) or answer.diverging_epoch is not None
            asked.told_high_watermark, asked.told_log_start = now
            if answer.error:
                new = True
                asked.told_high_watermark = -1
            if not new:
                continue
            found.append((key, answer))
            if answer.records:
                self.asked[key] = self.asked.pop(key)
        return found


class FetchSessions:
    """The sessions of one broker; there is room for a thousand."""

    def __init__(self, number: Callable[[int], int], now_ms: Callable[[], int]) -> None:
        self._number, self._now_ms = number, now_ms
        self._known: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._known)

    def drop(self, session_id: int) -> None:
        """Forget a session, if there is one."""
        self._known.pop(session_id, None)

    def find(self, session_id: int, epoch: int, by_ids: bool) -> FetchSession | Error:
        """Return the session that a fetch goes on with, or why it cannot."""
        session = self._known.get(session_id)
        if session is None:
            return Error.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return Error.INVALID_FETCH_SESSION_EPOCH
        if session.by_ids != by_ids:
            return Error.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def use(self, session: FetchSession) -> None:
        """Go on to the session's next epoch."""
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        session.used_ms = self._now_ms()

    def make(self, asked: Sequence[Asked], by_ids: bool) -> int:
        """Make a session; its id, or 0 where there is no room."""
        now_ms = self._now_ms()
        if len(self._known) >= _MOST and not self._make_room(len(asked), now_ms):
            return NO_SESSION
        while (session_id := self._number(31)) in self._known or session_id == NO_SESSION:
            pass
        session = FetchSession(session_id, by_ids, now_ms, now_ms)
        session.asked.update({each.key: each for each in asked})
        self._known[session_id] = session
        return session_id

    def _make_room(self, size: int, now_ms: int) -> bool:
        """Forget a session that is not used, or an old one that is smaller than the new one."""
        stalest = min(self._known.values(), key=lambda each: each.used_ms)
        if now_ms - stalest.used_ms > _STALE_MS:
            del self._known[stalest.id]
            return True
        old = [each for each in self._known.values() if now_ms - each.created_ms > _STALE_MS]
        smallest = min(old, key=lambda each: (len(each.asked), each.id), default=None)
        if smallest is None or len(smallest.asked) > size:
            return False
        del self._known[smallest.id]
        return True
