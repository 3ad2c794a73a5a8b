"""Fetch sessions: the requested partitions, and the last response for each, between fetches.

Source: FetchSession of Kafka 3.9 (KIP-227).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.server.services.adjacent_batches import RecordRange
from coterie.server.services.partition import PartitionLog
from coterie.values import Error

_MAX_SESSIONS = 1000
_STALE_MS = 120000
_LAST_EPOCH = 2**31 - 1
NO_SESSION, FIRST_EPOCH, NO_EPOCH = 0, 0, -1

Key = tuple[str, int]  # topic id or name, partition


class PartitionRow(NamedTuple):
    """The response row of a partition, with its fields in the table's order."""

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: tuple[int, int] | None  # with its end offset
    current_leader: None
    snapshot_id: None
    aborted: Sequence[tuple[int, int]] | None  # producer id, first offset
    preferred_read_replica: int
    records: bytes | RecordRange


@dataclass(slots=True)
class RequestedPartition:
    """A partition of a fetch; ``topic`` is None if its topic id was never known.

    ``log`` caches its log. ``quiet_at`` is the state of the log when there was last nothing to
    send.
    """

    key: Key
    topic: str | None
    topic_id: str
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    log: PartitionLog | None = None
    quiet_at: object = None


@dataclass
class FetchSession:
    """A session with its partitions in order; ``epoch`` is the epoch of its next fetch."""

    id: int
    by_ids: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    requested: dict[Key, RequestedPartition] = field(default_factory=dict)

    def update(self, requested: Iterable[RequestedPartition], forgotten: Iterable[Key]) -> None:
        """Apply the partitions that a fetch adds, changes and forgets."""
        for new in requested:
            old = self.requested.get(new.key)
            if old is not None:
                new.sent_high_watermark = old.sent_high_watermark
                new.sent_log_start_offset = old.sent_log_start_offset
                if old.topic is not None:  # a session keeps the name after the topic is deleted
                    new.topic = old.topic
            self.requested[new.key] = new
        for key in forgotten:
            self.requested.pop(key, None)

    def changed(self, rows: Sequence[tuple[Key, PartitionRow]]) -> list[tuple[Key, PartitionRow]]:
        """Return the rows that changed; move partitions with records to the end of the session."""
        changed = []
        for key, row in rows:
            requested = self.requested.get(key)
            if requested is None:
                continue
            last = (requested.sent_high_watermark, requested.sent_log_start_offset)
            now = (row.high_watermark, row.log_start_offset)
            requested.sent_high_watermark, requested.sent_log_start_offset = now  # -1 in an error
            if last == now and not (row.error or row.records or row.diverging_epoch is not None):
                continue
            changed.append((key, row))
            if row.records:
                self.requested[key] = self.requested.pop(key)
        return changed


class FetchSessions:
    """The sessions of one broker, at most 1000."""

    def __init__(self, number: Callable[[int], int], now_ms: Callable[[], int]) -> None:
        self._number, self._now_ms = number, now_ms
        self._known: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._known)

    def drop(self, session_id: int) -> None:
        """Remove a session if it exists."""
        self._known.pop(session_id, None)

    def find(self, session_id: int, epoch: int, by_ids: bool) -> FetchSession | Error:
        """Return the session that a fetch continues, or the error."""
        session = self._known.get(session_id)
        if session is None:
            return Error.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return Error.INVALID_FETCH_SESSION_EPOCH
        if session.by_ids != by_ids:
            return Error.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def use(self, session: FetchSession) -> None:
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        session.used_ms = self._now_ms()

    def make(self, requested: Sequence[RequestedPartition], by_ids: bool) -> int:
        """Create a session; return its id, or 0 if there is no room."""
        now_ms = self._now_ms()
        if len(self._known) >= _MAX_SESSIONS and not self._make_room(len(requested), now_ms):
            return NO_SESSION
        while (session_id := self._number(31)) in self._known or session_id == NO_SESSION:
            pass
        partitions = {partition.key: partition for partition in requested}
        self._known[session_id] = FetchSession(
            session_id, by_ids, now_ms, now_ms, requested=partitions
        )
        return session_id

    def _make_room(self, size: int, now_ms: int) -> bool:
        """Evict a stale session, or an old one that is smaller than the new one.

        A session becomes old when a fetch uses it, not by time alone (``tryEvict``, ``touch``).
        """
        stalest = min(self._known.values(), key=lambda session: session.used_ms)
        if now_ms - stalest.used_ms > _STALE_MS:
            del self._known[stalest.id]
            return True
        old = [
            session
            for session in self._known.values()
            if session.used_ms - session.created_ms > _STALE_MS
        ]
        smallest = min(old, key=lambda session: (len(session.requested), session.id), default=None)
        if smallest is None or len(smallest.requested) >= size:
            return False
        del self._known[smallest.id]
        return True
