"""The files of a replay in this process, written while the log is read.

What grows with the log, commits and generations, goes out as it comes; the rest, partition by
partition, at the end.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO

from coterie.extras import missing_module
from coterie.replay.engine import ReplayRequest
from coterie.state.document import commit_lines, write_document
from coterie.state.partial import PartialState, ScanOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

    from coterie._core.fold.fold import PartitionFold
    from coterie._core.fold.history import History

ROWS_HELD = 20_000  # generations of a partition, before they are written


class Tables:
    """The files of a replay in Parquet, written as rows come; a table without rows is there too."""

    def __init__(self, request: ReplayRequest) -> None:
        self.request = request
        self.open = ExitStack()
        self.writers: dict[str, Any] = {}
        self.begun: dict[int | None, set[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            import pyarrow.parquet  # noqa: F401
        except ModuleNotFoundError as error:
            raise missing_module(error) from error
        from coterie.state.parquet import parquet_writer
        from coterie.state.schemas import SCHEMAS

        for name in SCHEMAS:
            if name != "commits" or self.request.options.history:
                writer = parquet_writer(self.request.out / f"{name}.parquet", name)
                self.writers[name] = self.open.enter_context(writer)
        return self

    def __exit__(self, *failure: Any) -> None:
        self.open.__exit__(*failure)

    def put(self, name: str, table: pa.Table) -> None:
        """Append rows to a table."""
        if table.num_rows:
            self.writers[name].write_table(table)

    def put_commits(self, number: int | None, history: History) -> None:
        """Append the commits of a history."""
        from coterie.state.tables import commits_table

        if history:
            self.put("commits", commits_table(number, history))

    def put_generations(self, number: int | None, fold: PartitionFold) -> None:
        """Append the generations that a fold holds, which may forget them now."""
        from coterie.state.tables import generations_table

        begun = self.begun.setdefault(number, set())
        self.put("generations", generations_table(number, fold, begun))
        begun.update(fold.groups)

    def write(self, state: PartialState) -> int:
        """Write what the state says and return the number of groups."""
        from coterie.state.tables import faults_table, fold_tables

        groups = 0
        for number, fold in state.live():
            tables = fold_tables(number, fold, self.begun.get(number, ()))
            groups += tables["groups"].num_rows
            for name, table in tables.items():
                self.put(name, table)
        for number in state.numbers():
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

    def put_commits(self, number: int | None, history: History) -> None:
        """Append the commits of a history."""
        if self.commits is not None:
            self.commits.writelines(commit_lines(number, history))

    def put_generations(self, number: int | None, fold: PartitionFold) -> None:
        """Do nothing: the document has none."""

    def write(self, state: PartialState) -> int:
        """Write what the state says and return the number of groups."""
        return write_document(state, self.request.out / "groups.json")


class Drain:
    """Takes out of a partition's fold, piece by piece, what would grow with the log.

    Generations only where no later fault can undo them: under ``load`` and ``recover`` a bad
    record empties the whole partition.
    """

    def __init__(self, number: int | None, files: Tables | Documents, options: ScanOptions) -> None:
        self.number = number
        self.files = files
        self.lasting = options.on_fault in ("skip", "stop")

    def take(self, fold: PartitionFold) -> None:
        """Write what came into the fold since the last time."""
        if fold.history:
            self.files.put_commits(self.number, fold.history)
            fold.history.clear()
        if self.lasting and sum(len(log.changes) for log in fold.groups.values()) > ROWS_HELD:
            self.files.put_generations(self.number, fold)
            for log in fold.groups.values():
                log.changes.clear()

    def finish(self, fold: PartitionFold) -> None:
        """Write the commits that no marker decided."""
        if fold.history is not None:
            self.files.put_commits(self.number, fold.history.pending())
