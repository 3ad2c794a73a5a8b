"""Records of consumer groups and of offsets as bytes, written out by hand."""

from __future__ import annotations

import struct

from .image import id_order

(OFFSET, CLASSIC, EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX) = (
    1, 2, 3, 4, 5, 6, 7, 8, 16,
)  # fmt: skip


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def short(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return struct.pack(">h", len(raw)) + raw


def compact(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    raw = text.encode("utf-8", "surrogatepass")
    return varint(len(raw) + 1) + raw


def array(items: list[bytes]) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


def key(kind: int, *fields: str | int) -> bytes:
    out = struct.pack(">h", kind)
    for each in fields:
        out += struct.pack(">i", each) if isinstance(each, int) else short(each)
    return out


def topic_partitions(assignment, *, with_epochs=False) -> bytes:
    return array([
        topic_id + numbers(sorted(assignment[topic_id]))
        + (tagged(numbers(epoch for _, epoch in sorted(assignment[topic_id].items())))
           if with_epochs else b"\0")
        for topic_id in sorted(assignment, key=id_order)
    ])  # fmt: skip


def numbers(values) -> bytes:
    return array([struct.pack(">i", value) for value in values])


def tagged(data: bytes) -> bytes:
    """The tagged fields of a structure that has the first one alone."""
    return b"\1\0" + varint(len(data)) + data


def member_value(member) -> bytes:
    out = b"\0\0" + compact(member.instance_id) + compact(member.rack_id)
    out += compact(member.client_id) + compact(member.client_host)
    out += array([compact(name) for name in sorted(member.names, key=utf16)])
    out += compact(member.regex) + struct.pack(">i", member.rebalance_timeout_ms)
    out += compact(member.assignor)
    if member.classic is None:
        return out + b"\x01\x00\x01\x00"
    body = struct.pack(">i", member.classic.session_timeout_ms)
    body += array([
        compact(name) + varint(len(data) + 1) + data + b"\0"
        for name, data in member.classic.protocols
    ])  # fmt: skip
    return out + tagged(b"\x01" + body + b"\0")


def utf16(text: str) -> bytes:
    """A sort key: the order of UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def epoch_value(epoch: int, metadata_hash: int) -> bytes:
    out = b"\0\0" + struct.pack(">i", epoch)
    if metadata_hash == 0:
        return out + b"\0"
    return out + tagged(struct.pack(">q", metadata_hash))


def target_epoch_value(epoch: int, at_ms: int) -> bytes:
    out = b"\0\0" + struct.pack(">i", epoch)
    return out + (tagged(struct.pack(">q", at_ms)) if at_ms else b"\0")


def target_value(assignment) -> bytes:
    return b"\0\0" + topic_partitions(assignment) + b"\0"


def current_value(member, *, with_epochs) -> bytes:
    out = b"\0\0" + struct.pack(">iib", member.epoch, member.previous_epoch, member.state)
    for part in (member.assigned, member.revoking):
        out += topic_partitions(part, with_epochs=with_epochs)
    return out + b"\0"


def regex_value(resolved) -> bytes:
    out = b"\0\0" + array([compact(name) for name in sorted(resolved.topics, key=utf16)])
    return out + struct.pack(">qq", resolved.version, resolved.at_ms) + b"\0"


def offset_value(offset) -> bytes:
    if offset.expires_ms != -1:
        return (struct.pack(">hq", 1, offset.offset) + short(offset.metadata)
                + struct.pack(">qq", offset.committed_ms, offset.expires_ms))  # fmt: skip
    return (struct.pack(">hqi", 4, offset.offset, offset.leader_epoch) + compact(offset.metadata)
            + struct.pack(">q", offset.committed_ms)
            + (tagged(offset.topic_id) if offset.topic_id else b"\0"))  # fmt: skip
