"""The engine ``spark`` of ``coterie replay``: a session of its own, tables written by the workers.

Each table becomes a folder ``NAME.parquet`` of parts; on a cluster, every worker must be able to
write to the output. Spark prints nothing to the terminal: a failure is one line of coterie's.
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
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.errors import CoterieError
from coterie.state.replay_engine import Conf, Progress, ReplayRequest, Summary, Where
from coterie_spark.replay_job import writing
from coterie_spark.replay_job.closures import unfit_line
from coterie_spark.replay_job.driver import run
from coterie_spark.replay_job.listing import listing_of_paths
from coterie_spark.replay_job.products import table_names
from coterie_spark.replay_job.roads import from_log
from coterie_spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.log.folders import Listing

T = TypeVar("T")
POLL_S = 0.2
POLLS_WITHOUT_EXECUTOR = 50  # 10 s
NO_EXECUTOR = (
    "waiting for executors: {} has given none so far; see whether its workers run, and have a free"
    " core and the memory that --conf spark.executor.memory asks for (by default 1 GiB)"
)
UNINFORMATIVE = (  # lines of a JVM that does not start
    "Error: Could not create the Java Virtual Machine.",
    "Error: A fatal exception has occurred. Program will exit.",
)
IN_TRACE = re.compile(r"\s+at [\w.$]+[/(]|\s+\.\.\. \d+ more$|\s+at .*\([^()]*\)$")
EXCEPTION = re.compile(r'^(Exception in thread "[^"]*" |Caused by: )(?:[\w$]+\.)+[\w$]+: ')
# The JVM of a command only passes on what workers fold. Optimizing its code takes more CPU time
# than it saves: for a log of 592 kB that the driver folds, 20.5 s without this option, 9.3 s with.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def replay(request: ReplayRequest, progress: Progress) -> Summary:
    """Replay a log into the files of ``request.out``. See ``coterie.state.replay_engine``."""
    with session_of_command(request.master, progress, request.conf) as spark:
        return replay_in(spark, request, progress)


@contextmanager
def session_of_command(
    master: str | None, progress: Progress, conf: Conf = ()
) -> Iterator[SparkSession]:
    """Yield a session for a command, and stop it afterwards unless it existed before.

    Raises
    ------
    CoterieError
        A failure of Spark in the block, in one line.
    """
    from pyspark.sql import SparkSession

    progress.stage("starting Spark")
    is_ours = SparkSession.getActiveSession() is None
    with one_line_errors():
        with jvm_output_captured(), signals_deferred():
            spark = local_session(master or "local[*]", conf=dict(conf), java_options=JVM_OPTIONS)
        try:
            yield spark
        finally:
            if is_ours:
                with suppress(Exception):
                    spark.stop()


@contextmanager
def listed(paths: Iterable[str], where: Where, progress: Progress) -> Iterator[Listing]:
    """List a log in a session that stays open while the listing is used."""
    with session_of_command(where.master, progress, where.conf) as spark:
        yield listing_of_paths(spark, paths)


def replay_in(spark: SparkSession, request: ReplayRequest, progress: Progress) -> Summary:
    listing = listing_of_paths(spark, request.log)
    progress.total(listing.size)
    progress.stage("reading")
    job = JobProgress(spark, listing.size, progress)
    road = partial(from_log, spark, listing)
    products, summary = job.run(
        lambda: run(road, request.options, request.format, listing.passed_over)
    )
    job.reach(listing.size)
    progress.stage("writing")
    try:
        if request.format == "json":
            return writing.write_json(products, request, summary)
        names = table_names(request.options)
        job.run(lambda: writing.write_tables(products, names, request.out))
        return summary
    finally:
        products.drop()


class JobProgress:
    """Runs jobs in another thread, to report progress and to react to interruptions."""

    def __init__(self, spark: SparkSession, size_bytes: int, progress: Progress) -> None:
        self.context = spark.sparkContext
        self.size_bytes = size_bytes
        self.progress = progress
        self.reported_bytes = 0

    def has_no_executor(self) -> bool:
        """Whether a cluster has no executor for this session so far."""
        if str(self.context.master).startswith("local"):
            return False
        known = self.context._jsc.sc().getExecutorMemoryStatus().size()
        return bool(known < 2)  # the driver is one of them

    def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` and return its result; an interruption of this thread cancels the jobs."""
        results: list[T] = []
        failures: list[BaseException] = []

        def job() -> None:
            try:
                results.append(work())
            except BaseException as failure:
                failures.append(failure)

        thread = threading.Thread(target=job, daemon=True)
        thread.start()
        polls = 0
        try:
            while thread.is_alive():
                thread.join(POLL_S)
                self.report()
                polls += 1
                if polls == POLLS_WITHOUT_EXECUTOR and self.has_no_executor():
                    self.progress.notice(NO_EXECUTOR.format(self.context.master))
        except BaseException:
            with suppress(Exception):
                self.context.cancelAllJobs()
            thread.join(5.0)
            raise
        if failures:
            raise failures[0]
        return results[0]

    def report(self) -> None:
        """Report the progress of the first active stage, as a share of the bytes."""
        tracker = self.context.statusTracker()
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None and info.numTasks:
                self.reach(self.size_bytes * info.numCompletedTasks // info.numTasks)
                return

    def reach(self, done_bytes: int) -> None:
        """Report the bytes up to here that were not reported before."""
        self.progress.advance(max(done_bytes - self.reported_bytes, 0))
        self.reported_bytes = max(done_bytes, self.reported_bytes)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Deliver the first signal after the block, and a second one at once.

    A JVM that is interrupted while it starts loses the file with its port, and never ends. Spark
    also installs a handler that calls the JVM first, which fails during another request; so the
    earlier handler is restored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def receive(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # an ignored signal stays ignored
            signal.signal(number, receive)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:  # also after a failure, which may be the JVM's reaction to the signal
            signal.raise_signal(received[0])


@contextmanager
def jvm_output_captured() -> Iterator[None]:
    """Capture the standard error of a JVM that starts in the block: its warnings are noise.

    If the JVM does not start, the error has its last line, or the message of a Java trace.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 2)
        try:
            yield
        except CoterieError:
            raise
        except Exception as error:
            output.seek(0)
            lines = jvm_lines(output.read().decode(errors="replace"))
            is_java = hasattr(error, "java_exception")  # else there is no JVM, or one that died
            why = reason(error) if is_java or not lines else lines[-1]
            raise CoterieError(f"Spark did not start: {why}") from error
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def jvm_lines(output: str) -> list[str]:
    """Return the informative lines: no stack frames, and only the messages of exceptions."""
    lines = [line.strip() for line in output.splitlines() if not IN_TRACE.match(line)]
    lines = [line for line in lines if line and line not in UNINFORMATIVE] or lines
    return [EXCEPTION.sub("", line) for line in lines]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn Spark's exceptions into errors of one line; coterie's own pass through."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        if unfit := unfit_line(error):
            raise CoterieError(unfit) from error
        why = reason(error)
        if any(os.strerror(code) in why for code in DISK_FULL):
            why += "; free some space, or name another folder for it in SPARK_LOCAL_DIRS"
        raise CoterieError(f"Spark failed: {why}") from error


def reason(error: BaseException) -> str:
    """Return the message of the innermost cause of a Spark failure."""
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
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if "Error: " in line and not line.startswith("File ")]
    return (python or lines or [type(error).__name__])[-1 if python else 0]
