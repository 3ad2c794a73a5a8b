"""Hostile frames: they are refused or read, and cost little."""

import contextlib
import random
import tracemalloc

import pytest

from coterie import wire
from support.golden_data import SHARED
from support.wire.frames import DIRECTIONS, by_api, messages, model, play, tables
from support.wire.random_frames import damaged

THERE = (SHARED / "golden/wire/schemas.json").exists()
APIS = sorted(tables()["4.1.1"]["apis"]) if THERE else ["none"]
# A list of the smallest structs makes a dict of three or four bytes; that is the worst there is.
MOST_BYTES = 150  # of memory for a byte of a frame


def layouts():
    for api in wire.APIS.values():
        for version in range(api.first_version, api.last_version + 1):
            for direction in DIRECTIONS:
                yield f"{api.name} {version}", wire.CODEC.layout(api.key, version, direction)


def structs(layout):
    for name in layout.names:
        below = layout.below(name)
        if below is not None:
            yield name, below
            yield from structs(below)


def test_no_struct_takes_no_bytes_in_any_version():
    """Else a list of a million of them would be four bytes on the wire."""
    found = [(where, name) for where, top in layouts() for name, s in structs(top)
             if s.least_bytes < 1]  # fmt: skip
    assert not found


@pytest.mark.parametrize("api", APIS)
def test_a_changed_frame_is_refused_or_read_and_what_was_read_can_be_written(api):
    rng = random.Random(api)
    read = 0
    for row in by_api()[api]:
        for _ in range(40):
            frame = damaged(rng, row["frame"])
            try:
                if row["direction"] == "request":
                    found = wire.decode_request(frame, fill=True, tags=True)
                    wire.encode_request(found.api_key, found.api_version, found.body)
                else:
                    found = wire.decode_response(row["key"], row["version"], frame, fill=True)
                    wire.encode_response(row["key"], row["version"], found.body)
                read += 1
            except wire.WireError:
                continue
    assert read


def cost_of(frame):
    """Peak of memory while a frame is read and stored."""
    with contextlib.suppress(wire.WireError):
        wire.decode_request(frame, fill=True)  # its layout is made
    tracemalloc.start()
    try:
        kept = wire.decode_request(frame, fill=True)
    except wire.WireError:
        kept = None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del kept
    return peak


def metadata_12(rest):
    return b"\0\3\0\x0c\0\0\0\1\0\0\0" + rest


@pytest.mark.parametrize(
    "rest",
    [
        b"\xff\xff\xff\xff\x07",  # a list of 2 billion
        b"\x80\x80\x80\x80\x08",
        b"\xc1\x84\x3d" + b"\0" * 17 + b"\2t\0",  # a million, and then one
        b"\0\0\0\0" + b"\xff\xff\xff\xff\x07",  # as many tags
        b"\0\0\0\0\1\5" + b"\xff\xff\xff\xff\x07",  # a tag of 2 GB
    ],
)
def test_a_count_that_lies_reserves_nothing(rest):
    assert cost_of(metadata_12(rest)) < 4096


def lists_in(fields, version, path=()):
    """Paths of the lists of structs in a request."""
    for field in fields:
        if field.base == "struct" and play().within(field.versions, version):
            if field.array:
                yield (*path, field.name)
            yield from lists_in(field.sub, version, (*path, (field.name, field.array)))


def body_with(path, count):
    """A body with so many of the least elements in one list, and nothing else."""
    *above, name = path
    body = {name: [{}] * count}
    for outer, many in reversed(above):
        body = {outer: [body] if many else body}
    return body


def test_no_list_in_a_request_costs_more_than_a_small_multiple_of_its_bytes():
    dear = {}
    for release, api, key, version, direction, fields in messages():
        if direction == "request" and version in (0, model(release).versions(api)[-1]):
            for path in lists_in(fields, version):
                frame = wire.encode_request(key, version, body_with(path, 3000))
                dear[api, version, path] = cost_of(frame) / len(frame)
    assert len(dear) > 50
    assert max(dear.values()) < MOST_BYTES, max(dear, key=dear.get)


@pytest.mark.parametrize("size", range(10))
def test_a_frame_too_short_for_a_header_is_refused(size):
    with pytest.raises(wire.WireError) as caught:
        wire.decode_request(b"\0\x0c\0\4\0\0\0\1\0\0\0"[:size])
    assert caught.value.stage == "header"
    assert caught.value.request is None


def test_an_error_says_what_its_header_said():
    with pytest.raises(wire.WireError, match="ApiVersions has versions 0 to 5, not 99") as caught:
        wire.decode_request(b"\0\x12\0\x63\0\0\0\7\0\1c\0")
    request = caught.value.request
    assert (request.api_key, request.api_version, request.correlation_id) == (18, 99, 7)
    assert (request.client_id, request.body) == ("c", None)
    with pytest.raises(wire.WireError, match=r"Heartbeat 4: generationId: .* at byte 13") as caught:
        wire.decode_request(b"\0\x0c\0\4\0\0\0\7\0\1c\0\1")
    assert caught.value.request.correlation_id == 7
