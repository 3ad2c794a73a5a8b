from typing import NamedTuple

from typing_extensions import Self

class MetadataRecord(NamedTuple):
    """A record of group metadata as it stands in the log.

    ``timestamp`` is in ms (-1: none); a tombstone has no ``value``.
    """

    log_offset: int
    timestamp: int
    value: bytes | None

class Generation(NamedTuple):
    """A group at a metadata record, and what changed since the record before.

    ``joined``, ``left`` and ``subscription_changed`` are lists of member ids, ``replaced`` of
    (group instance id, old member id, new member id): a static member that came back under a
    new id. In the first record every member joined.
    """

    log_offset: int
    timestamp: int | None
    tombstone: bool
    protocol_type: str | None
    generation: int | None
    protocol: str | None
    leader: str | None
    current_state_timestamp: int | None
    member_count: int
    joined: list[str]
    left: list[str]
    replaced: list[tuple[str, str, str]]
    subscription_changed: list[str]
    leader_changed: bool
    protocol_changed: bool
    previous_generation: int | None
    since_previous_ms: int | None
    """Between the two records' own timestamps."""

class GroupLog:
    """The metadata records of one group, in log order."""

    first: MetadataRecord
    last: MetadataRecord
    changes: list[Generation]

    def add(self, log_offset: int, timestamp: int, value: bytes | None) -> None:
        """Add the next record.

        Raises
        ------
        coterie.CorruptData
            The value cannot be read.
        """
    def copy(self) -> Self:
        """Return an independent copy."""
    def absorb(self, later: GroupLog) -> None:
        """Append the records of a later piece of the log."""
    def generations(self) -> list[Generation]:
        """Return a row for each record."""
