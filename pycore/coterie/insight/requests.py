"""How many requests to commit there were, as far as the batches of a log tell.

A coordinator appends what one OffsetCommit or TxnOffsetCommit brings as one batch. That of 4.x may
wait a little (``group.coordinator.append.linger.ms``) and append what several requests bring as
one. A batch that no single request can have made, or a record of a newer protocol, shows that one.
"""

from __future__ import annotations

import numpy as np

from coterie.insight.commits import KIND, Commits


class BatchesTell:
    """Whether each batch with commits is one request, as far as the pieces show: of all groups."""

    def __init__(self) -> None:
        self.tell = True

    def take(self, records: Commits) -> None:
        """Look at the next piece."""
        self.tell = self.tell and _batches_tell(records)

    def absorb(self, later: BatchesTell) -> None:
        """Go on with what follows; see ``tallies``."""
        self.tell = self.tell and later.tell


def _batches_tell(records: Commits) -> bool:
    offsets = records.kind == KIND["offset"]
    if (records.kind == KIND["newer"]).any():
        return False
    batch, group = records.batch, records.group
    same = batch[1:] == batch[:-1]
    committing = offsets[1:] | offsets[:-1]
    mixed = (group[1:] != group[:-1]) | (offsets[1:] != offsets[:-1])
    if (same & committing & mixed).any():
        return False
    # A batch is of one group by now: two commits of one partition are two requests.
    rows = np.flatnonzero(offsets)
    places = (records.topic[rows].astype(np.int64) << 32) | records.partition[rows].astype(
        np.uint32
    )
    order = np.lexsort((places, batch[rows]))
    again = (np.diff(places[order]) == 0) & (np.diff(batch[rows][order]) == 0)
    return not again.any()
