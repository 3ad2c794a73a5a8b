"""A log with unknown versions: keys -2 to 40, values -1 to 10."""

import struct

from coterie.messages import encode_key, encode_value
from support import log_writer
from support.log_writer import text
from support.messages import RECORDS

KEY_VERSIONS = range(-2, 41)
VALUE_VERSIONS = range(-1, 11)


def example(fields):
    """Example data for fields of the table of messages."""
    return {name: example_of(kind, below) for name, kind, *_, below in fields}


def example_of(kind, below):
    if kind.startswith("[]"):
        return [example_of(kind[2:], below)]
    if kind == "struct":
        return example(below)
    return {"string": "t", "bytes": b"", "uuid": "AAAAAAAAAAAAAAAAAAAAAQ"}.get(kind, 1)


def key_of(version):
    if version not in RECORDS:
        return struct.pack(">h", version) + text(b"g")
    return encode_key({"version": version, "data": example(RECORDS[version][1].fields("key"))})


def value_of(key_version, version):
    """A valid value of these versions, or of the last known layout if a version is unknown."""
    _, section = RECORDS.get(key_version, RECORDS[0])
    data = {"version": min(max(version, 0), section.last), "data": example(section.fields("value"))}
    whole = encode_value(key_version if key_version in RECORDS else 0, data)
    return struct.pack(">h", version) + whole[2:]


PLACES = [(key, value) for key in KEY_VERSIONS for value in VALUE_VERSIONS]
UNKNOWN_KEYS = [key for key in KEY_VERSIONS if key not in RECORDS]
FAULTS = [
    offset
    for offset, (key, value) in enumerate(PLACES)
    if key in RECORDS and not 0 <= value <= RECORDS[key][1].last
]


def write_log(folder):
    """Write a record for each pair of versions, in the order of ``PLACES``, then keys alone."""
    partition = folder / "__consumer_offsets-0"
    partition.mkdir()
    pairs = [(1000, key_of(key), value_of(key, value)) for key, value in PLACES]
    pairs += [(1000, struct.pack(">h", key), None) for key in UNKNOWN_KEYS]
    (partition / f"{0:020}.log").write_bytes(log_writer.batch(0, pairs))
    return folder
