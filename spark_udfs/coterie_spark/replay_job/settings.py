"""Temporary settings of a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def set_meanwhile(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Change settings for a block, then restore them; each setting must have a default."""
    before = {name: spark.conf.get(name) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.set(name, str(earlier))
