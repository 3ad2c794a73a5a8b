from typing import final

from coterie.errors import CoterieError

class Thrown(CoterieError):
    """Kafka's code throws here. What was done before stays done, as there."""

class Garbage(Thrown):
    """It throws at a member's metadata, which cannot be read: no sound trace has such."""

@final
class AppendOp:
    """An append and what waits for it: nothing, unless a part derives its own.

    See :class:`coterie.PendingAppend`.
    """

    kind: str
    group_id: str
    records: tuple[tuple[bytes, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    transactional: bool
    done: bool
