"""Hypothesis strategies for the messages of the log, drawn from the tables of fields."""

import base64

from coterie._core.codec.fields import ASSIGNMENT, RECORDS, SUBSCRIPTION
from hypothesis import strategies as st

INTS = {"int8": (8, True), "int16": (16, True), "uint16": (16, False), "int32": (32, True)}
INTS["int64"] = (64, True)
TEXT = st.text(max_size=12)
UUID = st.binary(min_size=16, max_size=16).map(
    lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("=")
)
TAGS = st.dictionaries(st.integers(10, 2**31), st.binary(max_size=9), min_size=1, max_size=3)


def value_of(kind, version, flexible):
    if isinstance(kind, list):
        return st.lists(value_of(kind[0], version, flexible), max_size=3)
    if isinstance(kind, tuple):
        return struct_of(kind, version, flexible)
    if kind == "string":
        return TEXT
    if kind == "bytes":
        return st.binary(max_size=12)
    if kind == "uuid":
        return UUID
    bits, signed = INTS[kind]
    low = -(1 << (bits - 1)) if signed else 0
    return st.integers(low, low + (1 << bits) - 1)


@st.composite
def struct_of(draw, table, version, flexible):
    found = {}
    for name, kind, *rest in table:
        options = rest[0] if rest and isinstance(rest[0], dict) else {}
        bounds = [] if options else rest
        if bounds and not bounds[0] <= version <= (bounds[1] if len(bounds) > 1 else version):
            continue
        value = draw(
            st.none() | value_of(kind, version, flexible)
            if name.endswith("?")
            else value_of(kind, version, flexible)
        )
        if not options or options.get("always") or value != options["default"]:
            found[name.rstrip("?")] = value
    if flexible and draw(st.booleans()):
        found["tagged_fields"] = draw(TAGS)
    return found


@st.composite
def keys(draw, version=None):
    version = draw(st.sampled_from(sorted(RECORDS))) if version is None else version
    kind, table, *_ = RECORDS[version]
    return {"version": version, "type": kind, "data": draw(struct_of(table, version, False))}


@st.composite
def values(draw, key_version, version=None):
    _, _, table, last, flexible = RECORDS[key_version]
    version = draw(st.integers(0, last)) if version is None else version
    return {"version": version, "data": draw(struct_of(table, version, version >= flexible))}


@st.composite
def protocols(draw, table):
    version = draw(st.integers(0, 3))
    return {"version": version, "data": draw(struct_of(table, version, False))}


def subscriptions():
    return protocols(SUBSCRIPTION)


def assignments():
    return protocols(ASSIGNMENT)


VALUE_VERSIONS = [(key, v) for key, record in RECORDS.items() for v in range(record[3] + 1)]
