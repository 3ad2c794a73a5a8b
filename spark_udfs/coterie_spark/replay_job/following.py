"""Follow a growing log: history tables that are appended to, state tables that are replaced.

    stream of partial states -> shuffle by partition -> merge with the stored state
    -> the tables -> ``batch.json``, which makes the batch count

Spark repeats the batch that it was at when a process died, from the same offsets. A batch that
``batch.json`` already names is skipped; the rest of an unfinished one is removed or skipped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.base.arguments import walked
from coterie.base.atomic_file import atomic_write
from coterie.base.user_files import open_regular, read_regular
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.log.folders import find_segments
from coterie.state.partial import PartialState, merge
from coterie.state.replay_pieces import join_pieces
from coterie.state.schemas import SCHEMAS
from coterie_spark.replay_job import joining, merging, plan, scanning, writing
from coterie_spark.replay_job.closures import unfit_workers_reported
from coterie_spark.replay_job.followed_tables import (
    HISTORY,
    STATE,
    DeltaTables,
    FollowedTables,
    Others,
    ParquetTables,
)
from coterie_spark.replay_job.settings import bounded_batches
from coterie_spark.replay_job.tasks import by_place, cores_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FORMATS = ("parquet", "delta")
STORED = "-stored"  # the product that names a partition's new state file
FOLDER, BATCH = "coterie", "batch.json"
UNWRITTEN = r"\.{1,2}0\.[0-9a-f-]{36}\.tmp(\.crc)?"  # what Spark renames when it is whole
VERSION = 1
ANEW = "start with a new checkpoint and a new folder"
Stored = Mapping[int | None, str]


class FollowedPartition(merging.PartitionMerge):
    """The stored state of a partition, and what a batch adds to it."""

    def __init__(self, partition: int | None, folder: Path, name: str | None, to: str) -> None:
        super().__init__(partition, "parquet")
        self.folder, self.to = folder, to
        self.begun: set[bytes] = set()
        if name is not None:
            self.state = stored_state(folder / name)
            self.begun.update(self.state.partitions[partition].groups)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the tables, store the state without the rows of its history, and name its file."""
        assert self.state is not None  # stored, or made by the first piece
        fold = self.state.partitions[self.partition]
        yield from self.put_tables(fold, self.begun)
        fold.faults.clear()
        fold.more_faults.clear()
        for log in fold.groups.values():
            log.changes.clear()
        fold.segments[:] = join_pieces(fold.segments)
        file = f"{self.partition}-{self.to}.state"
        (self.folder / file).write_bytes(self.state.to_bytes())
        yield self.put(STORED, json.dumps([self.partition, file]).encode())


def stored_state(file: Path) -> PartialState:
    """Return a stored state; raise CoterieError if it is gone or damaged."""
    try:
        with open_regular(file) as opened:
            return PartialState.from_bytes(opened.read())
    except (OSError, CoterieError) as error:
        raise CoterieError(f"{file}: {getattr(error, 'strerror', error)}; {ANEW}") from None


def states_in(others: Others) -> dict[int | None, str]:
    return dict(json.loads(text) for name, text in others if name == STORED)


def follow_worker(folder: str, stored: Stored, batch_id: int) -> scanning.Worker:
    """Return the worker that merges new states into stored ones."""

    def work(batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
        to = f"{batch_id}-{writing.attempt()}"
        yield from merging.merged(
            batches, lambda number: FollowedPartition(number, Path(folder), stored.get(number), to)
        )

    return work


class Follower:
    """The tables and the stored state of a followed log; a call adds a batch."""

    def __init__(
        self,
        log: Sequence[str],
        out: Path,
        checkpoint: Path,
        names: tuple[str, ...],
        format: str = "parquet",
    ) -> None:
        self.log, self.out, self.folder = log, out, checkpoint / FOLDER
        self.settings = {
            "version": VERSION, "out": str(out), "tables": [*names], "format": format
        }  # fmt: skip
        self.tables: FollowedTables = ParquetTables(out, names)
        if format == "delta":
            self.settings["checkpoint"] = str(checkpoint)  # names this follow in the tables
            self.tables = DeltaTables(out, names, f"coterie {checkpoint}")

    def begin(self, source: Mapping[str, str]) -> None:
        """Make the folders, or check that they are those of this follow."""
        self.settings["source"] = dict(source)
        known = self.read()
        if known is None:
            if self.out.is_dir() and any(self.out.iterdir()):
                raise CoterieError(
                    f"{self.out}: is not empty, and {self.folder} has no state for it; name a"
                    " folder that is new or empty, or the checkpoint that it belongs to"
                )
            self.out.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(parents=True, exist_ok=True)
            self.write({"batch": -1, "states": []})
            return
        for name, value in self.settings.items():
            if known.get(name) != value:
                raise CoterieError(
                    f"{self.folder / BATCH}: follows with {name} {known.get(name)!r}, not"
                    f" {value!r}; give the same again, or a new checkpoint and a new folder"
                )
        if known["batch"] >= 0:
            self.tables.show(known["batch"])
        else:
            self.remove_unwritten_offsets()

    def read(self) -> dict[str, Any] | None:
        """Return what was written about the last batch; None if there is nothing."""
        try:
            text = read_regular(self.folder / BATCH)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CoterieError(f"{self.folder / BATCH}: {error.strerror}; {ANEW}") from None
        try:
            known: dict[str, Any] = json.loads(text)
            if type(known["batch"]) is int:
                return known
        except (ValueError, TypeError, KeyError):
            pass
        raise CoterieError(f"{self.folder / BATCH}: is damaged; {ANEW}")

    def write(self, batch: Mapping[str, Any]) -> None:
        """Make a batch the last one."""
        with atomic_write(self.folder / BATCH) as file:
            file.write_text(json.dumps({**self.settings, **batch}))

    def __call__(self, states: DataFrame, batch_id: int) -> None:
        """Add the states of a batch, unless they were added before."""
        known = self.read()
        last = -1 if known is None else known["batch"]
        if known is None or batch_id > last + 1:
            raise CoterieError(
                f"{self.folder / BATCH}: the last batch is {last}, and Spark is at {batch_id};"
                f" {ANEW}"
            )
        if batch_id <= last:
            return
        stored: dict[int | None, str] = {number: name for number, name in known["states"]}
        self.remove_leftovers(stored, last)
        work = follow_worker(str(self.folder), stored, batch_id)
        with bounded_batches(states.sparkSession, 1), unfit_workers_reported():
            others = self.tables.put(self.by_place(states, stored), work, batch_id, self.joined)
        self.write({"batch": batch_id, "states": [*states_in(others).items()]})
        self.tables.show(batch_id)
        for name in stored.values():
            (self.folder / name).unlink(missing_ok=True)
        self.tables.drop_before(last)

    def joined(self, others: Others) -> joining.Joined | None:
        """Join the stored states that share groups; None: there are none."""
        shared, names = joining.sharing(others), states_in(others)
        if not shared:
            return None
        state = merge(stored_state(self.folder / names[number]) for number in shared)
        return joining.joined_tables(state, find_segments(self.log).partition_count())

    def remove_leftovers(self, stored: Stored, last: int) -> None:
        """Remove what a batch left behind that did not end."""
        for file in self.folder.glob("*.state"):
            if file.name not in stored.values():
                file.unlink()
        self.tables.remove_leftovers(last)

    def remove_unwritten_offsets(self) -> None:
        """Remove what is left of the first batch's offsets if the driver died while it wrote them.

        Spark 4.1 and later refuse to start with anything in that folder, unless it is a batch.
        """
        files = [*(self.folder.parent / "offsets").glob("*")]
        if all(re.fullmatch(UNWRITTEN, file.name) for file in files):
            for file in files:
                file.unlink()

    def by_place(self, states: DataFrame, stored: Stored) -> DataFrame:
        """Return the states of a batch by their place; an empty one of each stored partition."""
        from pyspark.sql import functions as f

        spark = states.sparkSession
        empty = [(number, -1, 0, True, None, b"") for number in stored]
        rows = states.union(spark.createDataFrame(empty, scanning.STATE_DDL))
        cores = cores_of(spark)
        tasks = min(plan.TASKS_PER_CORE * cores, max(len(stored), cores))
        return by_place(rows, tasks, f.coalesce("partition", f.lit(0)))


def follow(
    spark: SparkSession,
    paths: scanning.Paths,
    out: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str],
    trigger: str | Mapping[str, Any] | None = None,
    format: str = "parquet",
    tables: Iterable[str] = (*HISTORY, *STATE),
    options: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Follow a growing log, and keep the tables of a replay up to date.

    Parameters
    ----------
    spark : SparkSession
        Its workers need coterie, and reach the paths, ``out`` and ``checkpoint`` by the same names.
    paths
        A path of a log, or a list of them; no URLs.
    out
        The folder of the tables, new or empty at first. ``commits``, ``generations`` and
        ``faults`` grow; ``groups``, ``members`` and ``offsets`` are replaced as a whole.
    checkpoint
        The folder of Spark's checkpoint. The merged state is in its folder ``coterie``.
    trigger
        A processing time, as ``10 seconds``; or arguments of ``DataStreamWriter.trigger``, as
        ``{"availableNow": True}``. None: a batch as soon as the one before has ended.
    format
        ``parquet``: a table is a folder of Parquet files, ``out/NAME.parquet``. ``delta``: a
        table of Delta Lake, ``out/NAME``, if the session has it; times are those of Spark.
    tables
        The tables to write.
    options
        Options of the streaming source: ``group``, ``partitions``, ``maxBytesPerTrigger``.

    Returns
    -------
    StreamingQuery
        The running query.

    Raises
    ------
    CoterieError
        An argument is wrong, or the folders belong to another follow.
    """
    from coterie_spark.source.states_source import FORMAT, StatesSource
    from coterie_spark.source.stream_reader import MAX_BYTES

    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    names = [os.path.abspath(os.fspath(path)) for path in several]
    find_segments(names)
    chosen = checked_tables(tables)
    if format not in FORMATS:
        raise ArgumentError(f"format must be of {', '.join(FORMATS)}, not {shown(format)}")
    for name, folder in (("out", out), ("checkpoint", checkpoint)):
        if "://" in os.fspath(folder):
            raise ArgumentError(f"{name} must be a path of a folder, not {shown(folder)}")
    target, home = Path(os.path.abspath(out)), Path(os.path.abspath(checkpoint))
    settings = {key: str(value) for key, value in (options or {}).items()}
    follower = Follower(names, target, home, chosen, format)
    follower.tables.check(spark)
    follower.begin({key: one for key, one in settings.items() if key != MAX_BYTES})
    spark.dataSource.register(StatesSource)
    stream = spark.readStream.format(FORMAT).options(**settings, paths=json.dumps(names)).load()
    writer = stream.writeStream.foreachBatch(follower)
    writer = writer.option("checkpointLocation", str(home))
    if trigger is not None:
        when = {"processingTime": trigger} if isinstance(trigger, str) else dict(trigger)
        writer = writer.trigger(**when)
    return writer.start()


def checked_tables(tables: Iterable[str]) -> tuple[str, ...]:
    names = tuple(walked(tables, "tables"))
    for name in names:
        if name not in SCHEMAS:
            raise ArgumentError(f"tables must be of {', '.join(SCHEMAS)}, not {shown(name)}")
    return names
