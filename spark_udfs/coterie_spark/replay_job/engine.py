"""The engine ``spark`` of ``coterie replay``: a session of its own, tables written by the workers.

Each table becomes a folder ``NAME.parquet`` of parts; on a cluster the output has to lie where
every worker can write. Nothing of Spark reaches the terminal: what fails is said in one line.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace as with_changes
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.errors import CoterieError
from coterie.replay.engine import Conf, Progress, ReplayRequest, Summary, Where
from coterie.state.document import write_document
from coterie.state.partial import PartialState
from coterie_spark.replay_job import merging, on_the_driver, writing
from coterie_spark.replay_job.closures import shipped, unfit_line
from coterie_spark.replay_job.driver import (
    bounded_batches,
    listing_of_paths,
    run,
    summary_of,
    table_names,
)
from coterie_spark.session import local_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from coterie.log.folders import Listing

T = TypeVar("T")
LOOK_EVERY_S = 0.2
LOOKS_FOR_EXECUTORS = 50  # 10 s
NO_EXECUTOR = (
    "waiting for executors: {} has given none so far; see whether its workers run, and have a free"
    " core and the memory that --conf spark.executor.memory asks for (by default 1 GiB)"
)
SAYS_NOTHING = (  # of a JVM that does not start
    "Error: Could not create the Java Virtual Machine.",
    "Error: A fatal exception has occurred. Program will exit.",
)
IN_TRACE = re.compile(r"\s+at [\w.$]+[/(]|\s+\.\.\. \d+ more$|\s+at .*\([^()]*\)$")
EXCEPTION = re.compile(r'^(Exception in thread "[^"]*" |Caused by: )(?:[\w$]+\.)+[\w$]+: ')
# The JVM of a command only hands on what workers fold: to optimize its code takes more CPU time,
# beside the workers, than it saves. For a log of 592 kB that the driver folds, the JVM took 20.5 s
# of CPU time without this option, and 9.3 s with it.
BRIEF = "-XX:TieredStopAtLevel=1"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def replay(request: ReplayRequest, progress: Progress) -> Summary:
    """Replay a log into the files of ``request.out``. See ``coterie.replay.engine``."""
    with session_of_command(request.master, progress, request.conf) as spark:
        return replay_in(spark, request, progress)


@contextmanager
def session_of_command(
    master: str | None, progress: Progress, conf: Conf = ()
) -> Iterator[SparkSession]:
    """Give a command its session, and stop it afterwards if it was not there before.

    Raises
    ------
    CoterieError
        Whatever fails in Spark meanwhile, in one line.
    """
    from pyspark.sql import SparkSession

    progress.stage("starting Spark")
    is_ours = SparkSession.getActiveSession() is None
    with one_line_errors():
        with spark_says_nothing(), heard_afterwards():
            spark = local_session(master or "local[*]", conf=dict(conf), java_options=BRIEF)
        try:
            yield spark
        finally:
            if is_ours:
                with suppress(Exception):
                    spark.stop()


@contextmanager
def listed(paths: Iterable[str], where: Where, progress: Progress) -> Iterator[Listing]:
    """List a log in a session that stays as long as the listing is used."""
    with session_of_command(where.master, progress, where.conf) as spark:
        yield listing_of_paths(spark, paths)


def replay_in(spark: SparkSession, request: ReplayRequest, progress: Progress) -> Summary:
    """Replay in a session."""
    listing = listing_of_paths(spark, request.log)
    progress.total(listing.size)
    progress.stage("reading")
    if on_the_driver.is_small(spark, listing):
        return replay_here(listing, request, progress)
    told = JobProgress(spark, listing.size, progress)
    products, summary = told.of(lambda: run(spark, listing, request.options, request.format))
    progress.stage("writing")
    if request.format == "json":
        rows = products.where(products["name"].isin(merging.STATE, merging.LINES))
        found = rows.orderBy("partition", "part").toLocalIterator()
        return with_changes(summary, groups=write_json(found, request))
    names = table_names(request.options)
    told.of(lambda: write_tables(spark, products, names, request.out))
    return summary


def replay_here(listing: Listing, request: ReplayRequest, progress: Progress) -> Summary:
    """Replay a small log in this process; the files are those that workers write."""
    products = list(on_the_driver.products_of(listing, request.options, request.format))
    rows = [tuple(row.values()) for batch in products for row in batch.to_pylist()]
    about = [(name, body) for _, name, _, body in rows if name in (merging.ABOUT, merging.ERROR)]
    summary = summary_of(about, listing.passed_over)
    progress.advance(listing.size)
    progress.stage("writing")
    if request.format == "json":
        found = [row for row in rows if row[1] in (merging.STATE, merging.LINES)]
        return with_changes(summary, groups=write_json(found, request))
    names = table_names(request.options)
    tables = (one.select(["name", "body"]) for one in products if one["name"][0].as_py() in names)
    work = writing.work_folder(request.out)
    work.mkdir()
    files = writing.write_files(tables, work, writing.attempt())
    writing.name_parts(request.out, names, files.items())
    return summary


def write_tables(spark: SparkSession, products: DataFrame, names: list[str], out: Path) -> None:
    """Have the workers write each table as a folder of Parquet parts."""
    writing.work_folder(out).mkdir()
    rows = products.where(products["name"].isin(names)).select("name", "body")
    work = writing.write_worker(str(out.absolute()))
    with bounded_batches(spark, 64):
        told = rows.mapInArrow(shipped(work), writing.WRITTEN_DDL)
        written = told.collect()  # in order of the tasks
    for row in written:
        if row.errno is not None:
            raise OSError(row.errno, row.error, row.file)
    writing.name_parts(out, names, [(row.name, row.file) for row in written])


def write_json(rows: Iterable[tuple[Any, ...]], request: ReplayRequest) -> int:
    """Write ``groups.json`` (and commits line by line) of products in order of their partition.

    That takes the state into this process.
    """
    state = PartialState(request.options)
    chunks: dict[int | None, list[tuple[int, bytes]]] = {}
    with (request.out / "commits.jsonl").open("wb") as lines:
        for partition, name, part, body in rows:
            if name == merging.LINES:
                lines.write(body)
            else:
                chunks.setdefault(partition, []).append((part, bytes(body)))
    if not request.options.history:
        (request.out / "commits.jsonl").unlink()
    for parts in chunks.values():
        state.absorb(PartialState.from_bytes(b"".join(body for _, body in sorted(parts))))
    return write_document(state, request.out / "groups.json")


class JobProgress:
    """Runs jobs in another thread, so that progress is told and an interruption is heard."""

    def __init__(self, spark: SparkSession, size_bytes: int, progress: Progress) -> None:
        self.context = spark.sparkContext
        self.size_bytes = size_bytes
        self.progress = progress
        self.told_bytes = 0

    def has_no_executor(self) -> bool:
        """Whether a cluster has given nothing to work with so far."""
        if str(self.context.master).startswith("local"):
            return False
        known = self.context._jsc.sc().getExecutorMemoryStatus().size()
        return bool(known < 2)  # the driver is one of them

    def of(self, work: Callable[[], T]) -> T:
        """Return what ``work`` gives; an interruption of this thread ends its jobs."""
        results: list[T] = []
        failures: list[BaseException] = []

        def job() -> None:
            try:
                results.append(work())
            except BaseException as failure:
                failures.append(failure)

        thread = threading.Thread(target=job, daemon=True)
        thread.start()
        looks = 0
        try:
            while thread.is_alive():
                thread.join(LOOK_EVERY_S)
                self.tell()
                looks += 1
                if looks == LOOKS_FOR_EXECUTORS and self.has_no_executor():
                    self.progress.notice(NO_EXECUTOR.format(self.context.master))
        except BaseException:
            with suppress(Exception):
                self.context.cancelAllJobs()
            thread.join(5.0)
            raise
        if failures:
            raise failures[0]
        return results[0]

    def tell(self) -> None:
        """Say how far the first stage that runs is, as a share of the bytes."""
        tracker = self.context.statusTracker()
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numTasks:
                done = self.size_bytes * info.numCompletedTasks // info.numTasks
                self.progress.advance(max(done - self.told_bytes, 0))
                self.told_bytes = max(done, self.told_bytes)
                return


@contextmanager
def heard_afterwards() -> Iterator[None]:
    """Hear the first signal when the block has ended; the second at once.

    A JVM whose start is interrupted loses the file in which it tells its port, and then stays for
    good. And Spark puts a handler of its own in place, which asks the JVM first: that fails where
    a request is under way, so the one that was there comes back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []

    def hear(number: int, frame: object) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # who ignores a signal goes on doing so
            signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if heard:  # also where the block failed: the JVM may have heard it, too
            signal.raise_signal(heard[0])


@contextmanager
def spark_says_nothing() -> Iterator[None]:
    """Let the JVM that is started here have no terminal: it warns of what nobody can change.

    If it does not start, what it said is the reason; of that the last line is kept, or what a
    trace of Java's is about.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        except CoterieError:
            raise
        except Exception as error:
            said.seek(0)
            lines = told_by_jvm(said.read().decode(errors="replace"))
            is_java = hasattr(error, "java_exception")  # else there is no JVM, or one that died
            why = reason(error) if is_java or not lines else lines[-1]
            raise CoterieError(f"Spark did not start: {why}") from error
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def told_by_jvm(said: str) -> list[str]:
    """Return the lines that say something: no places of a trace, of exceptions their messages."""
    lines = [line.strip() for line in said.splitlines() if not IN_TRACE.match(line)]
    lines = [line for line in lines if line and line not in SAYS_NOTHING] or lines
    return [EXCEPTION.sub("", line) for line in lines]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what Spark raises into one line; coterie's own errors are one already."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        if unfit := unfit_line(error):
            raise CoterieError(unfit) from error
        why = reason(error)
        if any(os.strerror(code) in why for code in FULL):
            why += "; free some space, or name another folder for it in SPARK_LOCAL_DIRS"
        raise CoterieError(f"Spark failed: {why}") from error


def reason(error: BaseException) -> str:
    """Return the innermost thing that is known of a failure of Spark's."""
    text = str(error)
    if "stopped SparkContext" in text:
        return (
            "the cluster has ended the session: no master of this version of Spark is there,"
            " or it took the application away; its log says which"
        )
    cause: Any = getattr(error, "java_exception", None)
    while cause is not None:
        text = str(cause.toString())
        cause = cause.getCause()
    said = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in said if "Error: " in line and not line.startswith("File ")]
    return (python or said or [type(error).__name__])[-1 if python else 0]
