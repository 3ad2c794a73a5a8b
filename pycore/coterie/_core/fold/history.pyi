from collections.abc import Iterator
from typing import Any, Final, final

OUTCOMES: Final[tuple[str, ...]]
"""Names of the values of the column ``outcome``."""

@final
class History:
    """The decided commits of a fold in the order of their decision: rows of C, 80 bytes each.

    A commit outside of transactions stands in its place, one of a transaction where the marker
    stands that decides it.

    Notes
    -----
    One call at a time may change it, and none reads it meanwhile: else a CoterieError.
    """

    def __new__(cls) -> History: ...
    def __len__(self) -> int: ...
    def clear(self) -> None:
        """Forget all rows. Pending commits stay, and become rows with their marker."""
    def columns(self, start: int = 0, end: int | None = None) -> dict[str, Any]:
        """Give the rows from ``start`` to ``end`` as arrays.

        Returns
        -------
        dict
            Arrays of shape (rows,): ``log_offset``, ``timestamp`` (ms, -1: none),
            ``producer_id``, ``offset``, ``commit_timestamp``, ``expire_timestamp`` (ms, -1:
            none), int64; ``group``, ``topic`` (numbers of names), ``partition``,
            ``leader_epoch`` (-1: none), int32; ``kind`` (0: a commit, 1: a tombstone),
            ``transactional`` and ``outcome`` (see ``OUTCOMES``), int8. ``metadata`` (uint8, end to
            end) is cut at ``metadata_bounds`` (int64, shape (rows + 1,)). ``groups`` and
            ``topics``: the names' bytes, and where to cut them.
        """
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Give the rows one by one, as the table ``commits`` has them.

        In order of its columns without ``offsets_partition``; times are ms.
        """
    def pending(self) -> History:
        """Return the commits that no marker has decided so far, in order of their log offsets."""
