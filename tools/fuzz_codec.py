"""The codec's part of ``fuzz.py``: damaged keys, values, members' bytes and compressed streams.

Each must be decoded or raise CorruptData, and decoded data must encode and decode to itself. Keys
and values come from the golden logs; each codec makes the streams.
"""

from coterie import CoterieError
from coterie._core.codec.compress import compress, decompress
from coterie._core.codec.reader import LogReader
from coterie._core.codec.schema import (
    decode_assignment,
    decode_key,
    decode_subscription,
    decode_value,
    encode_key,
    encode_value,
)

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


def plain(data):
    """Remove the decoded copies of the members' bytes, which are never written."""
    for member in data.get("members", ()):
        member.pop("subscription_decoded", None)
        member.pop("assignment_decoded", None)
    return data


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
        data = plain(value["data"])
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
