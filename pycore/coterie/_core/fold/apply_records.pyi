from collections.abc import Iterable

from coterie._core.fold.fold import PartitionFold

def take(
    fold: PartitionFold,
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
        As a batch's header has them; of a control batch only the first record is read.
    """
