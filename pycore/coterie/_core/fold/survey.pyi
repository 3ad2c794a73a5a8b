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
    records : list of tuple
        Of all pieces since :meth:`take_records`: the records of groups that are no commits, as
        (group id, log offset, timestamp in ms or -1, version of the key, key, value or None,
        position of its batch in the file).

    Notes
    -----
    Numbers count the records of the batches that could be read, from 0, over all pieces.
    """

    def __new__(cls) -> Survey: ...
    @property
    def open(self) -> dict[int, int]: ...
    @property
    def ended(self) -> dict[int, tuple[int, int, int]]: ...
    @property
    def records(self) -> list[tuple[str, int, int, int, bytes, bytes | None, int]]: ...
    def take_records(self) -> list[tuple[str, int, int, int, bytes, bytes | None, int]]:
        """Give the records of groups so far, and forget them."""
