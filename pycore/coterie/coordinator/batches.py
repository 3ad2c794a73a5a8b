"""Batches that a coordinator loads: from a segment file, and in the form of the core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie._core.codec.batch import LogReader
from coterie.base.arguments import binary, boolean, integer, sequence
from coterie.errors import ArgumentError, shown
from coterie.values import Batch

LATEST_OFFSET = 2**62  # a log that ends here still has room for appends


def read_log(path: str | Path) -> Iterator[Batch]:
    """Yield the batches of a ``.log`` file, for ``GroupCoordinator(log=...)``.

    The offset of a batch is that of its first remaining record, as in Kafka's loader. Like that
    loader it does not check checksums.
    """
    for batch in LogReader(Path(path).read_bytes(), check_crc=False):
        if batch.records:
            yield Batch(
                batch.records[0].offset,
                batch.producer_id,
                batch.producer_epoch,
                batch.is_transactional,
                batch.is_control,
                tuple((record.key, record.value) for record in batch.records),
            )


def batch_row(batch: Any, log: str = "log") -> tuple[Any, ...]:
    """Check a batch of an initial log and return it in the form of the core."""
    if not isinstance(batch, Batch):
        raise ArgumentError(f"{log} must hold coterie.Batch objects, not {shown(batch)}")
    records = tuple(_record(record) for record in sequence(batch.records, "records"))
    base_offset = integer(batch.base_offset, "base_offset", 64)
    if not 0 <= base_offset <= LATEST_OFFSET - len(records):
        raise ArgumentError(
            f"a batch must lie from offset 0 to {LATEST_OFFSET - 1}: "
            f"base_offset {base_offset} does not, of {len(records)} records"
        )
    return (
        base_offset,
        integer(batch.producer_id, "producer_id", 64),
        integer(batch.producer_epoch, "producer_epoch", 16),
        boolean(batch.transactional, "transactional"),
        boolean(batch.control, "control"),
        records,
    )


def _record(record: Any) -> tuple[bytes | None, bytes | None]:
    if not isinstance(record, tuple | list) or len(record) != 2:
        raise ArgumentError(f"records must be pairs of key and value, not {shown(record)}")
    key, value = record
    return (
        None if key is None else binary(key, "a record's key"),
        None if value is None else binary(value, "a record's value"),
    )
