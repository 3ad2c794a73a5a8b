from collections.abc import Collection
from typing import final

from typing_extensions import Buffer, Self

from coterie._core.fold.fold_state import FoldState

@final
class PartitionFold(FoldState):
    """The latest state of each key in a partition of ``__consumer_offsets`` or a piece.

    Parameters
    ----------
    on_fault
        ``skip``, ``recover``, ``load`` or ``stop``.
    at_ms
        Leave out records whose own timestamp is after this (ms); those without one count.
    only
        Ids of the groups to fold; None: all.
    history
        Collect every commit, with its outcome, in :attr:`history`.
    survey
        Collect the facts that a second reading needs, in :attr:`survey`.
    tracking
        Track keys (see ``partial.tracks``) and collect :attr:`group_records`: (since_ms, until_ms,
        since_offset). Commits are counted from ``since_ms`` on, and from the log offset
        ``since_offset`` on whatever their times. Records later than ``until_ms`` are not tracked; a
        record in time counts even if a later marker commits it. None: no bound.

    Notes
    -----
    Memory grows with the keys. A call during a change by another thread raises a CoterieError.
    Sources: GroupMetadataManager.doLoadGroupsAndOffsets, LogSegment.recover,
    ByteBufferLogInputStream.
    """

    def __new__(
        cls,
        *,
        on_fault: str = "skip",
        at_ms: int | None = None,
        only: Collection[str] | None = None,
        history: bool = False,
        survey: bool = False,
        tracking: tuple[int | None, int | None, int | None] | None = None,
    ) -> Self: ...
    def scan(
        self,
        data: Buffer,
        *,
        file: str = "",
        position: int = 0,
        expected_offset: int = -1,
        max_bytes: int | None = None,
    ) -> int:
        """Apply whole batches that follow the ones scanned before; return the bytes taken.

        Parameters
        ----------
        data
            From a batch boundary to another, or to the end of the segment. Not referenced
            afterwards.
        file, position
            Where the bytes come from, for the places of faults.
        expected_offset
            The offset that the first batch should begin with, -1: not known. Only used to find
            gaps and to judge the base offset of a fault.
        max_bytes
            Stop after the batch that reaches this size; None: take all of ``data``. If the fold
            has ended, all of it counts as taken.
        """
