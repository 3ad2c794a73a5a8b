"""Replay a log on Spark: the driver plans, workers read and scan, only partial states move.

    list -> plan, scan and merge along a road (``roads``) -> products -> each group once
    -> one DataFrame a table; or files, by ``writing``

Memory of a worker grows with the keys of one partition, not with its records. The shuffle moves
one state for each task and partition. Scan and merge run once, when ``replay`` is called; the
tables are then decoded from the persisted products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace as with_changes
from functools import partial
from typing import TYPE_CHECKING

from coterie.base.times import Time, time_ms
from coterie.errors import CoterieError
from coterie.state.partial import ScanOptions
from coterie.state.several_partitions import count_of
from coterie_spark.replay_job import joining
from coterie_spark.replay_job.frame import NEEDED, NOTES
from coterie_spark.replay_job.listing import listing_of_paths
from coterie_spark.replay_job.products import Products, state_of, summary_of, table_names, table_of
from coterie_spark.replay_job.roads import Road, by_rows, from_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from coterie.state.replay_engine import Summary
    from coterie_spark.replay_job.scanning import Paths


class Replay(Mapping[str, "DataFrame"]):
    """The tables of a replay, by name or as attributes, backed by persisted products.

    Attributes
    ----------
    groups, members, offsets, generations, faults, commits : DataFrame
        As ``coterie replay`` writes them; ``commits`` only with history.
    summary : Summary
        The numbers of what was read, and of faults.
    notes : tuple of str
        Notes on facts that the source leaves undecided (none for segments), and on groups in
        several partitions of the topic.
    """

    def __init__(
        self,
        products: DataFrame,
        summary: Summary,
        names: Iterable[str],
        notes: tuple[str, ...] = (),
    ) -> None:
        self.products = products
        self.summary = summary
        self.notes = notes
        self._tables = {name: table_of(products, name) for name in names}

    def __getitem__(self, name: str) -> DataFrame:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        read = self.summary
        return (
            f"<Replay of {read.records} records, {read.groups} groups, {read.fault_count} faults:"
            f" tables {', '.join(self._tables)}>"
        )

    @property
    def groups(self) -> DataFrame:
        """The table ``groups``: one row a group."""
        return self["groups"]

    @property
    def members(self) -> DataFrame:
        """The table ``members``: one row a member of the last generation."""
        return self["members"]

    @property
    def offsets(self) -> DataFrame:
        """The table ``offsets``: one row a committed offset."""
        return self["offsets"]

    @property
    def generations(self) -> DataFrame:
        """The table ``generations``: one row a generation."""
        return self["generations"]

    @property
    def faults(self) -> DataFrame:
        """The table ``faults``: one row a fault."""
        return self["faults"]

    @property
    def commits(self) -> DataFrame:
        """The table ``commits``: one row a commit.

        Raises
        ------
        AttributeError
            It was replayed without ``history``.
        """
        if "commits" not in self._tables:
            raise AttributeError("no table of commits: replay with history=True")
        return self["commits"]

    def leave_open(self, table: str, column: str) -> None:
        """Make a column null, because the source does not have its values."""
        from pyspark.sql import functions as f

        frame = self._tables[table]
        kind = frame.schema[column].dataType
        self._tables[table] = frame.withColumn(column, f.lit(None).cast(kind))

    def unpersist(self) -> None:
        """Drop the persisted data; a table used afterwards is replayed from the log."""
        self.products.unpersist()


def replay(
    spark: SparkSession,
    paths: Paths,
    at: Time = None,
    history: bool = False,
    on_fault: str = "skip",
    groups: Iterable[str] | None = None,
) -> Replay:
    """Replay a log and return its tables as DataFrames, with the rows of ``coterie replay``.

    Parameters
    ----------
    spark : SparkSession
        Its workers need coterie installed, and reach plain paths by the same absolute names.
    paths
        Folders that hold ``__consumer_offsets-N`` folders, such folders, or segment files. Plain
        paths are read by the workers themselves. URLs (``s3a://``, ``hdfs://``, ``file:``) are
        listed by the driver's Hadoop file system and read by Spark: each segment is then
        one piece.
    at
        State as of this time: epoch ms, ISO 8601 with zone, or a datetime with zone.
    history : bool
        Return ``commits`` too: every commit. A task then has the commits of its pieces in memory.
    on_fault : str
        ``skip``, ``recover``, ``load`` or ``stop``, as for ``coterie replay``.
    groups
        Keep only these groups.

    Raises
    ------
    CoterieError
        ``paths`` are not paths, a path has no log, a worker cannot read a segment, or there is a
        fault under ``stop``.
    """
    options = options_of(at, history, on_fault, groups)
    listing = listing_of_paths(spark, paths)
    return replay_by(partial(from_log, spark, listing), options, listing.passed_over)


def replay_frame(
    frame: DataFrame,
    at: Time = None,
    history: bool = False,
    on_fault: str = "skip",
    groups: Iterable[str] | None = None,
) -> Replay:
    """Replay records of ``__consumer_offsets`` that are rows of a DataFrame.

    Parameters
    ----------
    frame : DataFrame
        Columns ``key`` and ``value`` (binary), ``partition`` (int), ``offset`` (bigint) and
        ``timestamp``, as ``spark.read.format("kafka")`` returns them; others are ignored. Rows
        may be in any order; an offset that occurs twice counts once.
    at, history, on_fault, groups
        As for :func:`coterie_spark.replay`. ``recover`` is ``load`` here: there are no segments
        to recover.

    Returns
    -------
    Replay
        Its ``notes`` list what such rows leave undecided. So ``pending_transactional_offsets`` of
        ``groups`` and ``outcome`` of ``commits`` are null, and a fault has an offset instead of a
        position. To leave aborted transactions out, read the topic with
        ``kafka.isolation.level`` ``read_committed``.

    Raises
    ------
    CoterieError
        A column is missing, an offset is null, or there is a fault under ``stop``.
    """
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise CoterieError(f"no column {missing[0]!r} to replay; needed: {', '.join(NEEDED)}")
    options = options_of(at, history, on_fault, groups)
    replayed = replay_by(partial(by_rows, frame), options)
    replayed.notes = (*NOTES, *replayed.notes)
    replayed.leave_open("groups", "pending_transactional_offsets")
    if history:
        replayed.leave_open("commits", "outcome")
    return replayed


def replay_by(road: Road, options: ScanOptions, passed_over: tuple[str, ...] = ()) -> Replay:
    products, summary = run(road, options, "parquet", passed_over)
    return Replay(products.frame, summary, table_names(options), summary.notes)


def options_of(at: Time, history: bool, on_fault: str, groups: Iterable[str] | None) -> ScanOptions:
    if isinstance(groups, str):
        groups = [groups]
    options = ScanOptions(
        on_fault=on_fault,
        at_ms=time_ms(at),
        groups=None if groups is None else frozenset(groups),
        history=history,
    )
    try:
        options.new_fold()
    except ValueError as error:
        raise CoterieError(str(error)) from None
    return options


def run(
    road: Road, options: ScanOptions, form: str, passed_over: tuple[str, ...] = ()
) -> tuple[Products, Summary]:
    """Scan and merge a log; return its products with each group once, and their summary.

    Raises
    ------
    CoterieError
        Something could not be read, or the first fault under ``on_fault="stop"``.
    """
    products = road(options, form, None)
    try:
        summary = summary_of(products.about, passed_over)
        shared = joining.sharing(products.about)
        if not shared:
            return products, summary
        states = road(with_changes(options, history=False), "json", shared)
        try:
            summary_of(states.about)  # raises what could not be read
            state = state_of(states)
        finally:
            states.drop()
        joined = joining.joined_tables(state, count_of(summary.pieces))
        return products.with_joined(joined), joined.counted_in(summary, shared)
    except BaseException:
        products.drop()
        raise
