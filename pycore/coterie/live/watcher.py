"""All partitions of a log, followed step by step.

``list_log`` is the only place where files come from: a function that lists them anew at each step.
Whatever writes a growing copy of a topic into a folder can be watched by a listing of that folder.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coterie.errors import CoterieError
from coterie.live import snapshot
from coterie.live.sampled_end_offsets import EndOffsets
from coterie.live.several_partitions import each_group_once
from coterie.live.totals import Answer, Mark
from coterie.live.watched_partition import WatchedPartition
from coterie.log.folders import Listing, Segment
from coterie.log.topic_id import CREATED_AGAIN, topic_id_of
from coterie.log.trust import named
from coterie.state.parallel_scan import resting_collector

if TYPE_CHECKING:
    from coterie._core.fold.fold import PartitionFold

STEPS_BETWEEN_SNAPSHOTS = 10
LOG = "log"  # what could not be read: the list of its files
END_OFFSETS = "end offsets"


class Health(NamedTuple):
    """How far the watcher is.

    Attributes
    ----------
    steps : int
        The steps that were taken.
    behind_bytes : int
        Bytes of the files that were not read; compressed segments do not count.
    partial_bytes : int
        Of these, bytes that were no whole batch when they were looked at.
    behind_offsets : int or None
        Offsets of the cluster that are not in its copy yet; None: no cluster is watched.
    newest_ms : int
        The time of the newest record; -1: none.
    rebuilds : int
        How often a partition was read anew, because what was read of it had changed.
    failures : dict
        Why the last step could not read a partition ("log": list the log), and what the copy of a
        cluster waits for, by name.
    """

    steps: int
    behind_bytes: int
    partial_bytes: int
    behind_offsets: int | None
    newest_ms: int
    rebuilds: int
    failures: dict[str, str]


class Watcher:
    """Follows a log.

    Parameters
    ----------
    list_log
        Lists the log's segments as they are now.
    data
        The folder of the snapshots; None: nothing is stored.
    say
        Prints a line for the operator.

    Attributes
    ----------
    source_failures : dict
        What a growing copy of a cluster waits for, by name; set by whoever makes the copy.
    behind_offsets : int or None
        How far that copy is behind; see :class:`Health`.
    is_complete : bool
        Whether totals count what happens, not a past that is still being copied.

    Raises
    ------
    CoterieError
        Another process uses ``data``, or it cannot be written.
    """

    def __init__(
        self,
        list_log: Callable[[], Listing],
        data: Path | None,
        say: Callable[[str], None],
    ) -> None:
        self.list_log = list_log
        self.data = data
        self.say = say
        self.marks: dict[int | None, Mark] = {}  # of partitions that are gone, without ``data``
        self.partitions: dict[int | None, WatchedPartition] = {}
        self.listing = Listing((), ())
        self.steps = 0
        self.version = 0  # changes with what is shown
        self.stopping = False  # a step ends after the partition at hand
        self.failures: dict[str, str] = {}
        self.unsaved: set[int | None] = set()
        self.why_unsaved: dict[int | None, str] = {}  # each is reported once
        self.ends = EndOffsets()
        self.source_failures: dict[str, str] = {}
        self.behind_offsets: int | None = None
        self.is_complete = True  # False: the log is still copied for the first time
        self.rebuilds = 0  # of partitions that are gone
        self.gone: set[int | None] = set()  # partitions that had files before
        self.lock = None if data is None else locked(data)

    def step(self) -> int:
        """Read what is new; return its bytes. A partition that cannot be read is tried again."""
        failures: dict[str, str] = {}
        again: list[int | None] = []  # partitions of a topic that was created again
        size = 0
        try:
            self.listing = self.list_log()
        except CoterieError as error:
            failures[LOG] = str(error)
        else:
            by_number = self.listing.partitions()
            self._drop_those_gone(by_number)
            with resting_collector():
                for number, segments in by_number.items():
                    if self.stopping:
                        break
                    topic_id, partition = topic_id_of(segments), self._partition(number)
                    if partition.is_of_other(topic_id):
                        again.append(number)
                    try:
                        new = partition.step(segments, topic_id)
                    except CoterieError as error:
                        failures[named(number)] = str(error)
                        self.version += 1
                        continue
                    damage = partition.files.damage
                    if damage is not None:
                        failures[named(number)] = damage
                    size += new
                    if new:
                        self.version += 1
                        self.unsaved.add(number)
            try:
                if self.ends.read(self.listing):
                    self.version += 1
            except CoterieError as error:
                failures[END_OFFSETS] = str(error)
        if again:
            more = f" and {len(again) - 1} more" if len(again) > 1 else ""
            self.say(f"{named(again[0])}{more}: {CREATED_AGAIN}; it is read anew, and totals go on")
        for name, text in failures.items():
            if self.failures.get(name) != text:
                self.say(text)
        self.failures = failures
        self.steps += 1
        if self.steps % STEPS_BETWEEN_SNAPSHOTS == 1:
            self.save()
        return size

    def _drop_those_gone(self, by_number: Collection[int | None]) -> None:
        """Drop partitions that have no files any more, once their totals are stored."""
        for number in [number for number in self.partitions if number not in by_number]:
            if number not in self.gone:
                self.gone.add(number)
                self.version += 1
                self.say(f"{named(number)}: its files are gone; it is shown no more")
                self._save(number)
            if number not in self.unsaved:  # its totals have no other place
                self._keep(number)
                self.rebuilds += self.partitions[number].rebuilds
                del self.partitions[number]
        self.gone.difference_update(by_number)

    def _keep(self, number: int | None) -> None:
        """Keep the totals of a partition that is gone, where no file has them."""
        if self.data is None:
            with suppress(CoterieError):
                mark = self.partitions[number].new_mark()
                if mark is not None:
                    self.marks[number] = mark

    def _partition(self, number: int | None) -> WatchedPartition:
        if number not in self.partitions:
            mark = self.marks.pop(number, None)
            if self.data is not None:
                try:
                    mark = snapshot.read(snapshot.file_of(self.data, number))
                except snapshot.NoSnapshot as error:
                    self.say(f"{error}; {named(number)} is counted anew from its log")
            self.partitions[number] = WatchedPartition(number, mark)
        return self.partitions[number]

    def save(self) -> None:
        """Store the totals of the partitions that have new records."""
        for number in tuple(self.unsaved):
            self._save(number)

    def _save(self, number: int | None) -> None:
        self.unsaved.discard(number)
        if self.data is None:
            return
        file = snapshot.file_of(self.data, number)
        try:
            mark = self.partitions[number].new_mark()
            if mark is not None:
                snapshot.write(file, mark)
            self.why_unsaved.pop(number, None)
        except (CoterieError, OSError) as error:
            self.unsaved.add(number)
            reason = getattr(error, "strerror", None) or str(error)
            if reason not in self.why_unsaved.values():
                self.say(f"{file}: cannot be written: {reason}; it is tried again")
            self.why_unsaved[number] = reason

    def close(self) -> None:
        self.save()
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def is_resumed(self) -> bool:
        return self.data is not None and any(self.data.glob(snapshot.ANY))

    def answers(self) -> Iterator[Answer]:
        """Yield what is shown of each partition, by number, except of those that failed."""
        answers: dict[int | None, Answer] = {}
        folds: dict[int | None, PartitionFold] = {}
        for number in self.listing.partitions():
            partition = self.partitions.get(number)
            answer = None if partition is None else partition.answer()
            if partition is not None and answer is not None:
                answers[number] = answer
                if partition.live is not None:
                    folds[number] = partition.live.log.fold
        for answer in each_group_once(answers, folds, self.listing.partition_count()):
            self.ends.put_lags(answer.rows)
            yield replace(answer, findings=answer.findings + self.ends.findings(answer.rows))

    def listing_of(self, group: str) -> Listing | None:
        """Return the segments of a group's partitions; None: no record of the group was read."""
        found: list[Segment] = []
        for number, segments in self.listing.partitions().items():
            live = self.partitions[number].live if number in self.partitions else None
            if live is not None and live.has_group(group):
                found += segments
        return Listing(tuple(found), ()) if found else None

    @property
    def newest_ms(self) -> int:
        """The time of the newest record; -1: no record has a time."""
        lives = [partition.live for partition in self.partitions.values()]
        return max((live.newest_ms for live in lives if live is not None), default=-1)

    def health(self) -> Health:
        """Return how far the watcher is behind the files as they are now, from any thread."""
        watched = list(self.partitions.items())
        partitions = [partition for number, partition in watched if number not in self.gone]
        # Of a compressed segment, only the size of what it unpacks to is known.
        plain = {one.path for one in self.listing.segments if one.compression is None}
        size = 0
        for path in plain:
            with suppress(OSError):
                size += os.stat(path).st_size
        known = [one for partition in partitions for one in list(partition.files.read)]
        read = sum(one.end for one in known if one.path in plain)
        partial = sum(partition.files.waiting_bytes for partition in partitions)
        rebuilds = self.rebuilds + sum(partition.rebuilds for _, partition in watched)
        return Health(
            self.steps,
            max(size - read, 0),
            partial,
            self.behind_offsets,
            self.newest_ms,
            rebuilds,
            self.failures | self.source_failures,
        )


def locked(folder: Path) -> int:
    """Create a folder if necessary, and lock it for this process; return the lock's file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "watch.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        why = "is a file, or in one" if is_file else f"cannot be written: {error.strerror}"
        raise CoterieError(f"--data {folder}: {why}; name another folder") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise CoterieError(
            f"--data {folder}: another coterie watch uses it; name another folder"
        ) from None
    return lock
