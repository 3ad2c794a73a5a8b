"""A segment file as the batches that a coordinator loads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coterie._core.reader import LogReader
from coterie.values import Batch

__all__ = ["read_log"]


def read_log(path: str | Path) -> Iterator[Batch]:
    """Yield the batches of a ``.log`` file, for ``GroupCoordinator(log=...)``.

    A batch stands at the offset of the first record that is left in it, as Kafka's loader has it.
    Checksums are not looked at, as Kafka's loader does not.
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
