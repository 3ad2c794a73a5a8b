"""Rows, the codec's form without dicts, beside dicts, which are held to Kafka's own frames."""

import random

import pytest

from coterie import wire
from coterie.errors import ArgumentError
from support.golden_data import SHARED
from support.wire.frames import by_api, tables
from support.wire.random_frames import cases, damaged

THERE = (SHARED / "golden/wire/schemas.json").exists()
APIS = sorted(tables()["4.1.1"]["apis"]) if THERE else ["none"]


def read(key, version, direction, frame, **how):
    if direction == "request":
        return wire.decode_request(frame, **how)
    return wire.decode_response(key, version, frame, **how)


def written(key, version, direction, body):
    if direction == "request":
        return wire.encode_request(key, version, body)
    return wire.encode_response(key, version, body)


def row_of(filled, sent):
    """A filled dict as a row; ``sent`` has the fields that came, of a struct that did."""
    return tuple([element(value, sent.get(name)) for name, value in filled.items()])


def element(value, sent):
    if isinstance(value, dict):
        return None if sent is None else row_of(value, sent)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [row_of(one, other) for one, other in zip(value, sent, strict=True)]
    return value


def frames_of(api):
    for row in by_api()[api]:
        yield row["key"], row["version"], row["direction"], row["frame"]
    for key, version, direction, _, _, frame in cases(api):
        yield key, version, direction, frame


@pytest.mark.parametrize(("byte", "value"), [(0, False), (1, True), (2, True), (255, True)])
def test_a_boolean_is_true_if_its_byte_is_not_zero(byte, value):
    """Source: ApiMessageType's readers, ``_readable.readByte() != 0``."""
    frame = bytearray(wire.encode_request(9, 7, {"groupId": "g", "topics": None}))
    assert frame[-2:] == b"\0\0"  # requireStable, and no tagged fields
    frame[-2] = byte
    assert wire.decode_request(bytes(frame)).body["requireStable"] is value
    assert wire.decode_request(bytes(frame), rows=True).body[-1] is value


@pytest.mark.parametrize("api", APIS)
def test_a_row_says_what_the_dict_says(api):
    for *message, frame in frames_of(api):
        found = read(*message, frame, rows=True)
        filled, sent = read(*message, frame, fill=True), read(*message, frame)
        assert found.body == row_of(filled.body, sent.body)
        assert found.left_over == filled.left_over
        assert found.correlation_id == filled.correlation_id


@pytest.mark.parametrize("api", APIS)
def test_a_row_is_written_as_the_dict_is(api):
    for *message, frame in frames_of(api):
        row = read(*message, frame, rows=True).body
        assert written(*message, row) == written(*message, read(*message, frame).body)


@pytest.mark.parametrize("api", APIS)
def test_what_is_refused_as_a_dict_is_refused_as_a_row(api):
    rng = random.Random(api)
    refused = 0
    for *message, frame in frames_of(api):
        data = damaged(rng, frame)
        told = refusal(*message, data)
        assert refusal(*message, data, rows=True) == told
        if told:
            refused += 1
            continue
        filled, sent = read(*message, data, fill=True).body, read(*message, data).body
        assert read(*message, data, rows=True).body == row_of(filled, sent)
    assert refused


def refusal(*message, **how):
    """Where and why a frame is refused; None where it is read."""
    try:
        read(*message, **how)
    except wire.WireError as error:
        return error.stage, str(error)
    return None


@pytest.mark.parametrize("row", [(), (0,), (0, 0, 0), (0, "x"), (None, 0), (0, None)])
def test_a_row_that_does_not_fit_is_refused(row):
    with pytest.raises(ArgumentError):
        wire.encode_response(12, 1, row)
