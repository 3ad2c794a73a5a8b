"""Compressed streams: Kafka's own from the golden logs, other writers', and hostile ones."""

import gzip
import struct

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie._core.codec.compression import MAX_SIZE, NAMES, compress, decompress, xxh32
from coterie.errors import ArgumentError, CorruptData
from support import golden_data
from support.examples import examples

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
TEXT = b"a text with a text in it, and again a text. " * 40
CONTENT = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda piece, n: piece * n, st.binary(min_size=1, max_size=20), st.integers(1, 9000)),
)


def refused(codec, data, magic=2, kind="records", **options):
    with pytest.raises(CorruptData) as caught:
        decompress(codec, data, magic, **options)
    assert caught.value.kind == kind
    return str(caught.value)


def attempt(codec, data, magic=2):
    """The bytes, or None where the stream is refused as it should be."""
    try:
        return decompress(codec, data, magic, max_size=1 << 22)
    except CorruptData as error:
        kind = error.kind
    assert kind == "records"
    return None


def lz4_frame(*blocks, flags=0x60, descriptor=0x40, content_size=b"", tail=b"\0\0\0\0", sum_=None):
    head = bytes([flags, descriptor]) + content_size
    check = xxh32(head) >> 8 & 0xFF if sum_ is None else sum_
    return b"\x04\x22\x4d\x18" + head + bytes([check]) + b"".join(blocks) + tail


def lz4_stored(data, block_sum=b""):
    return struct.pack("<I", len(data) | 1 << 31) + data + block_sum


def block_sum_that_ends_with_a_zero():
    """Return bytes whose LZ4 block checksum has 0 as its last byte, and that checksum."""
    return next(
        (data, struct.pack("<I", xxh32(data)))
        for data in (struct.pack("<I", n) for n in range(10_000))
        if xxh32(data) < 1 << 24
    )


@settings(max_examples=examples(60))
@given(CONTENT, st.sampled_from([(c, m) for c in range(5) for m in range(3) if c < 4 or m == 2]))
def test_compress_then_decompress_is_the_identity(data, codec_and_magic):
    codec, magic = codec_and_magic
    assert decompress(codec, compress(codec, data, magic), magic) == data


@settings(max_examples=examples(30))
@given(CONTENT)
def test_other_libraries_read_what_is_written(data):
    assert gzip.decompress(compress(GZIP, data)) == data
    assert bytes(cramjam.lz4.decompress(compress(LZ4, data))) == data
    assert bytes(cramjam.zstd.decompress(compress(ZSTD, data))) == data


@settings(max_examples=examples(30))
@given(CONTENT)
def test_what_other_libraries_write_is_read(data):
    assert decompress(GZIP, gzip.compress(data)) == data
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    assert decompress(ZSTD, bytes(cramjam.zstd.compress(data))) == data


def golden_streams(case, codec):
    """The compressed part of each v2 batch of a log, and how many bytes a record list must fill."""
    for segment in golden_data.segments(case):
        data, at = segment.read_bytes(), 0
        while at < len(data):
            end = at + 12 + struct.unpack_from(">i", data, at + 8)[0]
            if data[at + 22] & 7 == codec:
                yield data[at + 61 : end], struct.unpack_from(">i", data, at + 57)[0]
            at = end


def uvarint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


@pytest.mark.parametrize("codec", CODECS, ids=NAMES[1:])
def test_streams_of_the_golden_logs_hold_exactly_their_records(codec):
    streams = list(golden_streams(f"compression-{NAMES[codec]}", codec))
    assert streams
    for stream, count in streams:
        records, at = decompress(codec, stream), 0
        for _ in range(count):
            length, at = uvarint(records, at)
            at += length >> 1
        assert at == len(records)


def test_gzip_reads_every_member_and_forgives_what_follows():
    one, two = gzip.compress(b"one"), gzip.compress(b"two" * 5)
    assert decompress(GZIP, one + two) == b"one" + b"two" * 5
    assert decompress(GZIP, one + b"\0" * 30) == b"one"
    assert decompress(GZIP, one + b"junk") == b"one"


def test_thousands_of_tiny_gzip_members_take_no_quadratic_time():
    assert decompress(GZIP, gzip.compress(b"") * 100_000) == b""


def test_gzip_with_a_wrong_sum_is_refused():
    stream = bytearray(gzip.compress(TEXT))
    stream[-5] ^= 1
    refused(GZIP, stream)


def test_gzip_is_written_with_the_header_of_kafka():
    assert compress(GZIP, TEXT)[:10].hex() == "1f8b08000000000000ff"


def test_snappy_is_written_in_xerial_chunks_of_32_kib():
    data = bytes(70_000)
    stream, at, sizes = compress(SNAPPY, data), 16, []
    assert stream[:16] == XERIAL
    while at < len(stream):
        (size,) = struct.unpack_from(">i", stream, at)
        sizes.append(cramjam.snappy.decompress_raw_len(stream[at + 4 : at + 4 + size]))
        at += 4 + size
    assert sizes == [32768, 32768, 4464]


def test_snappy_streams_may_follow_one_another():
    one = compress(SNAPPY, b"one")
    assert decompress(SNAPPY, one + compress(SNAPPY, b"two")) == b"onetwo"
    assert decompress(SNAPPY, one + XERIAL) == b"one"
    assert decompress(SNAPPY, one + b"\0\0\0") == b"one"  # shorter than a length


def test_snappy_of_version_0_is_refused():
    refused(SNAPPY, b"\x82SNAPPY\x00" + struct.pack(">ii", 0, 0) + b"\0\0\0\x01\0")


@pytest.mark.parametrize("size", [-1, 2**31 - 1, 6])
def test_snappy_chunk_that_does_not_fit_is_refused(size):
    assert "byte 16" in refused(SNAPPY, XERIAL + struct.pack(">i", size) + b"\x04\x0cabcd"[:5])


def test_snappy_claims_are_checked_before_memory_is_taken():
    claim = b"\xff\xff\xff\xff\x0f"  # 4 GiB in a block of ten bytes
    assert "claims 4294967295" in refused(SNAPPY, claim + b"\0" * 5)
    assert "claims" in refused(SNAPPY, XERIAL + struct.pack(">i", 10) + claim + b"\0" * 5)


@pytest.mark.parametrize(("magic", "check"), [(0, 0x1A), (1, 0x82), (2, 0x82)])
def test_lz4_header_sum_is_written_as_kafka_does_wrong_in_magic_0(magic, check):
    assert compress(LZ4, b"abc", magic)[:7].hex() == f"04224d186040{check:02x}"


def test_lz4_header_sum_is_ignored_in_magic_0_and_demanded_after():
    for check in (0x1A, 0x82, 0x00):
        assert decompress(LZ4, lz4_frame(lz4_stored(b"x"), sum_=check), 0) == b"x"
    assert "checksum" in refused(LZ4, lz4_frame(sum_=0x1A), 1)
    assert "checksum" in refused(LZ4, lz4_frame(sum_=0x1A), 2)


@pytest.mark.parametrize("flags", [0x20, 0xA0, 0x40, 0x61, 0x62, 0xE0])
def test_lz4_of_another_version_or_with_dependent_blocks_is_refused(flags):
    assert "flags" in refused(LZ4, lz4_frame(flags=flags))


@pytest.mark.parametrize("descriptor", [0x30, 0x00, 0x41, 0xC0])
def test_lz4_block_descriptor_with_reserved_bits_is_refused(descriptor):
    assert "descriptor" in refused(LZ4, lz4_frame(descriptor=descriptor))


def test_lz4_content_size_is_skipped_and_content_sum_not_compared():
    frame = lz4_frame(
        lz4_stored(b"abc"),
        flags=0x6C,
        content_size=struct.pack("<Q", 1 << 60),
        tail=b"\0\0\0\0" + b"sum?",
    )
    assert decompress(LZ4, frame) == b"abc"
    refused(LZ4, frame[:-1])


def test_lz4_block_sums_are_compared():
    good = struct.pack("<I", xxh32(b"abc"))
    assert decompress(LZ4, lz4_frame(lz4_stored(b"abc", good), flags=0x70)) == b"abc"
    assert "block checksum" in refused(LZ4, lz4_frame(lz4_stored(b"abc", b"nope"), flags=0x70))


def test_lz4_reads_nothing_behind_the_end_mark():
    frame = lz4_frame(lz4_stored(b"abc"))
    assert decompress(LZ4, frame + frame) == b"abc"
    assert decompress(LZ4, frame + b"junk") == b"abc"


@pytest.mark.parametrize(("descriptor", "limit"), [(0x40, 1 << 16), (0x50, 1 << 18)])
def test_lz4_block_may_be_as_long_as_the_descriptor_says_and_no_longer(descriptor, limit):
    fits = lz4_frame(lz4_stored(bytes(limit)), descriptor=descriptor)
    assert decompress(LZ4, fits) == bytes(limit)
    refused(LZ4, lz4_frame(lz4_stored(bytes(limit + 1)), descriptor=descriptor))
    packed = bytes(cramjam.lz4.compress_block(bytes(limit + 1), store_size=False))
    refused(LZ4, lz4_frame(struct.pack("<I", len(packed)) + packed, descriptor=descriptor))


def test_zstd_has_no_content_size_as_kafkas_streaming_writer_leaves_it_out():
    assert compress(ZSTD, TEXT)[4] >> 6 == 0
    assert not compress(ZSTD, TEXT)[4] & 0x20  # no single segment either


def test_zstd_frames_may_follow_one_another_and_be_skipped():
    one, two = bytes(cramjam.zstd.compress(b"one")), compress(ZSTD, b"two")
    skipped = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    assert decompress(ZSTD, one + skipped + two) == b"onetwo"
    refused(ZSTD, one + b"junk behind it")
    refused(ZSTD, one + struct.pack("<II", 0x184D2A53, 6) + b"12345")


@pytest.mark.parametrize(("flag", "size"), [(1, 1), (2, 2), (3, 4)])
def test_a_zstd_frame_may_name_no_dictionary_by_zeros(flag, size):
    """RFC 8878: the dictionary id lies before the content size, and 0 means none."""
    frame = bytearray(cramjam.zstd.compress(TEXT))
    single_segment = frame[4] & 0x20
    at = 5 if single_segment else 6
    frame[4] |= flag
    frame[at:at] = bytes(size)
    assert decompress(ZSTD, bytes(frame)) == TEXT


@pytest.mark.parametrize("codec", [-1, 5, 6, 7, 99])
def test_unknown_codec_is_its_own_kind_of_fault(codec):
    refused(codec, b"", kind="codec")


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_refused_in_old_message_sets(magic):
    refused(ZSTD, compress(ZSTD, b"x"), magic, kind="codec")


@pytest.mark.parametrize("codec", CODECS, ids=NAMES[1:])
def test_a_bomb_ends_at_the_limit(codec):
    stream = compress(codec, bytes(3_000_000))
    assert len(decompress(codec, stream, max_size=3_000_000)) == 3_000_000
    assert decompress(codec, compress(codec, b""), max_size=0) == b""
    for limit in (0, 100, 2_999_999):
        refused(codec, stream, max_size=limit)


def test_a_zstd_bomb_of_run_length_blocks_takes_no_memory_past_the_limit():
    block = struct.pack("<I", (128 * 1024) << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", 1)[:3]
    bomb = struct.pack("<I", 0xFD2FB528) + b"\x00\x58" + block * 100_000 + last  # 12.5 GiB
    refused(ZSTD, bomb, max_size=1 << 20)
    with pytest.raises(CorruptData, match="more than 1048576 bytes after decompression"):
        decompress(ZSTD, bomb, max_size=1 << 20)


@pytest.mark.parametrize(
    ("codec", "magic"), [(c, m) for c in CODECS for m in range(3) if c != ZSTD or m == 2]
)
def test_every_cut_is_refused_or_gives_a_beginning(codec, magic):
    stream = compress(codec, TEXT, magic)
    for cut in range(len(stream)):
        assert TEXT.startswith(attempt(codec, stream[:cut], magic) or b"")


@pytest.mark.parametrize("codec", CODECS, ids=NAMES[1:])
@settings(max_examples=examples(300))
@given(data=st.data())
def test_any_flipped_byte_gives_bytes_or_a_fault(codec, data):
    stream = bytearray(compress(codec, TEXT))
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= data.draw(st.integers(1, 255))
    attempt(codec, stream)


@settings(max_examples=examples(300))
@given(st.sampled_from(CODECS), st.binary(max_size=80), st.booleans())
def test_random_bytes_give_bytes_or_a_fault(codec, data, with_magic):
    heads = {GZIP: b"\x1f\x8b\x08\0", SNAPPY: XERIAL, LZ4: b"\x04\x22\x4d\x18\x60\x40\x82"}
    head = heads.get(codec, b"\x28\xb5\x2f\xfd") if with_magic else b""
    attempt(codec, head + data)


@pytest.mark.parametrize("codec", range(5))
def test_any_contiguous_buffer_is_taken(codec):
    stream = compress(codec, TEXT)
    for kind in (bytes, bytearray, memoryview):
        assert decompress(codec, kind(stream)) == TEXT


def test_a_broken_stream_is_reported_with_the_byte_that_is_wrong_or_its_end_if_bytes_are_missing():
    """The byte where a wrong field or block begins; behind a limit, where reading ended."""
    one = compress(SNAPPY, b"one")  # a header, a length of 4 bytes, a block
    version_0 = XERIAL[:8] + bytes(8)
    claims = b"\xff\xff\xff\xff\x0f"  # 4 GiB
    chunk = struct.pack(">i", 5) + claims
    gz = gzip.compress(TEXT)
    stored, summed = lz4_stored(b"abc"), block_sum_that_ends_with_a_zero()
    lz4 = lz4_frame(stored)  # a header of 7 bytes, a block of 7, the end mark
    long_head = {"flags": 0x68, "content_size": bytes(8)}
    zstd = bytes(cramjam.zstd.compress(b"one"))
    first_block = struct.pack("<I", 0xFD2FB528) + b"\x00\x58"  # a frame's header of 6 bytes
    row = struct.pack("<I", 2 << 3)[:3]  # a raw block of 2 bytes, not the last
    cases = [
        (GZIP, gz[:-1], len(gz) - 1, "before its end", {}),
        (GZIP, b"", 0, "before its end", {}),
        (GZIP, gz + gz, len(gz), "after decompression", {"max_size": len(TEXT) - 1}),
        (GZIP, gz + gz, 2 * len(gz), "after decompression", {"max_size": len(TEXT)}),
        (SNAPPY, claims, 0, "claims", {}),
        (SNAPPY, version_0, 8, "version 0", {}),
        (SNAPPY, one + version_0, len(one) + 8, "version 0", {}),
        (SNAPPY, one + XERIAL[:15], len(one) + 15, "inside a header", {}),
        (SNAPPY, XERIAL + struct.pack(">i", -2), 16, "of -2 bytes, 0 are left", {}),
        (SNAPPY, one + struct.pack(">i", 3) + b"ab", len(one), "of 3 bytes, 2 are left", {}),
        (SNAPPY, XERIAL + chunk, 20, "claims", {}),
        (SNAPPY, one + chunk, len(one) + 4, "claims", {}),
        (SNAPPY, one + one, 20, "of 3 bytes, only 2 are", {"max_size": 2}),
        (SNAPPY, one + one, len(one) + 20, "of 3 bytes, only 1 are", {"max_size": 4}),
        (LZ4, lz4[:6], 6, "inside its header", {}),
        (LZ4, b"\x05" + lz4[1:], 0, "magic", {}),
        (LZ4, lz4_frame(flags=0x61), 4, "flags", {}),
        (LZ4, lz4_frame(descriptor=0x30), 5, "descriptor", {}),
        (LZ4, lz4_frame(sum_=0), 6, "header checksum", {}),
        (LZ4, lz4_frame(sum_=0, **long_head), 14, "header checksum", {}),
        (LZ4, lz4_frame(**long_head)[:14], 14, "inside its header", {}),
        (LZ4, lz4[:-1], len(lz4) - 1, "end mark", {}),
        (LZ4, lz4_frame(stored, flags=0x64) + b"sum", len(lz4) + 3, "content checksum", {}),
        (LZ4, lz4[:12], 7, "of 3 bytes; 1 are left, 65536", {}),
        (LZ4, lz4_frame(stored, stored)[:-5], 14, "of 3 bytes; 2 are left, 65536", {}),
        (LZ4, lz4_frame(stored, lz4_stored(bytes(65_537))), 14, "of 65537 bytes", {}),
        (LZ4, lz4_frame(stored + b"nope", flags=0x70), 14, "block checksum", {}),
        (LZ4, lz4_frame(lz4_stored(*summed), flags=0x70, tail=b"")[:-1], 15, "block checksum", {}),
        (LZ4, lz4_frame(stored, stored), 14, "after decompression", {"max_size": 2}),
        (LZ4, lz4_frame(stored, stored), 21, "after decompression", {"max_size": 5}),
        (ZSTD, zstd[:7], 7, "frame header", {}),
        (ZSTD, zstd + zstd[:7], len(zstd) + 7, "frame header", {}),
        (ZSTD, first_block[:4] + b"\xc3" + bytes(12), 17, "frame header", {}),  # 18 in all
        (ZSTD, zstd + bytes(8), len(zstd), "magic", {}),
        (ZSTD, first_block + row + b"ab" + row[:2], 13, "last block", {}),
        (ZSTD, zstd[:-1], len(zstd) - 1, "before its end", {}),
    ]
    for codec, stream, position, what, options in cases:
        with pytest.raises(CorruptData, match=what) as caught:
            decompress(codec, stream, **options)
        assert caught.value.position == position, (NAMES[codec], what, str(caught.value))


def test_a_limit_of_the_output_is_from_0_to_the_longest_array_of_java():
    for limit in (3, MAX_SIZE):
        assert decompress(0, b"abc", max_size=limit) == b"abc"
    for limit in (-1, MAX_SIZE + 1):
        with pytest.raises(ArgumentError, match="max_size"):
            decompress(0, b"abc", max_size=limit)
    assert MAX_SIZE == 2**31 - 1


def test_a_snappy_block_may_claim_64_bytes_for_each_3_of_its_own():
    """A copy of 64 bytes takes three; a greater claim is refused before memory is allocated."""
    for claimed, what in ((128, "broken"), (129, "claims 129")):
        block = bytes([claimed & 0x7F | 0x80, claimed >> 7, 0xFF, 0xFF, 0xFF, 0xFF])
        assert what in refused(SNAPPY, block)
