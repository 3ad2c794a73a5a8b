"""Pandas UDFs over columns; what they compute is in :mod:`coterie_spark.frames`.

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
    """Make a pandas UDF that says so where a worker lacks coterie or has another version."""
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
    """Tell which offsets have expired: :func:`coterie.expired`, a pandas UDF.

    All columns are of whole milliseconds; only ``expire_ms`` may be null: none of its own. To
    Python a null would come with the whole batch as floats, so it goes there as -1.
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
    """Tell which offsets have expired, as ``expired`` does, by an expression of Spark's own.

    No row leaves the JVM, so it takes a tenth of the time. Names are columns, numbers are
    milliseconds. Unlike the UDF it does not wrap: an age beyond 64 bits is none.
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
    """Return which sessions ended when: one row a session, each member's in order of time.

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

    It asks Spark itself for them so: a call that left out how to part or order them would lose
    sessions. It travels as it stands here, and needs no coterie on a worker.
    """

    class SessionExpirations:
        @staticmethod
        def analyze(row: AnalyzeArgument) -> AnalyzeResult:
            """Have each member's heartbeats come together, in order of time."""
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
            self.came_ms = 0

        def eval(self, row: Row) -> Iterator[tuple[str | None, int]]:
            """Take a heartbeat; yield the session that it comes too late for."""
            came_ms = row["heartbeat_ms"]
            if self.deadline_ms is not None and self.came_ms < came_ms >= self.deadline_ms:
                yield self.member, self.deadline_ms
            self.member, self.came_ms = row["member"], came_ms
            self.deadline_ms = came_ms + row["timeout_ms"]

        def terminate(self) -> Iterator[tuple[str | None, int]]:
            """Yield the last session."""
            if self.deadline_ms is not None:
                yield self.member, self.deadline_ms

    return SessionExpirations


def register(spark: SparkSession) -> None:
    """Make ``expired``, ``select_protocol`` and ``session_expirations`` known to SQL.

    The last one is a table function, a call of Python's for each row: ``SELECT * FROM
    session_expirations(TABLE(events))``. It parts and orders the rows itself; Spark refuses a call
    that says PARTITION BY, too.
    """
    spark.udf.register("expired", expired)
    spark.udf.register("select_protocol", select_protocol)
    table: Any = udtf(table_function())
    spark.udtf.register("session_expirations", table)
