"""Keys, values and the consumer protocol, from bytes to plain dicts and back.

The dicts have the form of Kafka's own JSON converters: camel-case field names in Kafka's order,
without the fields that the version lacks. Texts are str (bytes that are not UTF-8 become U+FFFD, as
in Java), bytes are bytes, and uuids have Kafka's text form. Unknown tagged fields are in their
struct under ``_unknown_tags``, as pairs of a tag and its bytes; Kafka's converters drop them.

Encoding takes such a dict. One with ``raw`` gives those bytes; a member's ``subscription_decoded``
and ``assignment_decoded`` are ignored. Decoding an encoded dict gives an equal one, in every
version. Source: CoordinatorRecordSerde, the message classes of Kafka 3.9.1 and 4.1.0.
"""

from typing import Any, overload

from coterie.schemas import Section

def define(name: str, section: Section) -> None: ...
def key_type(version: int) -> str | None:
    """Return the type of a record by the version of its key; None: an unknown version."""

def decode_key(key: bytes) -> dict[str, Any]:
    """Decode a record's key.

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
    """Encode a record's key from ``version`` and ``data``.

    Raises
    ------
    coterie.CoterieError
        The version is unknown, or a field is missing, null, too long or of another type.
    """

def encode_value(key_version: int, value: dict[str, Any] | None) -> bytes | None:
    """Encode a record's value from ``version`` and ``data``; None, a tombstone, gives None.

    Raises
    ------
    coterie.CoterieError
        As ``encode_key``.
    """

def encode_subscription(subscription: dict[str, Any] | None) -> bytes:
    """Encode a member's subscription from ``version`` and ``data``; None gives no bytes.

    Does not sort; Java's writers sort the topics first.
    """

def encode_assignment(assignment: dict[str, Any] | None) -> bytes:
    """Encode a member's assignment from ``version`` and ``data``; None gives no bytes."""
