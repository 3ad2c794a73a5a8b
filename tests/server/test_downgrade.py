"""Batches as a client of a very old version gets them, as messages of magic 0 or 1."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coterie.messages import encode_batch
from coterie.server.services.batches import ZSTD
from coterie.server.services.downgrade import downgraded
from support.examples import examples

VALUES = st.lists(st.binary(max_size=40), min_size=1, max_size=4)
HEAD = {
    0: 12 + 4 + 1 + 1,
    1: 12 + 4 + 1 + 1 + 8,
}  # offset and size, checksum, magic, attributes, time


def messages(data, magic):
    """The offsets and values of whole uncompressed messages without keys."""
    found = []
    while len(data) >= 12 and len(data) >= 12 + (size := int.from_bytes(data[8:12], "big")):
        assert data[16] == magic
        body = data[HEAD[magic] : 12 + size]
        assert body[:4] == b"\xff" * 4  # no key
        found.append((int.from_bytes(data[:8], "big"), body[8:]))
        data = data[12 + size :]
    return found


@settings(max_examples=examples(150))
@given(st.lists(VALUES, min_size=1, max_size=5), st.sampled_from([0, 1]), st.integers(0, 20))
def test_a_response_has_the_length_of_the_batches_and_all_whole_messages_that_fit(
    batches, magic, first_offset
):
    data, sets, offset = b"", [], 0
    for values in batches:
        rows = [(offset + n, 1000, None, value) for n, value in enumerate(values)]
        offset += len(values)
        data += encode_batch(rows)
        sets.append([(at, value) for at, _, _, value in rows if at >= first_offset])
    size = max(len(data), *(sum(map(sized(magic), one)) for one in sets if one), 0)
    fits, room = [], size
    for message in (each for one in sets for each in one):
        room -= sized(magic)(message)
        if room < 0:
            break
        fits.append(message)
    assume(any(sets))
    out = downgraded(data, magic, first_offset)
    assert messages(out, magic) == fits
    assert len(out) == size


def random_batch(size, codec=0):
    """A batch of one value of so many random bytes."""
    return encode_batch([(0, 1000, None, random.Random(size).randbytes(size))], codec=codec)


@pytest.mark.parametrize(
    ("data", "magic", "missing", "size"),
    [
        (random_batch(5), 1, 34, 61),  # the batch has 68 bytes more than the value, the message 34
        (random_batch(5), 0, 42, 61),
        (random_batch(5) + random_batch(300, ZSTD), 1, 34 + len(random_batch(300, ZSTD)), None),
    ],
)
def test_the_rest_of_a_response_is_the_beginning_of_a_longer_message(data, magic, missing, size):
    """It has at least the overhead of a batch. Source: LazyDownConversionRecords."""
    out = downgraded(data, magic, 0)
    ((_, value),) = messages(out, magic)
    rest = out[sized(magic)((0, value)) :]
    assert rest[:8] == b"\xff" * 8
    assert int.from_bytes(rest[8:12], "big") == (size or missing + 1)
    assert len(rest) == missing
    assert not any(rest[12:])


@pytest.mark.parametrize("over", [0, 1])
def test_batches_of_128_kib_are_converted_together_or_not_at_all(over):
    """So those before one of zstd are lost with it. Source: LazyDownConversionRecords."""
    newest = random_batch(300, ZSTD)
    second = random_batch((128 << 10) - len(newest) - len(random_batch(100_000)) + 100_000 + over)
    assert len(second) + len(newest) == (128 << 10) + over
    out = downgraded(random_batch(5) + second + newest, 1, 0)
    assert len(messages(out, 1)) == 1 + over


def sized(magic):
    return lambda message: HEAD[magic] + 4 + 4 + len(message[1])
