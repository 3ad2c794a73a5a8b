"""Sums and hashes, against fixed vectors, zlib, and the shortest true models."""

import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie._core.codec import compression as checksum


def crc32c_bit_by_bit(data):
    c = 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = (c >> 1) ^ (0x82F63B78 & -(c & 1))
    return c ^ 0xFFFFFFFF


def hash_code(text):
    h = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", units):
        h = (31 * h + unit) & 0xFFFFFFFF
    return h - (1 << 32) if h >> 31 else h


def test_crc32c_of_rfc_3720_vectors():
    assert checksum.crc32c(b"") == 0
    assert checksum.crc32c(b"123456789") == 0xE3069283
    assert checksum.crc32c(bytes(32)) == 0x8A9136AA
    assert checksum.crc32c(b"\xff" * 32) == 0x62A8AB43


@given(st.binary(max_size=600))
def test_crc32c_equals_the_model_on_every_road(data):
    expected = crc32c_bit_by_bit(data)
    assert checksum.crc32c(data) == expected
    assert checksum._crc32c_soft(data) == expected


def test_three_lanes_and_one_lane_agree_at_every_length_around_the_lane_borders():
    data = random.Random(20260101).randbytes(3 * 4096 * 3 + 100)
    borders = [24 * words + extra for words in range(1, 40) for extra in (-1, 0, 1, 7, 8, 23)]
    borders += [12288 * n + extra for n in (1, 2, 3) for extra in (-25, -1, 0, 1, 24, 191, 193)]
    for size in borders:
        for start in (0, 1, 5):
            piece = data[start : start + size]
            assert checksum.crc32c(piece) == checksum._crc32c_soft(piece), (start, size)


@given(st.binary(max_size=200))
def test_crc32_equals_zlib(data):
    assert checksum.crc32(data) == zlib.crc32(data)


@pytest.mark.parametrize(
    ("data", "seed", "expected"),  # from the xxHash reference's own sanity checks
    [
        (b"", 0, 0x02CC5D05),
        (b"", 2654435761, 0x36B78AE7),
        (b"Nobody inspects the spammish repetition", 0, 0xE2293B2F),
        (b"a", 0, 0x550D7456),
        (b"abc", 0, 0x32D153FF),
    ],
)
def test_xxh32_of_known_vectors(data, seed, expected):
    assert checksum.xxh32(data, seed) == expected


def test_lz4_header_checksums_of_the_specification():
    assert checksum.xxh32(b"\x60\x40") >> 8 & 0xFF == 0x82
    assert checksum.xxh32(b"\x04\x22\x4d\x18\x60\x40") >> 8 & 0xFF == 0x1A


@pytest.mark.parametrize(
    ("group", "expected_hash", "expected_partition"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("my-group", -1906497762, 12),
        ("group-é", 293427483, 33),
        ("\U0001f600", 1772899, 49),
        ("\U00010000", 1770496, 46),  # 31 * D800 + DC00: the first of two units
        ("\uffff", 65535, 35),
        ("polygenelubricants", -(2**31), 0),
        ("GydZG_", -(2**31), 0),
    ],
)
def test_partition_of_the_specifications_groups(group, expected_hash, expected_partition):
    assert checksum.java_hash(group) == expected_hash
    assert checksum.partition_for(group) == expected_partition


@given(st.text(st.characters(codec=None, exclude_categories=())), st.integers(1, 2**31 - 1))
def test_java_hash_runs_over_utf16_units_lone_surrogates_too(group, partitions):
    expected = hash_code(group)
    assert checksum.java_hash(group) == expected
    magnitude = 0 if expected == -(2**31) else abs(expected)
    assert checksum.partition_for(group, partitions) == magnitude % partitions


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_without_partitions_is_refused(partitions):
    with pytest.raises(ValueError, match="at least one partition"):
        checksum.partition_for("g", partitions)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_sums_take_any_buffer(kind):
    assert checksum.crc32c(kind(b"123456789")) == 0xE3069283
