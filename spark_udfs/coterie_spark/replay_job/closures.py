"""How work reaches the workers: they say clearly where coterie is missing or another version.

Work that names coterie's functions could not even be read by a worker without them. So it travels
as bytes inside a function that names nothing, looks first, and only then reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.errors import CoterieError
from coterie.state import pickling
from coterie_spark.replay_job import plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from coterie_spark.replay_job.scanning import Batches, Worker

T = TypeVar("T")
UNFIT = "coterie cannot run on worker "

TASKS = 10_000  # at most, of rows that are dealt one to each


def a_row_a_task(spark: SparkSession, rows: Sequence[tuple[Any, ...]], columns: str) -> DataFrame:
    """Return rows so that each comes to a task of its own, up to ``TASKS``.

    Left to itself, Spark deals in turn from each partition that it has made of the rows: some task
    gets two, another none.
    """
    tasks = max(1, min(len(rows), TASKS))
    salts = plan.salts(tasks)
    dealt = [(salts[number % tasks], *row) for number, row in enumerate(rows)]
    frame = spark.createDataFrame(dealt, f"task int, {columns}")
    return frame.repartition(tasks, "task").drop("task")


def on_worker(work: Callable[..., T]) -> Callable[..., T]:
    """Return a function that can be sent to a worker, whatever is installed there."""
    from pyspark import cloudpickle

    dumps: Callable[[object], bytes] = cloudpickle.dumps
    body = dumps(work)
    wanted, unfit = pickling.version(), UNFIT

    def run(*args: Any) -> T:
        import pickle
        import platform
        import sys

        where = f"{unfit}{platform.node()} ({sys.executable}): "
        release = wanted.partition("/")[0]
        todo = f"install coterie[spark]=={release} there, or name another Python in PYSPARK_PYTHON"
        try:
            from coterie.state.pickling import version
        except ImportError as missing:
            raise RuntimeError(f"{where}{missing}; {todo}") from None
        if version() != wanted:
            raise RuntimeError(f"{where}it has {version()}, the driver {wanted}; {todo}")
        told: T = pickle.loads(body)(*args)
        return told

    return run


def shipped(work: Worker) -> Worker:
    """Return work over batches that can be sent to a worker, as ``on_worker`` does."""
    looked = on_worker(work)

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        found = looked(batches)
        from coterie_spark.replay_job.memory import give_back

        try:
            yield from found
        finally:
            give_back()

    return run


@contextmanager
def unfit_workers_told() -> Iterator[None]:
    """Raise in one line what :func:`shipped` found wrong with a worker."""
    try:
        yield
    except Exception as error:
        if UNFIT in str(error):
            raise CoterieError(unfit_line(error)) from error
        raise


def unfit_line(error: Any) -> str:
    """Return the line of a failure that says what is wrong with a worker; empty: none does."""
    lines = [line for line in str(error).splitlines() if UNFIT in line]
    return UNFIT + lines[0].partition(UNFIT)[2].strip() if lines else ""
