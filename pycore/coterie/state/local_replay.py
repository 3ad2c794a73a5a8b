"""The engine in this process: folds a log on all cores, and writes its tables.

Memory grows with the keys, not with the log: segments are scanned in pieces, commits and
generations are written at once, and the other tables partition by partition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from coterie.log.folders import Log, Segment, find_segments, read_segment
from coterie.state.parallel_scan import fold_log, scan_part, threads_for, whole
from coterie.state.partial import PartialState, ScanOptions
from coterie.state.replay_engine import (
    Progress,
    ReplayRequest,
    Summary,
    read_of,
    stop_at_fault,
    summarize,
)
from coterie.state.several_partitions import lines_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from coterie._core.fold.fold import PartitionFold


def replay(request: ReplayRequest, progress: Progress) -> Summary:
    """Replay a log into the files of ``request.out``. See ``coterie.state.replay_engine``."""
    from coterie.state.output_files import (  # a mere scan does not need them
        Documents,
        Drain,
        Tables,
    )

    listing = find_segments(request.log)
    progress.total(listing.size)
    state = PartialState(request.options)
    threads = threads_for(listing, request.options)
    with (
        Documents(request) if request.format == "json" else Tables(request) as files,
        closing(fold_log(state, listing, threads)) as folded,
    ):
        for number, steps in itertools.groupby(folded, lambda step: step.partition):
            drain = Drain(number, files, request.options)
            for step in steps:
                drain.take(state.fold(number))
                stop_at_fault(state)
                progress.advance(step.size)
            drain.finish(state.fold(number))
        progress.stage("writing")
        orders = state.in_several_partitions()
        groups = files.write(state, orders)
    notes = tuple(lines_of(orders, state.partition_count))
    return summarize(read_of(state), groups, listing.passed_over, notes)


def scan_state(log: Log, options: ScanOptions, progress: Progress) -> PartialState:
    """Return the state of a log, with its history in memory."""
    listing = find_segments(log)
    progress.total(listing.size)
    state = PartialState(options)
    with closing(fold_log(state, listing, threads_for(listing, options))) as folded:
        for step in folded:
            progress.advance(step.size)
    return state


def scan_segment(
    fold: PartitionFold, segment: Segment, read: Callable[[Segment], Buffer] = read_segment
) -> None:
    for _ in scan_part(fold, whole(segment), read):
        pass
