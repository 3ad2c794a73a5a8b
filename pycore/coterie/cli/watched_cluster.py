"""A cluster that ``coterie watch`` follows: its copy grows while the watcher reads it."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.cli.clusters import cluster_of
from coterie.cli.copying import copy
from coterie.errors import LogError
from coterie.live.copying import CopyObserver, CopyPlan
from coterie.log.folders import TOPIC, Listing, find_segments

if TYPE_CHECKING:
    from coterie.live.watch_running import Follow
    from coterie.live.watcher import Watcher

CLUSTER = "cluster"  # what the watcher waits for until the first copy is complete


def list_copy(folder: Path) -> Listing:
    """List a copy, which may not have begun yet."""
    try:
        has_begun = any(folder.glob(f"{TOPIC}-*"))
    except OSError as error:  # too many open files, for a while
        raise LogError(f"{folder}: cannot be read: {error.strerror}") from error
    if not has_begun:
        return Listing((), ())
    return find_segments([folder])


class Reporting(CopyObserver):
    """Gives the watcher what the copy waits for, and how far it is behind."""

    def __init__(self, watcher: Watcher, complete: Event) -> None:
        self.watcher, self.is_complete = watcher, complete

    def waiting(self, reasons: Mapping[str, str]) -> None:
        """Take what the copy waits for."""
        is_complete = self.is_complete.is_set()
        first = {} if is_complete else {CLUSTER: "the first copy is not complete yet"}
        self.watcher.source_failures = first | dict(reasons)

    def progress(self, done: int, total: int) -> None:
        """Take how far the copy is."""
        self.watcher.behind_offsets = total - done

    def complete(self, at_ms: int) -> None:
        """Take that the copy has been complete."""
        self.is_complete.set()
        self.watcher.source_failures.pop(CLUSTER, None)


def following(
    servers: str,
    client_file: str | None,
    folder: Path,
    sample_s: int | None,
    keep_ms: int,
    watcher: Watcher,
) -> Follow:
    """Return a function that copies the offsets topic into a folder until its event is set.

    ``keep_ms``: for how long the copy, and the samples of end offsets, keep everything.
    """
    not_connected = cluster_of(servers, client_file)
    plan = CopyPlan(folder, follow=True, keep_ms=keep_ms)

    async def follow(ended: Event, complete: Event) -> None:
        reporting = Reporting(watcher, complete)
        reporting.waiting({})
        async with not_connected as cluster:
            await copy(cluster, ended, plan, sample_s, observer=reporting)

    return follow
