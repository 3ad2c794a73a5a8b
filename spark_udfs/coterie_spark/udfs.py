"""Pandas UDFs over columns; :mod:`coterie_spark.frames` has the computations.

from coterie_spark.udfs import expired, expired_column, select_protocol, session_expirations
offsets.withColumn("gone", expired("commit_ms", "expire_ms", lit(now), lit(retention)))
offsets.withColumn("gone", expired_column("commit_ms", "expire_ms", now, retention))
groups.withColumn("protocol", select_protocol("protocols"))   # array<array<string>>
session_expirations(events)                                   # member, heartbeat_ms, timeout_ms
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.functions import pandas_udf, udtf  # type: ignore[attr-defined]
from pyspark.sql.types import BooleanType, DataType, StringType

from coterie_spark import frames
from coterie_spark.replay_job.closures import on_worker, shipped

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

__all__ = ["expired", "expired_column", "register", "select_protocol", "session_expirations"]

TRUNCATE = frames.TRUNCATE
SESSIONS_DDL = "member string, ended_ms long"


def _udf_of(work: Callable[..., Any], kind: DataType, make: Any, column: type) -> Any:
    """Make a UDF of ``column`` that fails clearly on a worker without this version of coterie."""
    run: Any = on_worker(work)
    run.__name__ = work.__name__
    run.__signature__ = signature(work)
    run.__annotations__ = dict.fromkeys([*run.__signature__.parameters, "return"], column)
    return make(run, kind)


_expired_udf = _udf_of(frames.expired, BooleanType(), pandas_udf, pd.Series)
_select_protocol_udf = _udf_of(frames.select_protocol, StringType(), pandas_udf, pd.Series)


@wraps(_select_protocol_udf, assigned=())  # it stays what ``spark.udf.register`` takes
def select_protocol(protocols: Column | str) -> Column:
    """Compute each group's protocol: :func:`coterie.select_protocol` as a pandas UDF.

    A row of ``protocols`` has the lists of the group's members, ``array<array<string>>``, each in
    the member's order of preference. The result is null if no protocol is common to all.
    """
    chosen: Column = _select_protocol_udf(protocols)
    return chosen


def _column(value: Column | str | int) -> Column:
    """Return a column: of a name, or of a number."""
    if isinstance(value, str):
        return f.col(value)
    return value if isinstance(value, Column) else f.lit(value)


def _ms(column: Column | str | int, name: str) -> Column:
    """Return whole milliseconds: of a number, or of a timestamp, of which Spark has microseconds.

    The type of a column is known only to Spark, which keeps one of the branches.
    """
    value = _column(column)
    time = value.cast("timestamp")
    refused = f.raise_error(f"{name} must be whole milliseconds: {TRUNCATE}").cast("long")
    of_timestamp = f.when(f.unix_micros(time) % 1000 != 0, refused).otherwise(f.unix_millis(time))
    is_timestamp = f.typeof(value) == "timestamp"
    return f.when(is_timestamp, of_timestamp).otherwise(_whole_number(value, name))


def _whole_number(value: Column, name: str) -> Column:
    """Return a column of numbers as long; a number with a fraction is an error."""
    kind, number = f.typeof(value), value.cast("double")
    fractional = kind.isin("double", "float") | kind.startswith("decimal")
    refused = f.raise_error(f"{name} must be whole milliseconds").cast("long")
    of_fraction = f.when(fractional & (number != f.floor(number)), refused)
    return of_fraction.otherwise(value.cast("long"))


@wraps(_expired_udf, assigned=())  # it stays what ``spark.udf.register`` takes
def expired(
    commit_ms: Column | str,
    expire_ms: Column | str,
    now_ms: Column | str,
    retention_ms: Column | str,
) -> Column:
    """Compute which offsets have expired: :func:`coterie.expired` as a pandas UDF.

    All columns have whole milliseconds; all but ``retention_ms`` may be timestamps without a
    fraction of a millisecond, as in the tables of a replay. Only ``expire_ms`` may be null: no
    expiry of its own. A null would turn the whole batch into floats, so it goes to Python as -1.
    """
    explicit = f.coalesce(_ms(expire_ms, "expire_ms"), f.lit(frames.NO_EXPIRY).cast("long"))
    commit, now = _ms(commit_ms, "commit_ms"), _ms(now_ms, "now_ms")
    gone: Column = _expired_udf(commit, explicit, now, retention_ms)
    return gone


def expired_column(
    commit_ms: Column | str,
    expire_ms: Column | str,
    now_ms: Column | str | int,
    retention_ms: Column | str | int,
) -> Column:
    """Compute which offsets have expired, as ``expired`` does, by an expression of Spark's own.

    No row leaves the JVM, so it takes a tenth of the time. Names are columns, numbers are
    milliseconds; columns may be timestamps, as for ``expired``. Unlike in the UDF, an age beyond 64
    bits does not wrap: nothing expires by it. An offset without a commit time never expires by age.
    """
    commit, explicit, now = (
        _ms(column, name)
        for column, name in ((commit_ms, "commit_ms"), (expire_ms, "expire_ms"), (now_ms, "now_ms"))
    )
    retention = _whole_number(_column(retention_ms), "retention_ms")
    by_age = f.coalesce(f.try_subtract(now, commit) >= retention, f.lit(False))
    has_expiry = explicit.isNotNull() & (explicit != frames.NO_EXPIRY)
    return f.when(has_expiry, now >= explicit).otherwise(by_age)


def session_expirations(events: DataFrame) -> DataFrame:
    """Return the sessions that ended: one row a session, those of a member in order of time.

    ``events`` has the columns member (string), heartbeat_ms and timeout_ms (long). Spark brings
    a member's heartbeats together and in order; a worker then holds one batch of them.

    Most of the time is Spark's: of 11.7 s for 5 million heartbeats, the shuffle takes 3.1 s, moving
    the rows to Python and back 4.0 s, and the sort the rest. Sorting by a hash of the member first
    was slower. Sorting by the hash alone would save 2 s, but leave the order of time to the worker.
    """
    columns = {"member": "string", "heartbeat_ms": "long", "timeout_ms": "long"}
    rows = events.select(*(f.col(name).cast(kind) for name, kind in columns.items()))
    in_order = rows.repartition("member").sortWithinPartitions("member", "heartbeat_ms")
    return in_order.mapInArrow(shipped(frames.ended_in_order), SESSIONS_DDL)


def table_function() -> type:
    """Make the table function of SQL: heartbeats of one member, in order of time.

    It tells Spark how to partition and order the rows, because a call that forgot either would
    lose sessions. The class is self-contained, so a worker needs no coterie for it.
    """

    class SessionExpirations:
        @staticmethod
        def analyze(row: AnalyzeArgument) -> AnalyzeResult:
            """Ask for the heartbeats of one member at a time, in order of time."""
            from pyspark.sql.types import StructType
            from pyspark.sql.udtf import AnalyzeResult, OrderingColumn, PartitioningColumn

            return AnalyzeResult(
                StructType().add("member", "string").add("ended_ms", "long"),
                partitionBy=[PartitioningColumn("member")],
                orderBy=[OrderingColumn("heartbeat_ms")],
            )

        def __init__(self) -> None:
            self.member: str | None = None
            self.deadline_ms: int | None = None
            self.heartbeat_ms = 0

        def eval(self, row: Row) -> Iterator[tuple[str | None, int]]:
            """Take a heartbeat; yield the session that ended before it."""
            now_ms = row["heartbeat_ms"]
            if self.deadline_ms is not None and self.heartbeat_ms < now_ms >= self.deadline_ms:
                yield self.member, self.deadline_ms
            self.member, self.heartbeat_ms = row["member"], now_ms
            self.deadline_ms = now_ms + row["timeout_ms"]

        def terminate(self) -> Iterator[tuple[str | None, int]]:
            """Yield the last session."""
            if self.deadline_ms is not None:
                yield self.member, self.deadline_ms

    return SessionExpirations


def _expired_for_sql() -> Any:
    """Return the UDF that SQL calls with columns of any type.

    Arrow's columns have exact times and nulls. Those of pandas have times of the session's zone,
    which cannot be told apart when clocks go back, and nulls turn numbers into floats.
    """
    arrow_udf = getattr(f, "arrow_udf", None)  # since Spark 4.1
    if arrow_udf is None:
        return expired
    import pyarrow as pa

    return _udf_of(frames.expired_arrays, BooleanType(), arrow_udf, pa.Array)


def register(spark: SparkSession) -> None:
    """Register ``expired``, ``select_protocol`` and ``session_expirations`` for SQL.

    The last one is a table function: ``SELECT * FROM session_expirations(TABLE(events))``. It
    partitions and orders the rows itself, so Spark refuses a call with PARTITION BY. It costs a
    Python call for each row. With Spark 4.0, ``expired`` takes no timestamps in SQL.
    """
    spark.udf.register("expired", _expired_for_sql())
    spark.udf.register("select_protocol", select_protocol)
    table: Any = udtf(table_function())
    spark.udtf.register("session_expirations", table)
