"""Arguments of the encoder: a value that does not fit is named, in one line."""

import struct

import numpy as np
import pytest

from coterie import wire
from coterie._core.codec.layout import layout_of
from coterie._core.wire.codec import Codec
from coterie.base.schemas import fields_of
from coterie.errors import ArgumentError
from coterie.values import Error

HEARTBEAT = {"groupId": "g", "generationId": 5, "memberId": "m"}
CASES = [
    (12, {**HEARTBEAT, "groupId": 5}, "groupId must be a string, not 5"),
    (12, {**HEARTBEAT, "groupId": None}, "groupId may not be None in this version"),
    (12, {**HEARTBEAT, "groupId": "\ud800"}, "groupId must be text that UTF-8 can hold"),
    (12, {**HEARTBEAT, "groupId": "x" * 40000}, "groupId may have 32767 bytes, not 40000"),
    (12, {**HEARTBEAT, "generationId": "5"}, "generationId must be an integer, not '5'"),
    (12, {**HEARTBEAT, "generationId": 5.0}, "generationId must be an integer, not 5.0"),
    (12, {**HEARTBEAT, "generationId": 1 << 31}, "generationId must fit 32 bits, not 2147483648"),
    (12, {**HEARTBEAT, "generationId": 1 << 80}, "generationId must fit 64 bits"),
    (12, {**HEARTBEAT, "_unknown_tags": [5]}, "_unknown_tags must be pairs of a tag and bytes"),
    (12, {**HEARTBEAT, "_unknown_tags": [(5, b"x", 1)]}, "_unknown_tags must be pairs"),
    (12, {**HEARTBEAT, "_unknown_tags": [(5,)]}, "_unknown_tags must be pairs"),
    (12, [], "body must be a dict, not"),
    (12, None, "body must be a dict, not None"),
    (3, {"topics": "t"}, "topics must be a list, not 't'"),
    (3, {"topics": 5}, "topics must be a list, not 5"),
    (3, {"topics": ["t"]}, "topics must be a dict, not 't'"),
    (3, {"topics": [{"topicId": "x"}]}, "topicId must be a uuid in Kafka's form (base64), not 'x'"),
    (3, {"topics": [{"topicId": b"x" * 16}]}, "topicId must be a uuid in Kafka's form (base64)"),
    (11, {"protocols": [{"metadata": "x"}]}, "metadata must be bytes, not 'x'"),
    (42, {"groupsNames": [None]}, "groupsNames must be a string, not None"),
]


@pytest.mark.parametrize(("key", "body", "message"), CASES)
def test_a_value_that_does_not_fit_is_named(key, body, message):
    with pytest.raises(ArgumentError) as caught:
        wire.encode_request(key, wire.APIS[key].last_version, body)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((999, 0, {}), "api_key 999 is of no API in the table"),
        ((12, 5, {}), "Heartbeat has versions 0 to 4, not 5"),
        ((12, -1, {}), "Heartbeat has versions 0 to 4, not -1"),
        (("12", 0, {}), "api_key must be an integer"),
        ((12, None, {}), "api_version must be an integer"),
        ((1 << 70, 0, {}), "api_key must be from -32768 to 32767"),
    ],
)
def test_a_message_that_does_not_exist_is_told(arguments, message):
    for encode in (wire.encode_request, wire.encode_response):
        with pytest.raises(ArgumentError, match=message):
            encode(*arguments)


def test_bytes_may_be_of_any_kind_and_numbers_may_be_errors():
    want = wire.encode_request(36, 0, {"authBytes": b"abc"})
    for kind in (bytearray, memoryview):
        assert wire.encode_request(36, 0, {"authBytes": kind(b"abc")}) == want
    coded = wire.encode_response(12, 0, {"errorCode": Error.ILLEGAL_GENERATION})
    assert coded == wire.encode_response(12, 0, {"errorCode": 22})
    assert wire.encode_response(12, 0, {"errorCode": 22}, correlation_id=7) == b"\0\0\0\7\0\x16"


def test_a_frame_may_be_of_any_kind():
    frame = wire.encode_request(12, 4, HEARTBEAT, correlation_id=3)
    for kind in (bytearray, memoryview):
        assert wire.decode_request(kind(frame)).body == wire.decode_request(frame).body
    with pytest.raises(ArgumentError, match="frame must be bytes"):
        wire.decode_request("text")


def test_a_text_may_have_the_bytes_that_an_int16_can_count():
    longest = "é" * 16_383 + "x"
    for version in (0, 4):
        frame = wire.encode_request(12, version, {**HEARTBEAT, "groupId": longest})
        assert wire.decode_request(frame).body["groupId"] == longest
        with pytest.raises(ArgumentError, match="groupId may have 32767 bytes, not 32768"):
            wire.encode_request(12, version, {**HEARTBEAT, "groupId": longest + "x"})


def test_of_a_tag_that_comes_twice_the_last_one_counts():
    """As Kafka's readers take it, which set the field each time."""
    plain = wire.encode_response(18, 3, {})  # ApiVersions; tag 1: finalizedFeaturesEpoch
    assert plain.endswith(b"\0")
    five, default = (struct.pack(">BBq", 1, 8, epoch) for epoch in (5, -1))
    for tags, epoch in ((five + default, -1), (default + five, 5)):
        frame = plain[:-1] + b"\2" + tags
        found = wire.decode_response(18, 3, frame).body
        assert found.get("finalizedFeaturesEpoch", -1) == epoch
        assert ("finalizedFeaturesEpoch" in found) == (epoch != -1)
        filled = wire.decode_response(18, 3, frame, fill=True).body
        assert filled["finalizedFeaturesEpoch"] == epoch
        row = wire.decode_response(18, 3, frame, rows=True).body
        assert wire.encode_response(18, 3, row) == wire.encode_response(18, 3, found)


def test_tags_are_written_by_their_numbers_whoever_gives_them():
    body = {"finalizedFeaturesEpoch": 5, "_unknown_tags": [(9, b"z"), (4, b"")]}
    coded = wire.encode_response(18, 3, body)
    assert coded.endswith(b"\3\1\x08" + struct.pack(">q", 5) + b"\4\0\x09\1z")


def test_a_list_that_grows_while_it_is_written_is_told():
    class Grows:
        def __index__(self):
            rows.append({"partitionIndex": 1})
            return 1

    rows = [{"partitionIndex": Grows()}]
    with pytest.raises(ArgumentError, match="partitions changed while it was written"):
        wire.encode_request(8, 2, {"topics": [{"name": "t", "partitions": rows}]})
    assert len(rows) == 2


class Removing:
    """A number that takes what it stands in out of that."""

    def __init__(self, outer, name):
        self.outer, self.name = outer, name

    def __index__(self):
        self.outer.pop(self.name, None)
        return 5


def test_a_struct_that_goes_while_it_is_written_is_written_whole():
    partition = {"partitionIndex": 0}
    partition["divergingEpoch"] = {"epoch": Removing(partition, "divergingEpoch"), "endOffset": 7}
    body = {"responses": [{"topic": "t", "partitions": [partition]}]}
    coded = wire.encode_response(1, 12, body)
    (topic,) = wire.decode_response(1, 12, coded).body["responses"]
    assert topic["partitions"][0]["divergingEpoch"] == {"epoch": 5, "endOffset": 7}


def test_a_frame_has_the_correlation_id_0_unless_another_is_given():
    for given, id_ in (({}, 0), ({"correlation_id": 7}, 7)):
        assert wire.encode_request(12, 0, HEARTBEAT, **given)[4:8] == id_.to_bytes(4, "big")
        assert wire.encode_response(12, 0, {}, **given)[:4] == id_.to_bytes(4, "big")


@pytest.mark.parametrize("option", ["fill", "tags", "rows"])
@pytest.mark.parametrize("value", [1, 0, "x", "", None])
def test_options_of_the_decoder_are_whatever_has_a_truth(option, value):
    frame = wire.encode_request(12, 4, {**HEARTBEAT, "_unknown_tags": [(7, b"x")]})
    bodies = {truth: wire.decode_request(frame, **{option: truth}).body for truth in (True, False)}
    if option != "fill":  # of this message, no version lacks a field that another has
        assert bodies[True] != bodies[False]
    assert wire.decode_request(frame, **{option: value}).body == bodies[bool(value)]
    with pytest.raises(ArgumentError, match=f"{option} must be true or false"):
        wire.decode_request(frame, **{option: np.arange(2)})  # has no truth


def test_a_table_may_begin_at_any_version_and_makes_each_layout_once():
    made = []

    def make(api, version, direction):
        made.append((version, direction))
        return layout_of((), version, version >= api.flexible_version)

    api = wire.Api(7, "Own", 2, 5, 4)
    codec = Codec([api], make)
    every = [(version, way) for version in (5, 2, 4, 3) for way in ("request", "response")]
    layouts = {each: codec.layout(7, *each) for each in every}
    assert made == every
    assert len({id(layout) for layout in layouts.values()}) == len(every)
    assert all(codec.layout(7, *each) is layout for each, layout in layouts.items())
    assert made == every
    for version in (1, 6):
        with pytest.raises(ArgumentError, match=f"Own has versions 2 to 5, not {version}"):
            codec.layout(7, version, "request")
        with pytest.raises(wire.WireError, match=f"Own has versions 2 to 5, not {version}"):
            codec.decode_request(struct.pack(">hhih", 7, version, 0, -1) + b"\0")


def test_every_key_is_found_whatever_its_number():
    """Those of a small number are found in a list, the others in a dict."""
    keys = [*range(200), 32767, -1, -32768]
    apis = [wire.Api(key, f"Api {key}", 0, 0, 9) for key in keys]
    codec = Codec(apis, lambda api, version, direction: layout_of((), version, False))
    for key in keys:
        with pytest.raises(ArgumentError, match=f"^Api {key} has versions 0 to 0, not 1$"):
            codec.layout(key, 1, "request")
    for key in (200, 32766, -2):
        with pytest.raises(ArgumentError, match=f"api_key {key} is of no API in the table"):
            codec.layout(key, 0, "request")


def test_tagged_fields_of_an_element_are_its_own_whatever_they_hold():
    """A list within a tagged field is read in between; the next element has none of it."""
    lines = [" items []struct", "  id int32", "  more []struct #0", "   name string"]
    fields = fields_of(lines, (0, 0))
    codec = Codec([wire.Api(7, "Own", 0, 0, 0)], lambda *_: layout_of(fields, 0, True))
    items = [
        {"id": 1, "more": [{"name": "a"}, {"name": "b"}]},
        {"id": 1},
        {"id": 2, "more": [{"name": "c"}]},
        {"id": 2},
    ]
    frame = codec.encode_response(7, 0, {"items": items})
    assert codec.decode_response(7, 0, frame).body == {"items": items}
    filled = codec.decode_response(7, 0, frame, fill=True).body["items"]
    assert filled == [{"more": [], **item} for item in items]
    rows = codec.decode_response(7, 0, frame, rows=True).body
    assert codec.encode_response(7, 0, rows) == frame


@pytest.mark.parametrize("version", [0, 4])
def test_a_frame_that_ends_inside_its_header_is_refused_there(version):
    request = wire.encode_request(12, version, HEARTBEAT, correlation_id=0, client_id="\0" * 3)
    response = wire.encode_response(12, version, {})
    # key, version, correlation id, client id; an id: with tagged fields from version 4 on
    for frame, header, decode in (
        (request, 13 + (version == 4), wire.decode_request),
        (response, 4 + (version == 4), lambda data: wire.decode_response(12, version, data)),
    ):
        for size in range(len(frame)):
            with pytest.raises(wire.WireError) as caught:
                decode(frame[:size])
            assert (caught.value.stage == "header") == (size < header), size
        assert decode(frame).left_over == 0
        assert decode(frame + b"ab").left_over == 2


def test_numbers_are_read_as_they_are_around_those_that_are_made_once():
    """A number of one byte is an object that is there already."""
    numbers = [-(2**31), -1, 0, 1, 254, 255, 256, 257, 2**31 - 1]
    for number in numbers:
        frame = wire.encode_request(12, 4, {**HEARTBEAT, "generationId": number})
        assert wire.decode_request(frame).body["generationId"] == number
        assert wire.decode_request(frame, rows=True).body[1] == number


def test_unknown_tags_may_have_any_number():
    tags = [(0, b"x"), (127, b""), (128, b"y" * 200), (2**32 - 1, b"z")]
    frame = wire.encode_request(12, 4, {**HEARTBEAT, "_unknown_tags": tags})
    assert wire.decode_request(frame, tags=True).body["_unknown_tags"] == tags
    assert "_unknown_tags" not in wire.decode_request(frame).body
    for wrong in (-1, 2**32):
        with pytest.raises(ArgumentError, match="_unknown_tags must be pairs"):
            wire.encode_request(12, 4, {**HEARTBEAT, "_unknown_tags": [(wrong, b"x")]})
