"""Unsigned variable-length numbers, as compact lengths and tags have them."""

from __future__ import annotations


def unsigned_varint(number: int) -> bytes:
    """Encode a number that is not negative, seven bits in a byte, the lowest first."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
