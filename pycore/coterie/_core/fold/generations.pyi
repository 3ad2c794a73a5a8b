from typing import NamedTuple

from typing_extensions import Self

class MetadataRecord(NamedTuple):
    """Group metadata: ``timestamp`` in ms or -1, ``value`` None = tombstone."""

    log_offset: int
    timestamp: int
    value: bytes | None

class Generation(NamedTuple):
    """What a record says of its group, and what changed since the one before.

    ``joined``, ``left`` and ``subscription_changed`` are lists of member ids, ``replaced`` of
    (group instance id, old member id, new member id): a static member that came back under a
    new id. The first record is compared with nothing: everyone joined.
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
    def generations(self) -> list[Generation]:
        """One row a record."""
