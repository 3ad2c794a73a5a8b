"""Fetch requests to one leader: the batches of its partitions, as they are stored.

A lane requests the next bytes before it writes those that came, so the broker and the disk work at
the same time. It ends when its partitions are complete, or when the leader has changed or is gone;
``copying`` then starts another. Sources: FetchRequest, ReplicaManager.fetchMessages.
Cost: two responses of ``max_bytes`` in memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coterie.live.cluster_errors import (
    ClusterError,
    Damaged,
    NoPermission,
    Unavailable,
    refusal,
    without_calls,
)
from coterie.live.connections import Connection
from coterie.live.end_offsets import EARLIEST, LATEST, READ_UNCOMMITTED, list_offsets
from coterie.live.responses import rows_by_place
from coterie.live.segments import Batches, PartitionCopy, sound_batches
from coterie.log.copy_state import CopyState
from coterie.values import Error

FIRST_BYTES = 64 << 10  # of a response: it comes in time over 50 kB/s, also if 20 brokers send
RESPONSE_S = 2.0  # how long a response may take before the next ones become smaller
SLOW_S, SLOW_BYTES_PER_S = 1.0, 1_000_000  # a link whose rate is worth a line
PAUSE_S = 0.1  # after a response that came at once and brings nothing
FETCHES_OF_A_BATCH = 3  # what fails on its way may be sound the next time


@dataclass
class CopiedPartition:
    """A partition while it is copied.

    Attributes
    ----------
    name : str
        ``TOPIC-N``, for messages.
    files : PartitionCopy
        Its segments.
    state : CopyState or None
        What is known of the copy; None before the broker has answered where its log begins.
    position : int
        The offset to request next; it runs ahead of what is written.
    leader_epoch : int
        That of the last batch; a broker whose log diverges from the copy notices it.
    begin_at : int or None
        Where a segment is to begin with the next batch.
    is_listed : bool
        Whether the broker has answered where its log begins and ends.
    is_complete : bool
        Whether the copy had all that the broker had.
    damage : str or None
        What the broker sent last that can be no part of its log; None: all was sound.
    failures : int
        How often it did in a row.
    """

    number: int
    name: str
    files: PartitionCopy
    state: CopyState | None
    make_state: Callable[[int], CopyState]
    position: int = field(init=False)
    end: int = field(init=False)
    leader_epoch: int = -1
    begin_at: int | None = None
    is_listed: bool = False
    is_complete: bool = False
    damage: str | None = None
    failures: int = 0
    fetched_bytes: int = 0

    def __post_init__(self) -> None:
        """Begin at the end of the copy, until ``listed`` has what the broker says."""
        if self.files.next_offset is not None:
            self.position = self.end = self.files.next_offset

    def listed(
        self, earliest: int, latest: int, now_ms: int, *, moves_end: bool = True
    ) -> str | None:
        """Take the first and the last offset of the broker's log; return a notice, or None.

        ``moves_end``: the copy ends at that last offset, even if another was listed before.

        Raises
        ------
        ClusterError
            The broker's log ends before the copy.
        """
        next_offset, notice = self.files.next_offset, None
        if next_offset is None:
            self.state = self.make_state(earliest)
            self.position = self.begin_at = earliest
            if earliest > 0:
                notice = (
                    f"{self.name}: the log begins at offset {earliest:,}; what was before is gone"
                )
        else:
            assert self.state is not None  # `copying` refuses such a folder
            self.position = next_offset
            if latest < next_offset:
                raise ClusterError(
                    f"{self.name}: the broker's log ends at offset {latest:,}, before the copy "
                    f"({next_offset:,}): the topic was made again, or an unclean election lost "
                    "records; fetch into another folder"
                )
            notice = self.moved(earliest, now_ms)
            if earliest > next_offset:
                self.position = self.begin_at = earliest
        if moves_end or not self.is_listed:
            self.end = latest
        self.is_listed = True
        return notice

    @property
    def is_refused(self) -> bool:
        """Whether what the broker sends stays damaged, however often it is fetched."""
        return self.failures >= FETCHES_OF_A_BATCH

    def moved(self, log_start: int, now_ms: int) -> str | None:
        """Record that the start of the broker's log has moved; return a notice, or None."""
        assert self.state is not None
        if log_start <= self.state.log_start:
            return None
        before = self.state.log_start
        self.state = self.state.moved(log_start, self.position, now_ms)
        lost = self.state.moves[-1].lost
        what = f": {lost:,} offsets are gone that were not copied" if lost else ""
        return f"{self.name}: the log's start moved from offset {before:,} to {log_start:,}{what}"

    def write(self, data: bytes, batches: Batches) -> None:
        if self.begin_at is not None:
            self.files.begin(min(self.begin_at, batches.first_offset))
            self.begin_at = None
        self.files.append(memoryview(data)[: batches.size], batches.next_offset)
        self.fetched_bytes += batches.size

    def complete(self, at_ms: int) -> None:
        """Note that the copy has everything, as of a time."""
        if self.begin_at is not None:
            self.files.begin(self.begin_at)
            self.begin_at = None
        assert self.state is not None
        self.state = self.state.complete(self.position, at_ms)
        self.is_complete = True


class _Taken(NamedTuple):
    """A partition's part of a response; ``batches`` is None if it has no data."""

    partition: CopiedPartition
    data: bytes
    batches: Batches | None


class Lane:
    """Copies some partitions of one leader.

    Parameters
    ----------
    topic, topic_id
        The topic's name, and its id: a broker refuses a request for another topic of this name.
    partitions
        Those to copy.
    follow
        Go on after they are complete.
    max_bytes, partition_bytes, wait_ms
        Limits of a Fetch request.
    now_ms
        The clock.
    written
        Called after a response was written, with the batches of each partition, and whether the
        response was without an error.
    notice
        Gets lines for people.

    Attributes
    ----------
    error : Unavailable or None
        Why the lane ended before its partitions were complete.
    """

    def __init__(
        self,
        topic: str,
        topic_id: str | None,
        partitions: Iterable[CopiedPartition],
        *,
        follow: bool,
        max_bytes: int,
        partition_bytes: int,
        wait_ms: int,
        now_ms: Callable[[], int],
        written: Callable[[list[tuple[CopiedPartition, memoryview]], bool], None],
        notice: Callable[[str], None],
    ) -> None:
        self.partitions = tuple(partitions)
        self.error: Unavailable | None = None
        self._topic, self._topic_id, self._follow = topic, topic_id, follow
        self._max_bytes, self._partition_bytes, self._wait_ms = max_bytes, partition_bytes, wait_ms
        self._now_ms, self._written, self._notice = now_ms, written, notice
        self._bytes, self._is_slow = min(FIRST_BYTES, max_bytes), False
        self._requested: list[CopiedPartition] = []
        self._by_number = {partition.number: partition for partition in self.partitions}
        self._order = deque(self.partitions)

    async def run(self, connection: Connection) -> None:
        """Copy until the partitions are complete, or ``error`` says why not."""
        try:
            await self._list(connection)
            await self._fetch(connection)
        except Unavailable as error:
            self.error = without_calls(error)

    def unfinished(self) -> list[CopiedPartition]:
        return [p for p in self.partitions if self._follow or not (p.is_complete or p.is_refused)]

    async def _list(self, connection: Connection) -> None:
        requested_ms = self._now_ms()
        numbers = tuple(self._by_number)
        latest = await list_offsets(connection, self._topic, numbers, LATEST)
        earliest = await list_offsets(connection, self._topic, numbers, EARLIEST)
        ends = {number: self._by_number[number].files.next_offset or 0 for number in earliest}
        if any(first > ends[number] for number, first in earliest.items()):
            # The copy leaves out what is before a start, and one answer may be mistaken.
            again = await list_offsets(connection, self._topic, numbers, EARLIEST)
            earliest = {n: min(first, again[n]) for n, first in earliest.items() if n in again}
        for number, partition in self._by_number.items():
            if number not in latest or number not in earliest:
                raise Unavailable(f"{partition.name}: the broker does not say where its log ends")
            first, end = earliest[number], latest[number]
            if first > end:
                raise Unavailable(f"{partition.name}: {_impossible(first, end)}")
            notice = partition.listed(first, end, requested_ms, moves_end=self._follow)
            if notice is not None:
                self._notice(notice)
            if partition.position >= partition.end:
                partition.complete(requested_ms)
            await asyncio.sleep(0)  # each may have written files
        self._written([], False)

    async def _fetch(self, connection: Connection) -> None:
        pending: asyncio.Task[dict[str, Any]] | None = None
        requested_ms = answered_ms = 0
        clock = asyncio.get_running_loop().time
        requested_s = clock()
        try:
            while True:
                taken: list[_Taken] = []
                if pending is not None:
                    taken = self._take(await pending)
                    pending = None  # it has the response
                    took_s = clock() - requested_s
                    self._fit(sum(len(part.data) for part in taken), took_s)
                    least_s = max(self._wait_ms / 1000, PAUSE_S)
                    if not any(part.batches for part in taken) and took_s < least_s:
                        await asyncio.sleep(PAUSE_S)  # the broker should have waited for more
                answered_ms = requested_ms
                body = self._request()
                if body is not None and self.error is None:
                    requested_ms, requested_s = self._now_ms(), clock()
                    pending = asyncio.ensure_future(connection.ask("Fetch", body))
                self._write(taken, answered_ms)
                if pending is None:
                    return
        finally:
            if pending is not None:
                pending.cancel()

    def _fit(self, size_bytes: int, took_s: float) -> None:
        """Fit the size of responses to the bandwidth: each has to come in time."""
        if 2 * size_bytes < self._bytes:
            return  # the broker had no more
        if 2 * took_s < RESPONSE_S:
            self._bytes = min(2 * self._bytes, self._max_bytes)
        elif took_s > RESPONSE_S:
            self._bytes = max(self._bytes // 2, min(FIRST_BYTES, self._max_bytes))
        if took_s > SLOW_S and size_bytes / took_s < SLOW_BYTES_PER_S and not self._is_slow:
            self._is_slow = True
            rate = size_bytes / took_s / 1000
            self._notice(f"{self._topic}: the broker sends {rate:,.0f} kB/s")

    def _request(self) -> dict[str, Any] | None:
        """Return the next request; None: nothing is left to fetch.

        The partition that comes first changes, because a broker fills a response in their order.
        """
        self._order.rotate(-1)
        self._requested = [
            p for p in self._order if self._follow or (p.position < p.end and not p.is_refused)
        ]
        if not self._requested:
            return None
        parts = [
            {
                "partition": p.number,
                "fetchOffset": p.position,
                "lastFetchedEpoch": p.leader_epoch,
                "partitionMaxBytes": min(self._partition_bytes, self._bytes),
            }
            for p in self._requested
        ]
        return fetch_request(self._topic, self._topic_id, parts, self._bytes, self._wait_ms)

    def _take(self, response: dict[str, Any]) -> list[_Taken]:
        """Find the whole batches of a response, and move the positions behind them."""
        requested = {partition.number for partition in self._requested}
        rows = fetched_rows(response, self._topic, self._topic_id, requested)
        found = [self._take_row(self._by_number[row["partitionIndex"]], row) for row in rows]
        taken = [part for part in found if part is not None]
        behind = any(p.position < p.end for p in self._requested)
        if behind and self.error is None and not any(part is None or part.data for part in found):
            self.error = Unavailable(f"{self._topic}: the broker sends nothing of its log")
        return taken

    def _take_row(self, partition: CopiedPartition, row: dict[str, Any]) -> _Taken | None:
        code = row["errorCode"]
        if code == Error.OFFSET_OUT_OF_RANGE:  # its start has moved, or it has no such epoch
            partition.leader_epoch = -1
            what = f"offset {partition.position:,} is out of range"
            self.error = Unavailable(f"{partition.name}: {what}")
            return None
        if code:
            error = refusal(code, partition.name, "READ")
            if isinstance(error, NoPermission):
                raise error
            if isinstance(error, Unavailable):
                self.error = error
            else:  # such as CORRUPT_MESSAGE: others of its partitions may be sound
                self._refuse(partition, str(error))
            return None
        diverging = row.get("divergingEpoch")
        if diverging and diverging["epoch"] >= 0:
            raise ClusterError(
                f"{partition.name}: the broker's log differs from the copy since offset "
                f"{diverging['endOffset']:,}, as after an unclean election; "
                "fetch into another folder"
            )
        log_start, end = row.get("logStartOffset", -1), row["highWatermark"]
        if log_start > end or end < partition.end:
            what = f"the end of the broker's log went back from {partition.end:,} to {end:,}"
            what = _impossible(log_start, end) if log_start > end else what
            self.error = Unavailable(f"{partition.name}: {what}")
            return None
        if log_start > partition.position:
            self.error = Unavailable(f"{partition.name}: the log's start has moved")
            return None
        notice = partition.moved(log_start, self._now_ms())
        if notice is not None:
            self._notice(notice)
        if self._follow:  # else the copy ends where the log did when it began
            partition.end = end
        data = row["records"] or b""
        batches = self._batches(partition, data, end) if data else None
        if not data and partition.position >= end:
            partition.damage, partition.failures = None, 0
        return _Taken(partition, data, batches)

    def _batches(self, partition: CopiedPartition, data: bytes, end: int) -> Batches | None:
        """Find the sound batches of a partition's part; None: it is damaged, to be fetched again.

        No checksum covers the offset of a batch, so it has to fit between the copy and the end of
        the broker's log.
        """
        batches = sound_batches(data, is_response=True)
        is_begun, position = partition.begin_at is None, partition.position
        if batches is None:
            damage = f"{len(data):,} bytes without a whole batch at offset {position:,}"
        elif (
            batches.next_offset <= position
            or (is_begun and batches.first_offset < position)
            or batches.next_offset > end
        ):
            sent = f"{batches.first_offset:,} to {batches.next_offset - 1:,}"
            damage = f"offsets {sent}; offset {position:,} was requested"
        else:
            partition.position, partition.leader_epoch = batches.next_offset, batches.leader_epoch
            partition.damage, partition.failures = None, 0
            return batches
        self._refuse(partition, f"{partition.name}: the broker sent {damage}")
        return None

    def _refuse(self, partition: CopiedPartition, damage: str) -> None:
        """Note that a partition's part is no part of its log; it is fetched again."""
        partition.damage = damage
        partition.failures += 1
        if self._follow and partition.is_refused:
            if partition.failures == FETCHES_OF_A_BATCH:
                self._notice(f"{damage}; trying again until it is sound")
            self.error = Damaged(damage)

    def _write(self, taken: list[_Taken], answered_ms: int) -> None:
        for partition, data, batches in taken:
            if batches is not None:
                partition.write(data, batches)
            if partition.position >= partition.end and partition.damage is None:
                partition.complete(answered_ms)
        if taken:
            written = [
                (part, memoryview(data)[: found.size]) for part, data, found in taken if found
            ]
            self._written(written, self.error is None)


def _impossible(first: int, end: int) -> str:
    return f"the broker says that its log begins at offset {first:,} and ends at {end:,}"


def fetched_rows(
    response: dict[str, Any], topic: str, topic_id: str | None, requested: Iterable[int]
) -> list[dict[str, Any]]:
    """Return the partitions of a Fetch response.

    Raises
    ------
    ClusterError
        The broker refuses the request, or the response has what was not requested, or one twice.
    """
    if response.get("errorCode"):
        raise refusal(response["errorCode"], topic, "READ")
    named = []
    for found in response["responses"]:
        name, its_id = found.get("topic", topic), found.get("topicId", topic_id)
        is_other = None not in (topic_id, its_id) and its_id != topic_id
        named.append({"name": its_id if is_other else name, "partitions": found["partitions"]})
    return list(rows_by_place(named, {(topic, number) for number in requested}).values())


def fetch_request(
    topic: str, topic_id: str | None, parts: list[dict[str, Any]], max_bytes: int, wait_ms: int
) -> dict[str, Any]:
    """Return the body of a Fetch request for partitions of a topic, as they are stored."""
    return {
        "replicaId": -1,
        "maxWaitMs": wait_ms,
        "minBytes": 1,
        "maxBytes": max_bytes,
        "isolationLevel": READ_UNCOMMITTED,
        "topics": [{"topic": topic, "topicId": topic_id, "partitions": parts}],
    }
