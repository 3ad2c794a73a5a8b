"""Bulk replay on Spark. Importing this package imports no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_spark.designs import run_designs
from coterie_spark.insight import audit, expire, explain, growth, lag, metrics, undo
from coterie_spark.replay_job.driver import Replay, replay
from coterie_spark.replay_job.frame import replay_frame
from coterie_spark.traces import run_traces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Replay",
    "audit",
    "expire",
    "explain",
    "growth",
    "lag",
    "metrics",
    "register",
    "replay",
    "replay_frame",
    "run_designs",
    "run_traces",
    "undo",
]


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("consumer_offsets")`` known to a session: decoded records.

    And the UDFs to SQL: ``expired``, ``select_protocol`` and, as a table function,
    ``session_expirations``.

    See :mod:`coterie_spark.source.data_source` for its columns.
    """
    from coterie_spark.source.data_source import register as make_known
    from coterie_spark.udfs import register as make_udfs_known

    make_known(spark)
    make_udfs_known(spark)
