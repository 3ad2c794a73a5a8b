"""A group metadata value as Kafka's loader reads it, for a load and for a replay.

Source: GroupMetadataManager.readGroupMessageValue, GroupMetadata.loadGroup.
"""

from typing import NamedTuple

class MemberValue(NamedTuple):
    """A member of a group.

    ``group_instance_id`` is None if the member is dynamic, or the version lacks the field.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """In version 0 the session timeout."""
    subscription: bytes
    assignment: bytes

class GroupValue(NamedTuple):
    """A group; an empty protocol type is None."""

    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: str | None
    """The first member if none is stored."""
    current_state_timestamp: int
    """In ms; -1: none."""
    members: list[MemberValue]
    """In the order of the value. An id may be repeated: the last one counts."""

def read_group_value(value: bytes) -> GroupValue:
    """Decode a group metadata value of any known version.

    Raises
    ------
    coterie.CorruptData
        ``kind="value"``: as ``decode_value``.
    """
