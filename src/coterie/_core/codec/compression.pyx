"""Checksums of batches, and compression of their records.

CRC-32C and CRC-32 run on the processor's instructions where it has them. The codecs are gzip,
snappy (also Java's framing), lz4 (also with the wrong header checksum of old producers) and zstd.
"""
import cramjam
import zlib
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t

from coterie._core.checks cimport buffer_of, int32_of, text_of

from coterie.errors import ArgumentError, CorruptData


# ---- kafka's checksums, and the hash that chooses a group's partition, as Python functions -------
# Thin wrappers of the headers in src/c: they check the arguments and release the GIL.
# Cost: one pass over the data.

coterie_crc32c_init()     # for compilers that cannot run it at load: see crc_soft.h
coterie_crc32_init()


cdef inline const uint8_t* start(const uint8_t[::1] data) noexcept:
    # An empty view has no element to take the address of.
    return &data[0] if data.shape[0] else <const uint8_t*> b""


def crc32c(data):
    """Return CRC-32C (Castagnoli), the sum of record batches v2, as an unsigned 32-bit number."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    cdef const uint8_t* at = start(view)
    cdef uint32_t result
    with nogil:
        result = coterie_crc32c(at, view.shape[0])
    return result


def _crc32c_soft(data):
    """Compute CRC-32C by tables, so that a test can compare it with the processor's instruction."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    return coterie_crc32c_soft(start(view), view.shape[0])


def crc32(data):
    """Return CRC-32 (IEEE), the sum of message sets v0 and v1; equal to ``zlib.crc32``."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    cdef const uint8_t* at = start(view)
    cdef uint32_t result
    with nogil:
        result = coterie_crc32(at, view.shape[0])
    return result


def xxh32(data, uint32_t seed=0):
    """Return xxHash32, whose second byte is the header checksum of an LZ4 frame."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    cdef const uint8_t* at = start(view)
    cdef uint32_t result
    with nogil:
        result = coterie_xxh32(at, view.shape[0], seed)
    return result


def java_hash(str text not None):
    """Return Java's ``String.hashCode``: h = 31 h + c over the UTF-16 code units, in int32."""
    cdef bytes raw = text.encode("utf-8", "surrogatepass")
    return coterie_java_hash(raw, len(raw))


def partition_for(group_id, partitions=50):
    """Return the partition of ``__consumer_offsets`` that holds a group."""
    cdef int32_t count = int32_of(partitions, "partitions")
    if count <= 0:
        raise ArgumentError(f"a topic has at least one partition, not {count}")
    cdef bytes raw = text_of(group_id, "group_id").encode("utf-8", "surrogatepass")
    return coterie_partition_for(coterie_java_hash(raw, len(raw)), count)


# ---- compressed record streams, as Kafka's writers make them and its readers accept them ---------
# Parses the framing itself (xerial's chunks, LZ4 frames, zstd's block headers), so that every limit
# is checked before memory is allocated; cramjam and zlib get one block or stream at a time. Knows
# nothing of batches or records. Cost: memory for the output and one block; compress.pyi has the
# greatest ratio of each codec.
# Rules: docs/rules/log-format.md#compression.

MAX_SIZE = (1 << 31) - 1      # a Java byte array holds no more
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

cdef bytes XERIAL_MAGIC = b"\x82SNAPPY\x00"
cdef enum:
    GZIP_PIECE = 8192
    XERIAL_HEADER = 16
    XERIAL_CHUNK = 32768
    LZ4_MAGIC = 0x184D2204
    LZ4_STORED = 0x80000000
    LZ4_BLOCK = 65536
    ZSTD_MAGIC = 0xFD2FB528
    ZSTD_SKIPPABLE = 0x184D2A50   # and the fifteen numbers after it
    ZSTD_BLOCK_MAX = 131072
    ZSTD_LEVEL = 3                # Kafka's default


def corrupt(str what, Py_ssize_t at, str kind="records"):
    return CorruptData(f"{what} (byte {at})", kind=kind, position=at)


cdef inline uint32_t le32(const uint8_t* p) noexcept nogil:
    return p[0] | <uint32_t> p[1] << 8 | <uint32_t> p[2] << 16 | <uint32_t> p[3] << 24


cdef inline int32_t be32(const uint8_t* p) noexcept nogil:
    return <int32_t> (<uint32_t> p[0] << 24 | <uint32_t> p[1] << 16 | <uint32_t> p[2] << 8 | p[3])


cdef int check_codec(int codec, int magic) except -1:
    if not 0 <= codec <= 4:
        raise CorruptData(f"compression codec {codec} is unknown", kind="codec")
    if codec == 4 and magic < 2:
        raise CorruptData(f"zstd is not allowed in a message of magic {magic}", kind="codec")
    return 0


def decompress(int codec, data, int magic=2, Py_ssize_t max_size=MAX_SIZE):
    """Decompress the stream of a record batch."""
    check_codec(codec, magic)
    if not 0 <= max_size <= MAX_SIZE:
        raise ArgumentError(f"max_size must be from 0 to {MAX_SIZE}, not {max_size}")
    cdef bytes raw = bytes(buffer_of(data, "data"))
    if codec == 0:
        return check_size(raw, max_size)
    try:
        if codec == 1:
            return gunzip(raw, max_size)
        if codec == 2:
            return unsnappy(raw, max_size)
        if codec == 3:
            return unlz4(raw, magic, max_size)
        return unzstd(raw, max_size)
    except (cramjam.DecompressionError, zlib.error) as error:
        raise CorruptData(f"{NAMES[codec]} stream is broken: {error}", kind="records") from None


def compress(int codec, data, int magic=2):
    """Compress ``data`` in the form of Kafka's own writer."""
    check_codec(codec, magic)
    cdef bytes raw = bytes(buffer_of(data, "data"))
    if codec == 1:
        return gzip(raw)
    if codec == 2:
        return snappy(raw)
    if codec == 3:
        return lz4(raw, magic)
    if codec == 4:
        # The streaming API, because Kafka's frames have no content size in their header.
        stream = cramjam.zstd.Compressor(level=ZSTD_LEVEL)
        stream.compress(raw)
        return bytes(stream.finish())
    return raw


cdef bytes check_size(bytes raw, Py_ssize_t max_size):
    if len(raw) > max_size:
        raise CorruptData(f"more than {max_size} bytes after decompression", kind="records")
    return raw


# gzip: by zlib, because it stops at a limit and reports where a member ends.

cdef bytes gunzip(bytes raw, Py_ssize_t max_size):
    cdef list parts = []
    cdef Py_ssize_t at = 0, left = max_size
    while True:
        member = zlib.decompressobj(31)
        while not member.eof:
            if at >= len(raw):
                raise corrupt("gzip stream ends before its end", len(raw))
            # In pieces, because zlib copies all bytes after a member's end, which would be
            # quadratic for a stream of many small members. Allows one byte more than the limit,
            # to tell "full" from "too much".
            part = member.decompress(raw[at:at + GZIP_PIECE], left + 1)
            at = min(at + GZIP_PIECE, len(raw)) - len(member.unused_data)
            left -= len(part)
            if left < 0:
                raise corrupt(f"more than {max_size} bytes after decompression", at)
            parts.append(part)
        # GZIPInputStream reads on if another header follows, and ignores anything else.
        if len(raw) - at <= 18 or raw[at:at + 3] != b"\x1f\x8b\x08":
            return b"".join(parts)


cdef bytes gzip(bytes raw):
    deflater = zlib.compressobj(-1, zlib.DEFLATED, -15)
    body = deflater.compress(raw) + deflater.flush()
    # The header of JDK 16 and later: no time, no extra flags, operating system unknown.
    return (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + body
            + zlib.crc32(raw).to_bytes(4, "little")
            + (len(raw) & 0xFFFFFFFF).to_bytes(4, "little"))


# snappy

cdef bytes unsnappy_block(bytes block, Py_ssize_t at, Py_ssize_t max_size):
    # The claimed size is possible only up to this ratio: a copy of 64 bytes takes three.
    claimed = cramjam.snappy.decompress_raw_len(block)
    if claimed > len(block) * 64 // 3:
        raise corrupt(f"snappy block of {len(block)} bytes claims {claimed}", at)
    if claimed > max_size:
        raise corrupt(f"snappy block of {claimed} bytes, only {max_size} are allowed", at)
    return bytes(cramjam.snappy.decompress_raw(block))


cdef bytes unsnappy(bytes raw, Py_ssize_t max_size):
    if len(raw) == 0:
        return b""
    if len(raw) < XERIAL_HEADER or not raw.startswith(XERIAL_MAGIC):
        return unsnappy_block(raw, 0, max_size)
    cdef const uint8_t* p = raw
    cdef Py_ssize_t at = XERIAL_HEADER, left = max_size
    cdef int32_t size
    cdef list parts = []
    check_xerial_version(be32(p + 8), 8)
    while len(raw) - at >= 4:             # fewer bytes than a length are ignored
        size = be32(p + at)
        if size == be32(XERIAL_MAGIC):    # a second stream with its header follows the first
            if len(raw) - at < XERIAL_HEADER:
                raise corrupt("snappy stream ends inside a header", len(raw))
            if raw[at:at + 8] != XERIAL_MAGIC:
                break
            check_xerial_version(be32(p + at + 8), at + 8)
            at += XERIAL_HEADER
            continue
        at += 4
        if size < 0 or size > len(raw) - at:
            raise corrupt(f"snappy chunk of {size} bytes, {len(raw) - at} are left", at - 4)
        block = unsnappy_block(raw[at:at + size], at, left)
        parts.append(block)
        left -= len(block)
        at += size
    return b"".join(parts)


cdef int check_xerial_version(int32_t version, Py_ssize_t at) except -1:
    if version < 1:
        raise corrupt(f"snappy stream of version {version}", at)
    return 0


cdef bytes snappy(bytes raw):
    cdef list parts = [XERIAL_MAGIC, b"\x00\x00\x00\x01\x00\x00\x00\x01"]
    cdef Py_ssize_t at
    for at in range(0, len(raw), XERIAL_CHUNK):
        block = bytes(cramjam.snappy.compress_raw(raw[at:at + XERIAL_CHUNK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


# lz4: KafkaLZ4BlockInputStream

cdef Py_ssize_t read_lz4_header(bytes raw, int magic, int* flags, Py_ssize_t* block_max) except -1:
    """Check the frame header; return the position of the first block."""
    cdef const uint8_t* p = raw
    cdef Py_ssize_t at = 6
    if len(raw) < 7:
        raise corrupt("lz4 frame ends inside its header", len(raw))
    if le32(p) != <uint32_t> LZ4_MAGIC:
        raise corrupt("no lz4 frame: its magic number is missing", 0)
    flags[0] = p[4]
    if p[4] & 0x03 or p[4] >> 6 != 1 or not p[4] & 0x20:
        raise corrupt(f"lz4 frame flags {p[4]:#04x}: not version 1 with independent blocks", 4)
    if p[5] & 0x8F or p[5] >> 4 < 4:
        raise corrupt(f"lz4 block descriptor {p[5]:#04x}", 5)
    block_max[0] = <Py_ssize_t> 1 << (8 + 2 * (p[5] >> 4))
    if p[4] & 0x08:                        # content size: skipped, so never trusted
        at += 8
    if at >= len(raw):
        raise corrupt("lz4 frame ends inside its header", len(raw))
    # In magic 0 Kafka wrote a wrong checksum and other writers the right one: not checked.
    if magic > 0 and p[at] != (coterie_xxh32(p + 4, at - 4, 0) >> 8 & 0xFF):
        raise corrupt("lz4 header checksum is wrong", at)
    return at + 1


cdef bytes unlz4(bytes raw, int magic, Py_ssize_t max_size):
    cdef const uint8_t* p = raw
    cdef int flags
    cdef Py_ssize_t block_max, size, left = max_size
    cdef Py_ssize_t at = read_lz4_header(raw, magic, &flags, &block_max)
    cdef uint32_t word
    cdef list parts = []
    while True:
        if len(raw) - at < 4:
            raise corrupt("lz4 frame ends before its end mark", len(raw))
        word = le32(p + at)
        size = word & 0x7FFFFFFF
        at += 4
        if size == 0:
            # Like Kafka, skips the content checksum unchecked, and ignores what follows it.
            if flags & 0x04 and len(raw) - at < 4:
                raise corrupt("lz4 frame ends before its content checksum", len(raw))
            return b"".join(parts)
        if size > block_max or size > len(raw) - at:
            raise corrupt(f"lz4 block of {size} bytes; {len(raw) - at} are left, "
                          f"{block_max} allowed", at - 4)
        block = raw[at:at + size]
        if not word & <uint32_t> LZ4_STORED:
            block = unlz4_block(block, block_max)
        at += size
        if flags & 0x10:
            if len(raw) - at < 4 or le32(p + at) != coterie_xxh32(p + at - size, size, 0):
                raise corrupt("lz4 block checksum is wrong", at)
            at += 4
        parts.append(block)
        left -= len(block)
        if left < 0:
            raise corrupt(f"more than {max_size} bytes after decompression", at)


cdef bytes unlz4_block(bytes block, Py_ssize_t block_max):
    # Each byte of a length adds at most 255, so the output cannot be longer.
    cdef Py_ssize_t bound = min(block_max, 255 * len(block))
    cdef bytearray out = PyByteArray_FromStringAndSize(NULL, bound)
    size = cramjam.lz4.decompress_block_into(block, out, output_len=bound)
    return bytes(memoryview(out)[:size])


cdef bytes lz4(bytes raw, int magic):
    # Version 1, independent blocks, no sums; blocks of 64 KiB.
    cdef bytes header = b"\x04\x22\x4d\x18\x60\x40"
    cdef const uint8_t* p = header
    # In magic 0 the checksum wrongly includes the magic number; old readers expect that.
    cdef uint32_t sum = coterie_xxh32(p, 6, 0) if magic == 0 else coterie_xxh32(p + 4, 2, 0)
    cdef list parts = [header, bytes([sum >> 8 & 0xFF])]
    cdef Py_ssize_t at
    for at in range(0, len(raw), LZ4_BLOCK):
        plain = raw[at:at + LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(plain) | <uint32_t> LZ4_STORED).to_bytes(4, "little"), plain)
    parts.append(b"\x00\x00\x00\x00")
    return b"".join(parts)


# zstd

cdef Py_ssize_t zstd_frame_header(bytes raw, Py_ssize_t at, uint64_t* content) except -1:
    """Skip a frame's header; ``content`` gets the size that it claims, or the greatest number."""
    cdef const uint8_t* p = raw
    cdef uint8_t descriptor
    cdef int field, i
    if len(raw) - at < 5:
        raise corrupt("zstd stream ends inside a frame header", len(raw))
    descriptor = p[at + 4]
    at += 5 + (0 if descriptor & 0x20 else 1) + (0, 1, 2, 4)[descriptor & 3]
    field = (1 if descriptor & 0x20 else 0, 2, 4, 8)[descriptor >> 6]
    if len(raw) - at < field:
        raise corrupt("zstd stream ends inside a frame header", len(raw))
    content[0] = <uint64_t> -1
    if field:
        content[0] = 256 if field == 2 else 0
        for i in range(field):
            content[0] += <uint64_t> p[at + i] << 8 * i
    return at + field


cdef int64_t zstd_bound(bytes raw) except -1:
    """Return an upper bound of the output's size, from the headers of the blocks alone."""
    cdef const uint8_t* p = raw
    cdef Py_ssize_t at = 0, frame, size
    cdef int64_t total = 0, blocks
    cdef uint32_t word
    cdef uint64_t content
    while at < len(raw):
        if len(raw) - at < 8:
            raise corrupt("zstd stream ends inside a frame header", len(raw))
        if le32(p + at) & <uint32_t> 0xFFFFFFF0 == <uint32_t> ZSTD_SKIPPABLE:
            at += 8 + <Py_ssize_t> le32(p + at + 4)
            continue
        if le32(p + at) != <uint32_t> ZSTD_MAGIC:
            raise corrupt("no zstd frame: its magic number is missing", at)
        frame = at
        at = zstd_frame_header(raw, at, &content)
        blocks = 0
        word = 0
        while not word & 1:
            if len(raw) - at < 3:
                raise corrupt("zstd stream ends before its last block", len(raw))
            word = p[at] | <uint32_t> p[at + 1] << 8 | <uint32_t> p[at + 2] << 16
            size = word >> 3
            # Raw and run-length blocks have their size; a compressed one is at most 128 KiB.
            blocks += ZSTD_BLOCK_MAX if word & 6 == 4 else size
            at += 3 + (1 if word & 6 == 2 else size)
        total += blocks if <uint64_t> blocks < content else <int64_t> content
        if p[frame + 4] & 0x04:
            at += 4
    if at > len(raw):
        raise corrupt("zstd stream ends before its end", len(raw))
    return total


cdef bytes unzstd(bytes raw, Py_ssize_t max_size):
    cdef int64_t bound = zstd_bound(raw)
    if bound == 0:
        return b""
    # One byte more than the limit, to tell "full" from "too much". Pages that the output does
    # not reach are never touched.
    cdef bytearray out = PyByteArray_FromStringAndSize(NULL, min(bound, max_size + 1))
    try:
        size = cramjam.zstd.decompress_into(raw, out)
    except cramjam.DecompressionError as error:
        if len(out) <= max_size or "whole buffer" not in str(error):
            raise
        size = len(out)
    if size > max_size:
        raise CorruptData(f"more than {max_size} bytes after decompression", kind="records")
    return bytes(memoryview(out)[:size])
