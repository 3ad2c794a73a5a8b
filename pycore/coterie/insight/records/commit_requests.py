"""How many requests to commit there were, as far as the batches of a log tell.

A coordinator appends what one OffsetCommit or TxnOffsetCommit brings as one batch. That of 4.x may
wait a little (``group.coordinator.append.linger.ms``) and append what several requests bring as
one. A batch that no single request can have made, or a record of a newer protocol, shows that one.
"""

from __future__ import annotations

from coterie.insight.records.record_columns import RecordColumns


class BatchesTell:
    """Whether each batch with commits is one request, as far as the pieces show: of all groups."""

    COLUMNS = frozenset({"mixed"})

    def __init__(self) -> None:
        self.tell = True

    def take(self, records: RecordColumns) -> None:
        """Look at the next piece."""
        self.tell = self.tell and not records.batches["mixed"].any()

    def absorb(self, later: BatchesTell) -> None:
        """Go on with what follows; see ``aggregates``."""
        self.tell = self.tell and later.tell
