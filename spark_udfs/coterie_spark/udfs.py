"""Pandas UDFs over columns; what they compute is in :mod:`coterie_spark.frames`.

from coterie_spark.udfs import expired, select_protocol, session_expirations
offsets.withColumn("gone", expired("commit_ms", "expire_ms", lit(now), lit(retention)))
groups.withColumn("protocol", select_protocol("protocols"))   # array<array<string>>
session_expirations(events)                                   # member, heartbeat_ms, timeout_ms
"""

from __future__ import annotations

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.functions import pandas_udf  # type: ignore[attr-defined]
from pyspark.sql.types import BooleanType, StringType

from coterie_spark import frames

__all__ = ["expired", "select_protocol", "session_expirations"]

SESSIONS_DDL = "member string, ended_ms long"


def _expired(
    commit_ms: pd.Series, expire_ms: pd.Series, now_ms: pd.Series, retention_ms: pd.Series
) -> pd.Series:
    return frames.expired(commit_ms, expire_ms, now_ms, retention_ms)


def _select_protocol(protocols: pd.Series) -> pd.Series:
    return frames.select_protocol(protocols)


expired = pandas_udf(_expired, BooleanType())
select_protocol = pandas_udf(_select_protocol, StringType())


def session_expirations(events: DataFrame) -> DataFrame:
    """Return which sessions ended when: one row a session, each member's in order of time.

    ``events`` has the columns member (string), heartbeat_ms and timeout_ms (long).
    """
    return events.groupBy("member").applyInPandas(frames.session_expirations, SESSIONS_DDL)
