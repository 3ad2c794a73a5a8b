"""Whether the batches of a log show the number of commit requests.

A coordinator appends the offsets of one OffsetCommit or TxnOffsetCommit as one batch. Since 4.x it
may linger (``group.coordinator.append.linger.ms``) and append those of several requests as one
batch. A batch that no single request can have written, or a record of a newer protocol, shows such
a coordinator.
"""

from __future__ import annotations

from coterie.insight.records.record_columns import RecordColumns


class RequestBatches:
    """Finds out whether each batch with commits is one request; looks at all groups."""

    COLUMNS = frozenset({"mixed"})

    def __init__(self) -> None:
        self.one_request_each = True

    def take(self, records: RecordColumns) -> None:
        self.one_request_each = self.one_request_each and not records.batches["mixed"].any()
