from collections.abc import Iterable

from coterie._core.fold.fold_state import FoldState

def take(
    fold: FoldState,
    records: Iterable[tuple[int, int, bytes | None, bytes | None]],
    *,
    producer_id: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> None:
    """Apply one batch of decoded records as :meth:`PartitionFold.scan` applies an encoded one.

    Parameters
    ----------
    records
        (log offset, timestamp in ms or -1, key, value), in log order; None is null.
    producer_id, transactional, control
        As in the header of a batch. Only the first record of a control batch is read.
    """
