from typing import final

@final
class AppendOp:
    """An append and what waits for it; see :class:`coterie.PendingAppend`."""

    kind: str
    group_id: str
    records: tuple[tuple[bytes, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    transactional: bool
    done: bool
