"""Bulk replay on Spark. Importing this package imports no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie_spark.designs import run_designs
from coterie_spark.insight import audit, expire, explain, growth, lag, metrics, undo
from coterie_spark.replay_job.driver import Replay, replay, replay_frame
from coterie_spark.replay_job.following import follow
from coterie_spark.source.kafka_rows import decode
from coterie_spark.traces import run_traces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Replay",
    "audit",
    "decode",
    "expire",
    "explain",
    "follow",
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
    """Register the data source ``consumer_offsets`` and the SQL functions with a session.

    ``spark.read.format("consumer_offsets")`` gives decoded records;
    :mod:`coterie_spark.source.data_source` lists the columns. The functions are ``expired``,
    ``select_protocol`` and the table function ``session_expirations``.
    """
    from coterie_spark.source.data_source import register as register_source
    from coterie_spark.udfs import register as register_functions

    register_source(spark)
    register_functions(spark)
