"""Hypothesis strategies for the messages of the log, drawn from the table of messages."""

import base64

from hypothesis import strategies as st

from coterie.base.schemas import OFFSETS_TOPIC, SECTIONS

RECORDS = {  # key version -> name, section
    key: (name, section)
    for name, section in SECTIONS.items()
    if "value" in section.parts and section.topic == OFFSETS_TOPIC
    for key in range(section.keys[0], section.keys[1] + 1)
}
INTS = {"int8": (8, True), "int16": (16, True), "uint16": (16, False), "int32": (32, True)}
INTS["int64"] = (64, True)
TEXT = st.text(max_size=12)
UUID = st.binary(min_size=16, max_size=16).map(
    lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("=")
)
TAGS = st.dictionaries(st.integers(10, 2**31), st.binary(max_size=9), min_size=1, max_size=3)


def value_of(kind, below, version, flexible):
    if kind.startswith("[]"):
        return st.lists(value_of(kind[2:], below, version, flexible), max_size=3)
    if kind == "struct":
        return struct_of(below, version, flexible)
    if kind == "string":
        return TEXT
    if kind == "bytes":
        return st.binary(max_size=12)
    if kind == "uuid":
        return UUID
    bits, signed = INTS[kind]
    low = -(1 << (bits - 1)) if signed else 0
    return st.integers(low, low + (1 << bits) - 1)


def default_of(kind, text):
    """What a reader takes for a tagged field that is not there."""
    if kind.startswith("[]"):
        return []
    return "A" * 22 if kind == "uuid" else int(text or 0)


@st.composite
def struct_of(draw, fields, version, flexible):
    struct = {}
    for name, kind, first, last, null_first, null_last, tag, default, below in fields:
        if not first <= version <= last:
            continue
        value = value_of(kind, below, version, flexible)
        value = draw(st.none() | value if null_first <= version <= null_last else value)
        if tag < 0 or kind == "struct" or value != default_of(kind, default):
            struct[name] = value
    if flexible and draw(st.booleans()):
        struct["_unknown_tags"] = sorted(draw(TAGS).items())
    return struct


@st.composite
def keys(draw, version=None):
    version = draw(st.sampled_from(sorted(RECORDS))) if version is None else version
    name, section = RECORDS[version]
    data = draw(struct_of(section.fields("key"), version, False))
    return {"version": version, "type": name, "data": data}


@st.composite
def values(draw, key_version, version=None):
    _, section = RECORDS[key_version]
    version = draw(st.integers(0, section.last)) if version is None else version
    fields = section.fields("value")
    return {
        "version": version,
        "data": draw(struct_of(fields, version, version >= section.flexible)),
    }


@st.composite
def protocols(draw, name):
    version = draw(st.integers(0, 3))
    fields = SECTIONS[f"consumer_protocol_{name}"].fields("message")
    return {"version": version, "data": draw(struct_of(fields, version, False))}


def subscriptions():
    return protocols("subscription")


def assignments():
    return protocols("assignment")


VALUE_VERSIONS = [
    (key, v) for key, (_, section) in RECORDS.items() for v in range(section.last + 1)
]
