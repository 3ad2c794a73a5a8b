from collections.abc import Iterator
from typing import Any, Final, final

OUTCOMES: Final[tuple[str, ...]]
"""Names of the values of the column ``outcome``."""

@final
class History:
    """The decided commits of a fold, in the order of their decision.

    A commit outside of transactions has its own place in the log; a commit of a transaction has
    the place of its marker.

    Notes
    -----
    A call during a change by another thread raises a CoterieError. Memory: 80 bytes
    a row, and the metadata.
    """

    def __new__(cls) -> History: ...
    def __len__(self) -> int: ...
    def clear(self) -> None:
        """Remove all rows. Pending commits stay, and become rows with their marker."""
    def columns(self, start: int = 0, end: int | None = None) -> dict[str, Any]:
        """Return the rows from ``start`` to ``end`` as arrays.

        Returns
        -------
        dict
            Arrays of shape (rows,): ``log_offset``, ``timestamp`` (ms, -1: none),
            ``producer_id``, ``offset``, ``commit_timestamp``, ``expire_timestamp`` (ms, -1:
            none), int64; ``group``, ``topic`` (numbers of names), ``partition``,
            ``leader_epoch`` (-1: none), int32; ``kind`` (0: a commit, 1: a tombstone),
            ``transactional`` and ``outcome`` (see ``OUTCOMES``), int8. ``metadata`` (uint8, end to
            end) is cut at ``metadata_bounds`` (int64, shape (rows + 1,)). ``groups`` and
            ``topics``: the names' bytes end to end, and the bounds of each name.
        """
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows one by one, in the form of the table ``commits``.

        The fields are in the order of its columns, without ``offsets_partition``; times are ms.
        """
    def pending(self) -> History:
        """Return the commits that no marker has decided yet, in order of their log offsets."""
