from typing import final

from coterie.errors import CoterieError

class Thrown(CoterieError):
    """Kafka's code throws here. What was done before stays done, as there."""

class Garbage(Thrown):
    """Kafka's code throws at metadata of a member that cannot be read."""

@final
class AppendOp:
    """An append, and what to do when it finishes: nothing, unless a component derives its own.

    See :class:`coterie.PendingAppend`.
    """

    kind: str
    group_id: str
    records: tuple[tuple[bytes, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    transactional: bool
    done: bool
