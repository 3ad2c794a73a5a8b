"""Send work to workers, and fail clearly where coterie is missing or has another version.

A worker without coterie could not unpickle work that names coterie's functions. So the work travels
as bytes inside a function without such names, which checks the worker before it unpickles them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.errors import CoterieError
from coterie.state import pickling

if TYPE_CHECKING:
    import pyarrow as pa

    from coterie_spark.replay_job.scanning import Batches, Worker

T = TypeVar("T")
UNFIT = "coterie cannot run on worker "


def on_worker(work: Callable[..., T]) -> Callable[..., T]:
    """Return a function that can be sent to any worker, and fails clearly on an unfit one."""
    from pyspark import cloudpickle

    dumps: Callable[[object], bytes] = cloudpickle.dumps
    body = dumps(work)
    required, unfit = pickling.version(), UNFIT

    def run(*args: Any) -> T:
        import pickle
        import platform
        import sys

        where = f"{unfit}{platform.node()} ({sys.executable}): "
        release = required.partition("/")[0]
        todo = f"install coterie[spark]=={release} there, or name another Python in PYSPARK_PYTHON"
        try:
            from coterie.state.pickling import version
        except ImportError as missing:
            raise RuntimeError(f"{where}{missing}; {todo}") from None
        if version() != required:
            raise RuntimeError(f"{where}it has {version()}, the driver {required}; {todo}")
        result: T = pickle.loads(body)(*args)
        return result

    return run


def shipped(work: Worker) -> Worker:
    """Return work over batches that can be sent to any worker; see ``on_worker``."""
    checked = on_worker(work)

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        results = checked(batches)
        from coterie_spark.replay_job.memory import give_back

        try:
            yield from results
        finally:
            give_back()

    return run


@contextmanager
def unfit_workers_reported() -> Iterator[None]:
    """Turn a failure of :func:`shipped` on an unfit worker into one line."""
    try:
        yield
    except Exception as error:
        if UNFIT in str(error):
            raise CoterieError(unfit_line(error)) from error
        raise


def unfit_line(error: Any) -> str:
    """Return the line of a failure that describes an unfit worker, or an empty string."""
    lines = [line for line in str(error).splitlines() if UNFIT in line]
    return UNFIT + lines[0].partition(UNFIT)[2].strip() if lines else ""
