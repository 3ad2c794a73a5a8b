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

SESSIONS_DDL = "member string, ended_ms long"


def _udf_of_series(work: Callable[..., pd.Series], kind: DataType) -> Any:
    """Make a pandas UDF that fails clearly on a worker without this version of coterie."""
    run: Any = on_worker(work)
    run.__name__ = work.__name__
    run.__signature__ = signature(work)
    run.__annotations__ = dict.fromkeys([*run.__signature__.parameters, "return"], pd.Series)
    return pandas_udf(run, kind)


_expired_udf = _udf_of_series(frames.expired, BooleanType())
select_protocol = _udf_of_series(frames.select_protocol, StringType())


@wraps(_expired_udf, assigned=())  # it stays what ``spark.udf.register`` takes
def expired(
    commit_ms: Column | str,
    expire_ms: Column | str,
    now_ms: Column | str,
    retention_ms: Column | str,
) -> Column:
    """Compute which offsets have expired: :func:`coterie.expired` as a pandas UDF.

    All columns have whole milliseconds. Only ``expire_ms`` may be null: no expiry of its own. A
    null would turn the whole batch into floats, so it goes to Python as -1.
    """
    explicit = f.coalesce(expire_ms, f.lit(frames.NO_EXPIRY).cast("long"))
    gone: Column = _expired_udf(commit_ms, explicit, now_ms, retention_ms)
    return gone


def expired_column(
    commit_ms: Column | str,
    expire_ms: Column | str,
    now_ms: Column | int,
    retention_ms: Column | int,
) -> Column:
    """Compute which offsets have expired, as ``expired`` does, by an expression of Spark's own.

    No row leaves the JVM, so it takes a tenth of the time. Names are columns, numbers are
    milliseconds. Unlike in the UDF, an age beyond 64 bits does not wrap: nothing expires by it.
    """
    commit, explicit = (f.col(c) if isinstance(c, str) else c for c in (commit_ms, expire_ms))
    now, retention = (
        value if isinstance(value, Column) else f.lit(value).cast("long")
        for value in (now_ms, retention_ms)
    )
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


def register(spark: SparkSession) -> None:
    """Register ``expired``, ``select_protocol`` and ``session_expirations`` for SQL.

    The last one is a table function: ``SELECT * FROM session_expirations(TABLE(events))``. It
    partitions and orders the rows itself, so Spark refuses a call with PARTITION BY. It costs a
    Python call for each row.
    """
    spark.udf.register("expired", expired)
    spark.udf.register("select_protocol", select_protocol)
    table: Any = udtf(table_function())
    spark.udtf.register("session_expirations", table)
