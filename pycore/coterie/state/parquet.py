"""How the tables are written as Parquet, by every engine alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.state.history import NAMES, stored_schema
from coterie.state.schemas import SCHEMAS

RISING = ("log_offset", "timestamp", "offset", "commit_timestamp")


def parquet_writer(path: Path, name: str) -> Any:
    """Return a ``pyarrow.parquet.ParquetWriter`` for a table.

    Commits come as ``commits_table`` gives them and are read as ``SCHEMAS`` has them. There are
    many: a dictionary of numbers that hardly come twice would take most of the time, and their
    differences are a third of the size.
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
