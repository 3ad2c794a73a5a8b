"""The codec's part of ``fuzz.py``: damaged keys, values, members' bytes and compressed streams.

Each must be decoded or raise CorruptData, and decoded data must encode and decode to itself. Keys
and values come from the golden logs, and from the table of messages, with each tagged field; each
codec makes the streams.
"""

import struct
from operator import itemgetter

from coterie import CoterieError
from coterie._core.codec.batch import LogReader
from coterie._core.codec.compression import compress, decompress
from coterie._core.codec.schema import (
    decode_assignment,
    decode_key,
    decode_subscription,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.base.schemas import SECTIONS

STREAM_BYTES_MAX = 1 << 22
STREAMS = [
    (codec, magic) for codec in (1, 2, 3, 4) for magic in (0, 1, 2) if codec < 4 or magic > 1
]
PER_KIND_MAX = 400  # records of each key and value version; the logs repeat themselves


def real_records(segments):
    """Return (key, value) of the golden logs, some of each key and value version."""
    seen, pairs = {}, []
    for data in segments:
        for batch in LogReader(data, check_crc=False):
            for record in [] if batch.is_control else batch.records:
                kind = ((record.key or b"")[:2], (record.value or b"")[:2])
                seen[kind] = seen.get(kind, 0) + 1
                if seen[kind] <= PER_KIND_MAX and record.key:
                    pairs.append((record.key, record.value or b""))
    return pairs


def made_records():
    """Return (key, value) of each record of the table, with all fields of its last version."""
    pairs = [redpandas()]
    for section in SECTIONS.values():
        if "value" in section.parts:
            key = {"version": section.keys[1], "data": example(section.fields("key"))}
            value = {"version": section.last, "data": example(section.fields("value"))}
            value["data"] |= {"expireTimestamp": 1, "_unknown_tags": [(77, b"x"), (1 << 31, b"")]}
            pairs.append((encode_key(key), encode_value(section.keys[1], value)))
    return pairs


def example(fields):
    """Return a value for each field, not the default; lists have two elements."""

    def one(kind, below):
        if kind.startswith("[]"):
            return [one(kind[2:], below)] * 2
        texts = {"string": "text", "bytes": b"bytes", "uuid": "AAAAAAAAAAEAAAAAAAAAAQ"}
        return example(below) if kind == "struct" else texts.get(kind, 2)

    return {name: one(kind, below) for name, kind, *_, below in fields}


def redpandas():
    """Return a group's record as Redpanda writes it, with a version before the member."""
    text = struct.pack(">h4s", 4, b"text")
    value = struct.pack(">h", 3) + text + struct.pack(">i", 1) + text * 2
    value += struct.pack(">qih", 1, 1, 3) + text * 4 + struct.pack(">iiii", 1, 1, 0, 0)
    return struct.pack(">h", 2) + text, value


def plain(data):
    """Remove what is never written: the decoded copies of members' bytes, Redpanda's versions."""
    for member in data.get("members", ()):
        member.pop("version", None)
        member.pop("subscription_decoded", None)
        member.pop("assignment_decoded", None)
    return data


def by_tag(data):
    """Return the same with the unknown tagged fields of each struct in order of their tags."""
    if isinstance(data, list):
        return [by_tag(item) for item in data]
    if not isinstance(data, dict):
        return data
    return {
        name: sorted(item, key=itemgetter(0)) if name == "_unknown_tags" else by_tag(item)
        for name, item in data.items()
    }


def check_key(raw):
    """Decode a key, then its encoding."""
    key = decode_key(raw)
    if "data" in key:
        again = encode_key({"version": key["version"], "data": key["data"]})
        assert decode_key(again)["data"] == key["data"]


def check_value(version, raw):
    """Decode a value, then its encoding."""
    value = decode_value(version, raw)
    if "data" in value:
        data = by_tag(plain(value["data"]))
        again = encode_value(version, {"version": value["version"], "data": data})
        assert plain(decode_value(version, again)["data"]) == data


def one_input(rng, real, damage):
    """Damage one input of the codec and read it; raises if the codec is wrong."""
    key, value = rng.choice(real)
    version = int.from_bytes(key[:2], "big", signed=True)
    choice = rng.randrange(4)
    try:
        if choice == 0:
            check_key(damaged(rng, key, damage))
        elif choice == 1:
            check_value(
                rng.choice([version, version, rng.randrange(-1, 25)]), damaged(rng, value, damage)
            )
        elif choice == 2:
            raw = damaged(rng, value[-rng.randint(1, 300) :], damage)
            decode_subscription(raw)
            decode_assignment(raw)
        else:
            codec, magic = rng.choice(STREAMS)
            stream = compress(codec, value * rng.choice([1, 3, 900]), magic)
            decompress(codec, damaged(rng, stream, damage), magic, max_size=STREAM_BYTES_MAX)
    except CoterieError:  # also if a text has become too long by U+FFFD
        return


def damaged(rng, data, damage):
    """Return the bytes with damage."""
    return bytes(damage(rng, bytearray(data)))
