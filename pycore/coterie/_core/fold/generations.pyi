from typing import Any, Final

from typing_extensions import Self

GENERATION_FIELDS: Final[tuple[str, ...]]
"""Names of a row of :meth:`GroupLog.generations`, in order."""

class GroupLog:
    """The metadata records of one group, in log order.

    ``first`` and ``last`` are (log offset, timestamp in ms or -1, value or None for a tombstone).
    """

    first: tuple[int, int, bytes | None]
    last: tuple[int, int, bytes | None]
    changes: list[tuple[Any, ...]]

    def add(self, log_offset: int, timestamp: int, value: bytes | None) -> None:
        """Take the next record.

        Raises
        ------
        coterie.CorruptData
            The value cannot be read.
        """
    def copy(self) -> Self:
        """Return a twin that goes its own way."""
    def absorb(self, later: GroupLog) -> None:
        """Go on with the records of a later piece of the log."""
    def generations(self) -> list[tuple[Any, ...]]:
        """One row a record: the fields of ``GENERATION_FIELDS``.

        ``joined``, ``left`` and ``subscription_changed`` are lists of member ids, ``replaced`` of
        (group instance id, old member id, new member id): a static member that came back under a
        new id. The first record is compared with nothing: everyone joined.
        ``since_previous_ms`` is the time between the two records' own timestamps.
        """
