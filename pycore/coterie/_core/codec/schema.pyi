"""Keys, values and the consumer protocol, from bytes to plain dicts and back.

The dicts are what Kafka's own JSON converters print: its field names in camel case, in its order,
a field that the version lacks left out. Texts are str (bytes that are not UTF-8 read as U+FFFD,
as Java does), bytes are bytes, uuids are as Kafka prints them. Tagged fields that are unknown
stand under ``_unknown_tags``, pairs of a tag and its bytes, in the struct that holds them; Kafka's
converters drop them. What is written may be such a dict: one with ``raw`` gives those bytes, and
``subscription_decoded`` and ``assignment_decoded`` of a member are not looked at. Decoding what was
encoded gives the dict again, for every version. Source: CoordinatorRecordSerde, the message classes
of Kafka 3.9.1 and 4.1.0.
"""

from typing import Any, overload

from coterie.schemas import Section

def define(name: str, section: Section) -> None: ...
def key_type(version: int) -> str | None:
    """Return the type of a record by its key's version; None: a version that is not known."""

def decode_key(key: bytes) -> dict[str, Any]:
    """Decode a record's key.

    Returns
    -------
    dict
        ``version``, ``type`` (``offset_commit``, ``group_metadata``, ``consumer_group_metadata``,
        ...) and ``data``; ``trailing_bytes`` (their count) and ``raw`` where bytes are left over.
        A version that is not known: ``version``, ``raw``, ``error``.

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
    """Decode a record's value, whose type the version of its key says.

    Parameters
    ----------
    key_version : int or None
        As ``decode_key`` gives it.
    value : bytes or None
        None: a tombstone.
    tags : bool
        False leaves unknown tagged fields out, as Kafka's converters do.

    Returns
    -------
    dict or None
        None for a tombstone. ``version`` and ``data``; ``trailing_bytes`` and ``raw`` where bytes
        are left over. In a group of protocol type ``consumer`` each member also has
        ``subscription_decoded`` and ``assignment_decoded``: their ``version`` and ``data``, or
        ``{"error": ...}``, which is no fault of the record; no bytes give None. Under a key
        version that is not known: ``version``, ``raw``, ``error``.

    Raises
    ------
    coterie.CorruptData
        ``kind="value"``: as ``decode_key``, or a value version that is not known.
    """

def decode_subscription(data: bytes) -> dict[str, Any] | None:
    """Decode a member's subscription (consumer protocol 0-3; above, as 3).

    ``version``, ``data`` and, where bytes are left over, ``trailing_bytes``; None for no bytes.

    Raises
    ------
    coterie.CorruptData
        ``kind="value"``.
    """

def decode_assignment(data: bytes) -> dict[str, Any] | None:
    """Decode a member's assignment, as ``decode_subscription`` does a subscription."""

def encode_key(key: dict[str, Any]) -> bytes:
    """Return a key's bytes from ``version`` and ``data``.

    Raises
    ------
    coterie.CoterieError
        The version is unknown, or a field is missing, null, too long or of another type.
    """

def encode_value(key_version: int, value: dict[str, Any] | None) -> bytes | None:
    """Return a value's bytes from ``version`` and ``data``; None for None, the tombstone.

    Raises
    ------
    coterie.CoterieError
        As ``encode_key``.
    """

def encode_subscription(subscription: dict[str, Any] | None) -> bytes:
    """Return a member's subscription from ``version`` and ``data``; None gives no bytes.

    Nothing is sorted: Java's writers sort the topics before they write.
    """

def encode_assignment(assignment: dict[str, Any] | None) -> bytes:
    """Return a member's assignment from ``version`` and ``data``; None gives no bytes."""
