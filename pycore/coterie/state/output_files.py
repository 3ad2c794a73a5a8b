"""The output files of a replay in this process, written while the log is read.

Commits and generations, which grow with the log, are written at once. The other tables are written
at the end, partition by partition.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO

from coterie.base.extras import missing_module
from coterie.state.document import commit_lines, write_document
from coterie.state.partial import PartialState, ScanOptions
from coterie.state.partial import joined as joined_of
from coterie.state.replay_engine import ReplayRequest

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa

    from coterie._core.fold.fold import PartitionFold
    from coterie._core.fold.history import History
    from coterie.state.several_partitions import Orders

GENERATIONS_BUFFERED = 20_000  # of a partition, before they are written


class Tables:
    """The Parquet files of a replay, also of empty tables."""

    def __init__(self, request: ReplayRequest) -> None:
        self.request = request
        self.open = ExitStack()
        self.writers: dict[str, Any] = {}
        self.begun: dict[int | None, set[bytes]] = {}

    def __repr__(self) -> str:
        return f"<Tables: {', '.join(self.writers)} in {self.request.out}>"

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
        if table.num_rows:
            self.writers[name].write_table(table)

    def put_commits(self, number: int | None, history: History) -> None:
        from coterie.state.tables import commits_table

        if history:
            self.put("commits", commits_table(number, history))

    def put_generations(self, number: int | None, fold: PartitionFold) -> None:
        """Append the generations of a fold; the caller may clear them after that."""
        from coterie.state.tables import generations_table

        begun = self.begun.setdefault(number, set())
        self.put("generations", generations_table(number, fold, begun))
        begun.update(fold.groups)

    def write(self, state: PartialState, orders: Orders) -> int:
        """Write the tables of a state; return the number of groups.

        ``orders``: ``state.in_several_partitions()``.
        """
        from coterie.state.faults import known_faults
        from coterie.state.tables import faults_table, fold_tables

        groups = 0
        for (number, fold), (_, joined) in zip(state.live(), joined_of(state, orders), strict=True):
            tables = fold_tables(number, fold, self.begun.get(number, ()), joined)
            groups += tables["groups"].num_rows
            for name, table in tables.items():
                self.put(name, table)
        for number in state.numbers():
            self.put("faults", faults_table(number, known_faults(state.partitions[number])))
        return groups


class Documents:
    """The JSON files of a replay: ``groups.json`` and ``commits.jsonl``."""

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
        if self.commits is not None:
            self.commits.writelines(commit_lines(number, history))

    def put_generations(self, number: int | None, fold: PartitionFold) -> None:
        """Do nothing: ``groups.json`` has no generations."""

    def write(self, state: PartialState, orders: Orders) -> int:
        """Write ``groups.json``; return the number of groups."""
        return write_document(state, self.request.out / "groups.json")


class Drain:
    """Moves the rows that grow with the log from a partition's fold to the files.

    Generations stay in the fold under ``load`` and ``recover``, where a later bad record empties
    the whole partition.
    """

    def __init__(self, number: int | None, files: Tables | Documents, options: ScanOptions) -> None:
        self.number = number
        self.files = files
        self.generations_final = options.on_fault in ("skip", "stop")

    def take(self, fold: PartitionFold) -> None:
        """Write the new rows of the fold, and clear them."""
        if fold.history:
            self.files.put_commits(self.number, fold.history)
            fold.history.clear()
        buffered = sum(len(log.changes) for log in fold.groups.values())
        if self.generations_final and buffered > GENERATIONS_BUFFERED:
            self.files.put_generations(self.number, fold)
            for log in fold.groups.values():
                log.changes.clear()

    def finish(self, fold: PartitionFold) -> None:
        """Write the commits of transactions without an end."""
        if fold.history is not None:
            self.files.put_commits(self.number, fold.history.pending())
