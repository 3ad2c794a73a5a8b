from typing import final

@final
class Survey:
    """The transactions of the piece scanned last: which are open, and the first markers.

    Attributes
    ----------
    open : dict of int to int
        Producers with a transaction that has records in the piece and is open at its end -> the
        number of the first of these records.
    ended : dict
        Producer -> its first marker, as (0 for ABORT or 1 for COMMIT,
        the number of its record, its time in ms, -1: none).

    Notes
    -----
    Records are numbered from 0 over all pieces; only readable batches count.
    """

    def __new__(cls) -> Survey: ...
    @property
    def open(self) -> dict[int, int]: ...
    @property
    def ended(self) -> dict[int, tuple[int, int, int]]: ...
