"""The Parquet format of the tables, for all engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.state.history import NAMES, stored_schema
from coterie.state.schemas import SCHEMAS

RISING = ("log_offset", "timestamp", "offset", "commit_timestamp")


def parquet_writer(path: Path, name: str) -> Any:
    """Return a ``pyarrow.parquet.ParquetWriter`` for a table.

    Commits are written with the schema of ``commits_table``, and read with that of ``SCHEMAS``.
    Rising numbers are delta-encoded: a dictionary would take most of the time, and three times the
    space.
    """
    import pyarrow.parquet as pq

    if name != "commits":
        return pq.ParquetWriter(path, SCHEMAS[name]())
    return pq.ParquetWriter(
        path,
        stored_schema(),
        store_schema=False,
        use_dictionary=[*NAMES],
        column_encoding=dict.fromkeys(RISING, "DELTA_BINARY_PACKED"),
        write_statistics=[*RISING, "offsets_partition", "partition"],
    )
