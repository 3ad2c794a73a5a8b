"""The engine in this process: one partition after another, each folded and written in turn.

Memory grows with the keys, not with the log: a segment is mapped, scanned in pieces and let go,
commits of the history are written as they are decided, and tables go out partition by partition.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO

from coterie.document import commit_lines, write_document
from coterie.engine import (
    Progress,
    ReplayRequest,
    Summary,
    in_order,
    missing_module,
    read_of,
    stop_at_fault,
    summarize,
)
from coterie.history import CommitHistory
from coterie.logdir import Segment, cut_points, find_segments, read_segment
from coterie.state import PartialState, ScanOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

    from coterie._core.fold import PartitionFold

PIECE_BYTES = 32 << 20  # between two pieces an interruption is heard and progress is told


def replay(request: ReplayRequest, progress: Progress) -> Summary:
    """Replay a log into the files of ``request.out``. See ``coterie.engine``."""
    listing = find_segments(request.paths)
    progress.total(sum(segment.size for segment in listing.segments))
    state = PartialState(request.options)
    with Documents(request) if request.format == "json" else Tables(request) as files:
        for number, segments in listing.partitions().items():
            fold = state.fold(number)
            commits = CommitWriter(number, files)
            for segment in segments:
                scan_segment(fold, segment, commits)
                stop_at_fault(state)
                progress.advance(segment.size)
            commits.finish()
        progress.stage("writing")
        groups = files.write(state)
    return summarize(read_of(state), groups, listing.passed_over)


def scan_state(paths: tuple[str, ...], options: ScanOptions, progress: Progress) -> PartialState:
    """Return the state of a log, history in memory. For the commands that show it."""
    listing = find_segments(paths)
    progress.total(sum(segment.size for segment in listing.segments))
    state = PartialState(options)
    for segment in listing.segments:
        scan_segment(state.fold(segment.partition), segment)
        progress.advance(segment.size)
    return state


def scan_segment(
    fold: PartitionFold, segment: Segment, commits: CommitWriter | None = None
) -> None:
    """Let a fold go on with a segment, in pieces."""
    if fold.failed or fold.cut or fold.stopped:
        return  # what follows does not count
    data = memoryview(read_segment(segment))
    cuts = cut_points(data, PIECE_BYTES)
    for start, end in itertools.pairwise(cuts if len(cuts) > 1 else [0, 0]):
        fold.scan(data[start:end], file=segment.path, position=start)
        if commits is not None:
            commits.take(fold)


class Tables:
    """The files of a replay in Parquet, written as rows come; a table without rows is there too."""

    def __init__(self, request: ReplayRequest) -> None:
        self.request = request
        self.open = ExitStack()
        self.writers: dict[str, Any] = {}

    def __enter__(self) -> Self:
        try:
            import pyarrow.parquet as pq
        except ModuleNotFoundError as error:
            raise missing_module(error) from error
        from coterie.schemas import SCHEMAS

        for name, schema in SCHEMAS.items():
            if name != "commits" or self.request.options.history:
                writer = pq.ParquetWriter(self.request.out / f"{name}.parquet", schema())
                self.writers[name] = self.open.enter_context(writer)
        return self

    def __exit__(self, *failure: Any) -> None:
        self.open.__exit__(*failure)

    def put(self, name: str, table: pa.Table) -> None:
        """Append rows to a table."""
        if table.num_rows:
            self.writers[name].write_table(table)

    def put_commits(self, rows: list[tuple[Any, ...]]) -> None:
        """Append decided commits."""
        from coterie.tables import commits_table

        if rows:
            self.put("commits", commits_table(rows))

    def write(self, state: PartialState) -> int:
        """Write what the state says and return the number of groups."""
        from coterie.tables import faults_table, fold_tables

        groups = 0
        for number, fold in state.live():
            tables = fold_tables(number, fold)
            groups += tables["groups"].num_rows
            for name, table in tables.items():
                self.put(name, table)
        for number in in_order(state):
            self.put("faults", faults_table(number, state.partitions[number].faults))
        return groups


class Documents:
    """The same for JSON: ``groups.json``, and commits line by line in ``commits.jsonl``."""

    def __init__(self, request: ReplayRequest) -> None:
        self.request = request
        self.commits: TextIO | None = None

    def __enter__(self) -> Self:
        if self.request.options.history:
            self.commits = open(self.request.out / "commits.jsonl", "w", encoding="utf-8")
        return self

    def __exit__(self, *failure: Any) -> None:
        if self.commits is not None:
            self.commits.close()

    def put_commits(self, rows: list[tuple[Any, ...]]) -> None:
        """Append decided commits."""
        if self.commits is not None:
            self.commits.writelines(commit_lines(rows))

    def write(self, state: PartialState) -> int:
        """Write what the state says and return the number of groups."""
        return write_document(state, self.request.out / "groups.json")


class CommitWriter:
    """Takes the commits out of a fold as they come, and writes those that are decided."""

    def __init__(self, number: int | None, files: Tables | Documents) -> None:
        self.decide = CommitHistory(number)
        self.files = files

    def take(self, fold: PartitionFold) -> None:
        """Move on what the fold noted since the last time."""
        if fold.history:
            self.files.put_commits(self.decide.feed(fold.history))
            fold.history.clear()

    def finish(self) -> None:
        """Write what no marker decided."""
        self.files.put_commits(self.decide.finish())
