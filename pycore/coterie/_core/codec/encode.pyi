"""Keys, values and the consumer protocol, from plain dicts to bytes: ``schema`` the other way.

A dict with ``raw`` gives those bytes; ``subscription_decoded`` and ``assignment_decoded`` of a
member are not looked at. Decoding what was encoded gives the dict again, for every version.
"""

from typing import Any

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
