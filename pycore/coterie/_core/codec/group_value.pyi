"""What a group metadata value says, as Kafka's loader takes it, for a load and for a replay.

Source: GroupMetadataManager.readGroupMessageValue, GroupMetadata.loadGroup.
"""

from typing import NamedTuple

class MemberValue(NamedTuple):
    """A member; ``group_instance_id`` is None where its version has none."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """Of version 0: the session's."""
    subscription: bytes
    assignment: bytes

class GroupValue(NamedTuple):
    """A group; ``protocol_type`` is None for the empty one."""

    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: str | None
    """Where none is stored, the first member."""
    current_state_timestamp: int
    """In ms; -1: none."""
    members: list[MemberValue]
    """In their order; an id may come twice, the later one counts."""

def read_group_value(value: bytes) -> GroupValue:
    """Read a group metadata value of any version that the table has.

    Raises
    ------
    coterie.CorruptData
        ``kind="value"``: as ``decode_value``.
    """
