"""Drawn batches and their bytes, which do not depend on the version of a compressor."""

import struct
import zlib
from dataclasses import dataclass

from coterie._core.codec.compression import crc32c
from coterie.messages import encode_batch, encode_marker, encode_message_set

HEADER_BYTES = 61  # of a batch of magic 2
LZ4_HEADERS = {0: b"\x04\x22\x4d\x18\x60\x40\x1a", 1: b"\x04\x22\x4d\x18\x60\x40\x82"}  # by magic


@dataclass
class Batch:
    """Records in block frame; ``records``: (offset, time in ms, key, value) each."""

    base_offset: int
    last_offset: int
    records: list
    magic: int = 2
    codec: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    transactional: bool = False
    commit: bool | None = None  # of a marker
    append_time_ms: int | None = None
    horizon_ms: int | None = None
    leader_epoch: int = 0

    def encoded(self):
        """Return its bytes."""
        if self.magic < 2:
            return self.message_set()
        if self.commit is not None and self.records:
            return encode_marker(
                self.commit,
                self.producer_id,
                self.producer_epoch,
                timestamp_ms=self.records[0][1],
                base_offset=self.base_offset,
                leader_epoch=self.leader_epoch,
            )
        data = encode_batch(
            self.records,
            self.base_offset,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transactional=self.transactional,
            control=self.commit is not None,
            append_time_ms=self.append_time_ms if self.records else None,
            delete_horizon_ms=self.horizon_ms if self.records else None,
            last_offset_delta=self.last_offset - self.base_offset,
            leader_epoch=self.leader_epoch,
        )
        return with_codec(data, self.codec) if self.codec and self.records else data

    def message_set(self):
        """Return entries of magic 0 or 1; compressed entries are in block wrapper."""
        plain = encode_message_set(
            self.records, self.magic, append_time_ms=None if self.codec else self.append_time_ms
        )
        if not self.codec:
            return plain
        first = self.records[0][0] if self.magic else 0
        inner = [(offset - first, *rest) for offset, *rest in self.records]
        frame = stored(encode_message_set(inner, self.magic), self.codec, self.magic)
        time_ms = max(record[1] for record in self.records)
        wrapper = (self.records[-1][0], time_ms, None, frame)
        data = bytearray(
            encode_message_set([wrapper], self.magic, append_time_ms=self.append_time_ms)
        )
        data[17] |= self.codec
        data[12:16] = struct.pack(">I", zlib.crc32(data[16:]))
        return bytes(data)


def with_codec(data, codec):
    """Return a batch of magic 2 with its records compressed."""
    head = bytearray(data[:HEADER_BYTES])
    records = stored(data[HEADER_BYTES:], codec)
    head[22] |= codec
    struct.pack_into(">i", head, 8, HEADER_BYTES - 12 + len(records))
    struct.pack_into(">I", head, 17, crc32c(bytes(head[21:]) + records))
    return bytes(head) + records


def stored(data, codec, magic=2):
    """Return a frame of a codec that stores the bytes uncompressed."""
    size = len(data)
    if codec == 1:  # gzip, of stored blocks
        blocks = [data[at : at + 0xFFFF] for at in range(0, size, 0xFFFF)] or [b""]
        body = b"".join(
            struct.pack("<BHH", block is blocks[-1], len(block), len(block) ^ 0xFFFF) + block
            for block in blocks
        )
        head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
        return head + body + struct.pack("<II", zlib.crc32(data), size)
    if codec == 2:  # snappy, block literal, in the frame of snappy-java
        left, length = size, bytearray()
        while left > 127:
            length.append(left & 127 | 128)
            left >>= 7
        block = bytes([*length, left]) + b"\xfc" + struct.pack("<I", size - 1) + data
        return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block
    if codec == 3:  # LZ4, of stored blocks
        blocks = [data[at : at + 0xFFFF] for at in range(0, size, 0xFFFF)]
        body = b"".join(struct.pack("<I", len(block) | 1 << 31) + block for block in blocks)
        return LZ4_HEADERS[min(magic, 1)] + body + bytes(4)
    parts = [data[at : at + 0xFFFF] for at in range(0, size, 0xFFFF)] or [b""]
    body = b"".join(
        (len(block) << 3 | (block is parts[-1])).to_bytes(3, "little") + block for block in parts
    )
    return struct.pack("<IBI", 0xFD2FB528, 0xA0, size) + body  # zstd, raw blocks
