from typing import final

@final
class Survey:
    """What a fold tells of its records for a second reading, besides the state itself.

    Attributes
    ----------
    open : dict of int to int
        Of the piece scanned last: producers with a transaction that has records in the piece and
        is open at its end -> the number of the first of these records.
    ended : dict
        Of the piece scanned last: producer -> its first marker, as (0 for ABORT or 1 for COMMIT,
        the number of its record, its time in ms, -1: none).

    Notes
    -----
    Numbers count the records of the batches that could be read, from 0, over all pieces.
    """

    def __new__(cls) -> Survey: ...
    @property
    def open(self) -> dict[int, int]: ...
    @property
    def ended(self) -> dict[int, tuple[int, int, int]]: ...
