"""The engine in this process: one partition after another, each folded and written in turn.

Memory grows with the keys, not with the log: a segment is mapped, scanned in pieces and let go,
commits and generations are written as they come, and the other tables partition by partition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.log.folders import (
    PIECE_BYTES,
    Log,
    Segment,
    cut_points,
    find_segments,
    read_segment,
)
from coterie.replay.engine import (
    Progress,
    ReplayRequest,
    Summary,
    read_of,
    stop_at_fault,
    summarize,
)
from coterie.state.partial import PartialState, ScanOptions

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from coterie._core.fold.fold import PartitionFold
    from coterie.replay.files import Drain

HISTORY_PIECE_BYTES = 4 << 20  # the commits of a piece are Python objects until it is written


def replay(request: ReplayRequest, progress: Progress) -> Summary:
    """Replay a log into the files of ``request.out``. See ``coterie.replay.engine``."""
    from coterie.replay.files import (  # which those who only scan do without
        Documents,
        Drain,
        Tables,
    )

    listing = find_segments(request.log)
    progress.total(listing.size)
    state = PartialState(request.options)
    with Documents(request) if request.format == "json" else Tables(request) as files:
        for number, segments in listing.partitions().items():
            fold = state.fold(number)
            drain = Drain(number, files, request.options)
            for segment in segments:
                scan_segment(fold, segment, drain)
                stop_at_fault(state)
                progress.advance(segment.size)
            drain.finish()
        progress.stage("writing")
        groups = files.write(state)
    return summarize(read_of(state), groups, listing.passed_over)


def scan_state(log: Log, options: ScanOptions, progress: Progress) -> PartialState:
    """Return the state of a log, history in memory. For the commands that show it."""
    listing = find_segments(log)
    progress.total(listing.size)
    state = PartialState(options)
    for segment in listing.segments:
        scan_segment(state.fold(segment.partition), segment)
        progress.advance(segment.size)
    return state


def scan_segment(
    fold: PartitionFold,
    segment: Segment,
    drain: Drain | None = None,
    read: Callable[[Segment], Buffer] = read_segment,
) -> None:
    """Let a fold go on with a segment, in pieces."""
    if fold.failed or fold.cut or fold.stopped:
        return  # what follows does not count
    data = memoryview(read(segment))
    cuts = cut_points(data, PIECE_BYTES if fold.history is None else HISTORY_PIECE_BYTES)
    for start, end in itertools.pairwise(cuts if len(cuts) > 1 else [0, 0]):
        fold.scan(data[start:end], file=segment.name, position=start)
        if drain is not None:
            drain.take(fold)
