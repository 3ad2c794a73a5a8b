"""Copy partitions of a topic, byte for byte: ``copy_partitions``.

Each leader gets a lane of Fetch requests (``lanes``). When a lane ends early, because a leader has
changed or a broker is gone, the leaders are looked up again, with pauses that grow. Whatever ends
the copying, each folder ends with a whole batch and has its state.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from coterie._core.codec.compression import partition_for
from coterie.errors import CoterieError, LogError
from coterie.live.cluster import Backoff, Cluster, TopicView
from coterie.live.cluster_errors import (
    ClusterError,
    Damaged,
    MadeAgain,
    NoTopic,
    NotWritten,
    Unavailable,
    without_calls,
)
from coterie.live.lanes import CopiedPartition, Lane, fetch_request, fetched_rows
from coterie.live.segments import SEGMENT_BYTES, CopyLock, PartitionCopy, may_pass
from coterie.live.stopping import run_until
from coterie.live.thinning import drop_replaced, old_segments, thin
from coterie.log.copy_state import (
    STATE_FILE,
    CopyState,
    put_aside,
    read_copy_state,
    write_copy_state,
)
from coterie.log.folders import SEGMENT_FILE, TOPIC

RESPONSES_BYTES = 64 << 20  # of the responses of all leaders that are awaited at a time
THIN_BYTES = 1 << 20  # of a response: it comes in time over a slow link
SAVE_AFTER_MS = 5_000
SAVE_MS = 500  # of saving at a time; the states of 100,000 partitions take minutes
THIN_EVERY_S = 60.0
CONFIRM_S = 0.1  # between two looks at a topic that seems to be made again, or to have grown
NOT_WRITTEN = "has segments that coterie fetch did not write; choose another folder"


@dataclass(frozen=True)
class CopyPlan:
    """What to copy, and where to.

    Attributes
    ----------
    out : Path
        The folder of the copy; each partition gets the folder ``TOPIC-N`` in it.
    topic : str
        The topic.
    partitions : tuple of int
        The partitions to copy; empty, without ``groups``: all.
    groups : tuple of str
        Also the partitions that have the records of these groups.
    follow : bool
        Go on when the copy is complete, until the caller stops it.
    segment_bytes : int
        The size at which a new segment begins.
    keep_ms : int or None
        With ``follow``: how long segments stay as they were fetched; older ones are replaced by
        what the broker's compaction has left of them. None: all stay.
    """

    out: Path
    topic: str = TOPIC
    partitions: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    follow: bool = False
    segment_bytes: int = SEGMENT_BYTES
    keep_ms: int | None = None


@dataclass(frozen=True)
class CopyResult:
    """The copy of one partition, at the end.

    Attributes
    ----------
    partition : int
        The partition.
    next_offset : int
        The offset after the last record of the copy.
    fetched_bytes : int
        The bytes that were added.
    state : CopyState
        What its state file says.
    """

    partition: int
    next_offset: int
    fetched_bytes: int
    state: CopyState


class CopyObserver:
    """Follows the copying; a subclass overrides what it needs."""

    async def begun(self, partitions: tuple[int, ...]) -> None:
        """Take the partitions that are copied; nothing is fetched before it returns."""

    def appended(self, partition: int, batches: memoryview) -> None:
        """Take whole batches that were written."""

    def progress(self, done: int, total: int) -> None:
        """Take how many offsets of how many have been passed."""

    def complete(self, at_ms: int) -> None:
        """Take the time as of which all partitions were complete for the first time."""

    def waiting(self, reasons: Mapping[str, str]) -> None:
        """Take why partitions wait for their leaders, by name; of the topic: all of them wait."""

    def notice(self, line: str) -> None:
        """Take a line for people."""


async def copy_partitions(
    cluster: Cluster,
    plan: CopyPlan,
    *,
    now_ms: Callable[[], int],
    observer: CopyObserver | None = None,
    stop: asyncio.Event | None = None,
) -> list[CopyResult]:
    """Copy partitions until they are complete, or with ``follow`` until ``stop`` is set.

    A folder that has a copy already gets what it lacks. With ``follow``, the copy of a topic that
    was made again is put aside, and begun anew.

    Parameters
    ----------
    cluster
        The cluster, entered.
    plan
        What to copy, and where to.
    now_ms
        The clock, in epoch ms: when the copy was complete.
    observer
        Follows the copying.
    stop
        Ends the copying early; what was written stays.

    Raises
    ------
    ClusterError
        The cluster refuses, or is not reached in ``default.api.timeout.ms``; while following, what
        may pass is waited for without an end.
    LogError
        A folder has another copy, or is written by another process.
    """
    _refuse_other_folders(plan)
    observer, stop = observer or CopyObserver(), stop or asyncio.Event()
    with CopyLock(plan.out) as lock:
        while True:
            copying = _Copying(cluster, plan, now_ms, observer, lock)
            try:
                with contextlib.ExitStack() as open_files:
                    await run_until(stop, copying.run(open_files))
                copying.refuse_damage()
                return copying.results()
            except MadeAgain as error:
                if not plan.follow:
                    raise
                await asyncio.sleep(CONFIRM_S)
                if not await _is_made_again(cluster, error):
                    continue
                aside = put_aside(plan.out, plan.topic, error.topic_id)
                what = f"topic {plan.topic} was made again; its copy begins anew"
                observer.notice(f"{what}; the old one is {', '.join(map(str, aside))}")


async def _is_made_again(cluster: Cluster, error: MadeAgain) -> bool:
    """Whether the brokers say a second time that a topic was made again: one may be mistaken."""
    try:
        return (await cluster.topic(error.topic)).topic_id == error.topic_id
    except (Unavailable, NoTopic):  # the next look waits for it
        return False


class _Copying:
    def __init__(
        self,
        cluster: Cluster,
        plan: CopyPlan,
        now_ms: Callable[[], int],
        observer: CopyObserver,
        lock: CopyLock,
    ) -> None:
        self._cluster, self._plan, self._now_ms, self._observer = cluster, plan, now_ms, observer
        self._lock = lock
        limit_s = cluster.config.whole("default.api.timeout.ms") / 1000
        self._backoff = Backoff(cluster.config, None if plan.follow else limit_s)
        self._partitions: list[CopiedPartition] = []
        self._count = 0  # of the topic's partitions, also of those that are not copied
        self._opened: dict[PartitionCopy, int] = {}
        self._waiting: list[CopiedPartition] = []
        self._lanes: dict[asyncio.Task[None], Lane] = {}
        self._connected: set[tuple[int, int]] = set()  # leader and number of each lane
        self._saved_ms = now_ms()
        self._saved: dict[int, CopyState] = {}
        self._to_save: deque[CopiedPartition] = deque()  # the one that is due next comes first
        self._was_complete = self._is_waiting = False
        self._cluster_id: str | None = None
        self._topic_id: str | None = None
        self._reasons: dict[str, str] = {}  # why partitions wait, by name
        self._not_thinned: dict[int, str] = {}  # why, by partition

    async def run(self, open_files: contextlib.ExitStack) -> None:
        view = await self._first_view()
        self._open(view, open_files)
        await self._observer.begun(tuple(p.number for p in self._partitions))
        thinning = asyncio.ensure_future(self._thin(view))
        growing = asyncio.ensure_future(self._grown())
        try:
            error = self._start(view)
            while self._waiting or self._lanes:
                if growing.done():
                    error = self._grow(growing.result(), open_files) or error
                    growing = asyncio.ensure_future(self._grown())
                elif self._waiting:
                    assert error is not None
                    await self._pause(error)
                    error = await self._start_again() or error
                else:
                    first = asyncio.FIRST_COMPLETED
                    await asyncio.wait([*self._lanes, growing], return_when=first)
                error = self._reap() or error
        finally:
            for task in (*self._lanes, thinning, growing):
                task.cancel()
            await asyncio.gather(*self._lanes, thinning, growing, return_exceptions=True)

    async def _grown(self) -> TopicView:
        """Return the topic once brokers show twice that it has got partitions."""
        age_s = max(self._cluster.config.whole("metadata.max.age.ms") / 1000, CONFIRM_S)
        views: list[TopicView] = []
        while True:
            await asyncio.sleep(CONFIRM_S if views else age_s)
            try:
                view = await self._cluster.topic(self._plan.topic)
            except ClusterError:  # the lanes tell what is wrong
                continue
            if not self._plan.follow or len(view.leaders) <= self._count:
                views = []
            elif self._topic_id in (None, view.topic_id):  # else the lanes end
                views.append(view)
            if len(views) > 1:
                return min(views, key=lambda view: len(view.leaders))

    def _grow(self, view: TopicView, open_files: contextlib.ExitStack) -> Unavailable | None:
        """Begin with new partitions; return why some wait. Those without room come later."""
        try:
            self._open(view, open_files)
        except (OSError, LogError) as error:
            if not may_pass(error):
                raise
            self._observer.notice(f"{_not_written(error)}; trying again until there is room")
        return self._start(view)

    async def _thin(self, view: TopicView) -> None:
        """Replace old segments, now and then; see ``thinning``."""
        while self._plan.keep_ms is not None:
            await asyncio.sleep(THIN_EVERY_S)
            for partition in self._partitions:
                await self._thin_or_say(view, partition, self._now_ms() - self._plan.keep_ms)

    async def _thin_or_say(self, view: TopicView, partition: CopiedPartition, before: int) -> None:
        """Replace old segments, or say once why they stay."""
        try:
            await self._thin_one(view, partition, before)
        except (CoterieError, OSError) as error:  # the next time may do
            line = f"{partition.name}: old segments stay for now: {error}"
            if self._not_thinned.get(partition.number) != line:
                self._observer.notice(line)
            self._not_thinned[partition.number] = line

    async def _thin_one(self, view: TopicView, partition: CopiedPartition, before_ms: int) -> None:
        old = old_segments(partition.files.folder, before_ms, self._plan.segment_bytes)
        if old is None or partition.state is None:
            return
        view = await self._cluster.topic(view.name)
        leader = view.leaders.get(partition.number)
        if leader is None or view.topic_id != partition.state.topic_id:
            return
        connection = await self._cluster.connection(leader)

        async def fetch(offset: int) -> dict[str, Any]:
            part = {"partition": partition.number, "fetchOffset": offset}
            limit = self._cluster.config.whole("max.partition.fetch.bytes")
            part["partitionMaxBytes"] = min(limit, THIN_BYTES)
            body = fetch_request(view.name, view.topic_id, [part], part["partitionMaxBytes"], 0)
            response = await connection.ask("Fetch", body)
            rows = fetched_rows(response, view.name, view.topic_id, {partition.number})
            if len(rows) != 1:
                raise Unavailable(f"{partition.name}: the broker sends nothing of its log")
            return rows[0]

        await thin(old, partition.state.log_start, fetch, partition.name)

    async def _first_view(self) -> TopicView:
        while True:
            view = await self._view()
            if isinstance(view, TopicView):
                return view
            await self._pause(view)

    async def _view(self) -> TopicView | Unavailable:
        """Return the topic as it is now, or why no broker shows it."""
        name = self._plan.topic
        try:
            view = await self._cluster.topic(name)
        except Unavailable as error:
            return self._wait_for(name, error)
        except NoTopic as error:
            if not self._plan.follow:
                raise
            return self._wait_for(name, Unavailable(str(error)))
        cluster_id = self._cluster.cluster_id
        if None not in (cluster_id, self._cluster_id) and cluster_id != self._cluster_id:
            raise ClusterError(f"the brokers were of cluster {self._cluster_id}, now {cluster_id}")
        self._cluster_id = self._cluster_id or cluster_id
        if None not in (view.topic_id, self._topic_id) and view.topic_id != self._topic_id:
            raise MadeAgain(name, str(view.topic_id))
        self._topic_id = self._topic_id or view.topic_id
        if self._reasons.pop(name, None):
            self._observer.waiting(self._reasons)
        return view

    def _wait_for(self, name: str, error: Unavailable) -> Unavailable:
        self._reasons[name] = str(error)
        self._observer.waiting(self._reasons)
        return error

    def _open(self, view: TopicView, open_files: contextlib.ExitStack) -> None:
        """Open the folders of the partitions, before anything of them is fetched."""
        known = [partition.number for partition in self._partitions]
        numbers = [number for number in _numbers(self._plan, view) if number not in known]
        if known and numbers:
            what = f"topic {view.name} has {len(view.leaders):,} partitions now"
            self._observer.notice(f"{what}; the copy gets {len(numbers):,} of the new ones")
        self._lock.take()
        for number in numbers:
            name = f"{view.name}-{number}"
            folder = self._plan.out / name
            files = PartitionCopy(folder, self._plan.segment_bytes, self._opened)
            open_files.enter_context(files)
            if self._plan.keep_ms is not None:
                drop_replaced(folder)
            state = _state_of(folder, files, view, number, self._cluster.cluster_id)
            partition = CopiedPartition(
                number,
                name,
                files,
                state,
                self._new_state(view, number, folder),
                leader_epoch=files.leader_epoch,
            )
            open_files.callback(self._save, partition)
            if files.cut_bytes:
                cut = f"{files.cut_bytes:,} bytes of an incomplete batch were cut"
                self._observer.notice(f"{name}: {cut}")
            self._partitions.append(partition)
            self._waiting.append(partition)
            self._to_save.append(partition)
        self._count = len(view.leaders)

    def _new_state(self, view: TopicView, number: int, folder: Path) -> Callable[[int], CopyState]:
        def make(log_start: int) -> CopyState:
            ids = (self._cluster.cluster_id, view.topic_id)
            state = CopyState(view.name, number, *ids, log_start, self._now_ms(), log_start)
            self._put_state(folder, state)  # before a segment: see `_state_of`
            return state

        return make

    def _start(self, view: TopicView) -> Unavailable | None:
        """Start a lane for each leader of a waiting partition; return why some go on waiting."""
        waiting = {partition.number: partition for partition in self._waiting}
        damaged = [number for number, partition in waiting.items() if partition.is_refused]
        by_leader = view.by_leader(waiting.keys() - damaged)
        # Damaged partitions have lanes of their own, which end again and again; others go on.
        lanes = [*by_leader.items(), *view.by_leader(damaged).items()]
        config = self._cluster.config
        partition_bytes = config.whole("max.partition.fetch.bytes")
        for leader, numbers in lanes:
            partitions = [waiting.pop(number) for number in numbers]
            lane = Lane(
                self._plan.topic,
                view.topic_id,
                partitions,
                follow=self._plan.follow,
                max_bytes=max(partition_bytes, RESPONSES_BYTES // len(lanes)),
                partition_bytes=partition_bytes,
                wait_ms=config.whole("fetch.max.wait.ms"),
                now_ms=self._now_ms,
                written=partial(self._written, partitions),
                notice=self._observer.notice,
            )
            self._lanes[asyncio.ensure_future(self._drive(leader, lane))] = lane
        self._waiting = list(waiting.values())  # those without a leader
        error = None
        for partition in self._waiting:
            error = Unavailable(f"{partition.name}: has no leader")
            self._wait_for(partition.name, error)
        return error

    async def _start_again(self) -> Unavailable | None:
        view = await self._view()
        return self._start(view) if isinstance(view, TopicView) else view

    async def _drive(self, leader: int, lane: Lane) -> None:
        # A broker answers a Fetch request that waits for records before it reads the next request.
        number = next(n for n in itertools.count(1) if (leader, n) not in self._connected)
        self._connected.add((leader, number))
        failure = None
        try:
            await lane.run(await self._cluster.connection(leader, number))
        except Unavailable as error:
            lane.error = error
        except ClusterError as error:
            failure = without_calls(error)
        except OSError as error:
            if not (self._plan.follow and may_pass(error)):
                raise
            lane.error = _not_written(error)
        finally:
            self._connected.remove((leader, number))
        if failure is not None:
            await self._view()  # raises if the reason is that the topic was made again
            raise failure

    def _reap(self) -> Unavailable | None:
        """Take the lanes that have ended; return why partitions go on waiting."""
        error = None
        for task in [task for task in self._lanes if task.done()]:
            lane = self._lanes.pop(task)
            task.result()
            if lane.error is not None:
                error = lane.error
                unfinished = lane.unfinished()
                self._waiting += unfinished
                for partition in unfinished:
                    self._wait_for(partition.name, error)
        return error

    async def _pause(self, error: Unavailable) -> None:
        if not isinstance(error, Damaged):  # its lane has reported that
            if self._plan.follow and not self._is_waiting:
                what = "there is room" if isinstance(error, NotWritten) else "it is there"
                self._observer.notice(f"{error}; trying again until {what}")
            self._is_waiting = True
        await self._backoff.wait(error)

    def _written(
        self,
        of_lane: list[CopiedPartition],
        written: list[tuple[CopiedPartition, memoryview]],
        is_healthy: bool,
    ) -> None:
        """Pass on what a lane has written, and save the states."""
        for partition, batches in written:
            self._observer.appended(partition.number, batches)
        if is_healthy:
            self._backoff.reset()
            self._is_waiting = False
            if any([self._reasons.pop(partition.name, None) for partition in of_lane]):
                self._observer.waiting(self._reasons)
        begun = [p for p in self._partitions if p.state is not None]
        done = sum(p.position - p.state.first_offset for p in begun if p.state is not None)
        total = sum(p.end - p.state.first_offset for p in begun if p.state is not None)
        self._observer.progress(done, max(done, total))
        self._save_some()
        if not self._was_complete and all(p.is_complete for p in self._partitions):
            self._was_complete = True
            self._observer.complete(min(_complete_ms(p) for p in self._partitions))

    def _save_some(self) -> None:
        """Save states now and then, and no longer than a tenth of the time."""
        began_ms = self._now_ms()
        if began_ms - self._saved_ms < SAVE_AFTER_MS:
            return
        for _ in range(len(self._to_save)):
            try:
                self._save(self._to_save[0])
            except OSError as error:
                if not may_pass(error):
                    raise
                break  # the next time, or at the end
            self._to_save.rotate(-1)
            if self._now_ms() - began_ms >= SAVE_MS:
                break
        self._saved_ms = self._now_ms()

    def _save(self, partition: CopiedPartition) -> None:
        state = partition.state
        if state is not None and state is not self._saved.get(partition.number):
            partition.files.sync()  # the state must not claim what the disk may lose
            self._put_state(partition.files.folder, state)

    def _put_state(self, folder: Path, state: CopyState) -> None:
        write_copy_state(folder, state)
        self._saved[state.partition] = state

    def refuse_damage(self) -> None:
        """Raise ClusterError if the broker's log is damaged: what follows is not in the copy."""
        damages = [p.damage for p in self._partitions if p.damage is not None and p.is_refused]
        if damages:
            raise ClusterError(f"{'; '.join(damages)}; what follows is not in the copy")

    def results(self) -> list[CopyResult]:
        return [
            CopyResult(p.number, p.files.next_offset, p.fetched_bytes, p.state)
            for p in self._partitions
            if p.state is not None and p.files.next_offset is not None
        ]


def _not_written(error: OSError | LogError) -> NotWritten:
    if isinstance(error, LogError):
        return NotWritten(str(error))
    return NotWritten(f"{error.filename}: cannot be written: {error.strerror}")


def _complete_ms(partition: CopiedPartition) -> int:
    assert partition.state is not None
    assert partition.state.complete_until_ms is not None
    return partition.state.complete_until_ms


def _refuse_other_folders(plan: CopyPlan) -> None:
    """Raise LogError if the folder of the copy is a broker's, or of one partition."""
    if (plan.out / "meta.properties").exists():
        raise LogError(f"{plan.out}: is a broker's own folder of logs; choose another folder")
    is_partition = re.compile(re.escape(plan.topic) + "-[0-9]+").fullmatch
    if is_partition(plan.out.resolve().name):
        raise LogError(f"{plan.out}: has the name of a partition's folder; name the one above it")
    for folder in sorted(plan.out.iterdir()) if plan.out.is_dir() else ():
        if (
            is_partition(folder.name)
            and any(SEGMENT_FILE.fullmatch(path.name) for path in folder.iterdir())
            and not (folder / STATE_FILE).exists()
        ):
            raise LogError(f"{folder}: {NOT_WRITTEN}")


def _numbers(plan: CopyPlan, view: TopicView) -> list[int]:
    """Return the partitions to copy; raise ClusterError if one is not there."""
    numbers = {*plan.partitions, *(partition_for(g, len(view.leaders)) for g in plan.groups)}
    for number in sorted(numbers):
        if number not in view.leaders:
            last = len(view.leaders) - 1
            raise ClusterError(f"{view.name} has no partition {number}: it has 0 to {last}")
    return sorted(numbers or view.leaders)


def _state_of(
    folder: Path, files: PartitionCopy, view: TopicView, number: int, cluster_id: str | None
) -> CopyState | None:
    """Return the state of a folder; raise LogError if it is no copy of this partition."""
    state = read_copy_state(folder)
    if state is None:
        if files.next_offset is not None:
            raise LogError(f"{folder}: {NOT_WRITTEN}")
        return None
    for what, ours, theirs in (
        ("topic", state.topic, view.name),
        ("partition", state.partition, number),
        ("cluster", state.cluster_id, cluster_id),
    ):
        if ours != theirs and None not in (ours, theirs):
            raise LogError(f"{folder}: is a copy of {what} {ours}, not {theirs}; choose another")
    if None not in (state.topic_id, view.topic_id) and state.topic_id != view.topic_id:
        raise MadeAgain(view.name, str(view.topic_id))
    if files.next_offset is None:
        return None  # its segments are gone
    if state.topic_id is None:  # it was begun when the brokers had no ids
        state = replace(state, topic_id=view.topic_id)
    if (state.complete_until_offset or 0) > files.next_offset:  # the end of the copy is gone
        state = replace(state, complete_until_ms=None)
    return state
