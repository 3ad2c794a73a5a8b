"""Keys and values of the offsets topic, by the table of messages.

What a key is, whether a value can be read, subscriptions of the consumer protocol, and group
metadata as named tuples.
Source: GroupMetadataManager.scala (readMessageKey, readGroupMessageValue).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from coterie.base.schemas import Section

def define(name: str, section: Section) -> None: ...
def key_type(version: int) -> str | None:
    """Return the type of a record by the version of its key; None: an unknown version."""

def decode_key(key: bytes) -> dict[str, Any]:
    r"""Decode a record's key.

    Returns
    -------
    dict
        ``version``, ``type`` (``offset_commit``, ``group_metadata``, ``consumer_group_metadata``,
        ...) and ``data``; with ``trailing_bytes`` (their count) and ``raw`` if bytes are left
        over. An unknown version gives ``version``, ``raw``, ``error``.

    Raises
    ------
    coterie.CorruptData
        ``kind="key"``: the bytes end too early, or hold a null or length that is not allowed;
        ``position`` is the byte in ``key``.

    Examples
    --------
    >>> decode_key(b"\x00\x02\x00\x08payments")
    {'version': 2, 'type': 'group_metadata', 'data': {'group': 'payments'}}
    """

@overload
def decode_value(key_version: int | None, value: None, *, tags: bool = True) -> None: ...
@overload
def decode_value(key_version: int | None, value: bytes, *, tags: bool = True) -> dict[str, Any]:
    """Decode a record's value; the version of its key decides its type.

    Parameters
    ----------
    key_version : int or None
        The ``version`` that ``decode_key`` returns.
    value : bytes or None
        None: a tombstone.
    tags : bool
        False leaves unknown tagged fields out, as Kafka's converters do.

    Returns
    -------
    dict or None
        None for a tombstone. ``version`` and ``data``; with ``trailing_bytes`` and ``raw`` if
        bytes are left over. In a group of protocol type ``consumer`` each member also has
        ``subscription_decoded`` and ``assignment_decoded``: their ``version`` and ``data``, or
        ``{"error": ...}``, which is no fault of the record; no bytes give None. An unknown key
        version gives ``version``, ``raw``, ``error``. Members that Redpanda wrote have a
        ``version``, too.

    Raises
    ------
    coterie.CorruptData
        ``kind="value"``: as ``decode_key``, or an unknown version of the value.

    Examples
    --------
    >>> data = {"offset": 42, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1_000}
    >>> value = encode_value(1, {"version": 3, "data": data})
    >>> decode_value(1, value)["data"]["offset"]
    42
    >>> decode_value(1, None)  # a tombstone
    """

def decode_share_key(key: bytes) -> dict[str, Any]:
    """Decode the key of a record of __share_group_state.

    As :func:`decode_key`. Its types are ``share_snapshot`` and ``share_update``.
    """

@overload
def decode_share_value(key_version: int, value: None) -> None: ...
@overload
def decode_share_value(key_version: int, value: bytes) -> dict[str, Any]:
    """Decode the value of a record of __share_group_state.

    As :func:`decode_value`, of a key version that has a type.
    """

def is_redpandas(value: bytes) -> bool:
    """Whether a group metadata value has Redpanda's layout, and not Kafka's."""

def decode_subscription(data: bytes) -> dict[str, Any] | None:
    """Decode a member's subscription (consumer protocol 0-3; later versions as 3).

    Returns ``version``, ``data`` and, if bytes are left over, ``trailing_bytes``; no bytes give
    None.

    Raises
    ------
    coterie.CorruptData
        ``kind="value"``.
    """

def decode_assignment(data: bytes) -> dict[str, Any] | None:
    """Decode a member's assignment; see ``decode_subscription``."""

def encode_key(key: dict[str, Any]) -> bytes:
    r"""Encode a record's key from ``version`` and ``data``.

    Raises
    ------
    coterie.CoterieError
        The version is unknown, or a field is missing, null, too long or of another type.

    Examples
    --------
    >>> encode_key({"version": 2, "data": {"group": "payments"}})
    b'\x00\x02\x00\x08payments'
    """

def encode_value(key_version: int, value: dict[str, Any] | None) -> bytes | None:
    """Encode a record's value from ``version`` and ``data``; None, a tombstone, gives None.

    Raises
    ------
    coterie.CoterieError
        As ``encode_key``.

    Examples
    --------
    >>> data = {"offset": 42, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1_000}
    >>> len(encode_value(1, {"version": 3, "data": data}))
    24
    """

def encode_subscription(subscription: dict[str, Any] | None) -> bytes:
    """Encode a member's subscription from ``version`` and ``data``; None gives no bytes.

    Does not sort; Java's writers sort the topics first.
    """

def encode_assignment(assignment: dict[str, Any] | None) -> bytes:
    """Encode a member's assignment from ``version`` and ``data``; None gives no bytes."""

def consumer_topics(subscriptions: Sequence[bytes], protocol: str | None) -> frozenset[str] | None:
    """Return the topics that a group of protocol type ``consumer`` subscribes to.

    Each subscription is read as an int16 version and the layout of version 0, whatever the
    version. No members give the empty set. None means unknown topics: no protocol is selected, or
    a subscription cannot be read. If Kafka's reader throws anything but a SchemaException, its load
    stops; here the topics are unknown.

    Source: GroupMetadata.computeSubscribedTopics.
    """

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
