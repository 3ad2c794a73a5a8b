"""Unsigned variable-length numbers, as Kafka's ByteUtils writes them."""

import pytest

from coterie.wire.varints import unsigned_varint


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, "00"), (1, "01"), (126, "7e"), (127, "7f"), (128, "8001"), (300, "ac02"),
     (16_383, "ff7f"), (16_384, "808001"), (2**31 - 1, "ffffffff07")],
)  # fmt: skip
def test_seven_bits_are_in_a_byte_the_lowest_first(number, data):
    assert unsigned_varint(number) == bytes.fromhex(data)
    assert type(unsigned_varint(number)) is bytes
