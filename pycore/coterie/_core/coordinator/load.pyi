from collections.abc import Iterable
from typing import Any

from coterie._core.coordinator.group import GroupMetadata

def load(log: Iterable[tuple[Any, ...]], now_ms: int) -> dict[str, GroupMetadata]:
    """Return the groups of a log, by id.

    Parameters
    ----------
    log
        (base offset, producer id, epoch, transactional, control, ((key, value), ...)) in order.

    Raises
    ------
    CorruptData
        A record that stops Kafka's load.
    """
