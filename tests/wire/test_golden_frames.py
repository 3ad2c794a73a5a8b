"""Frames written by Kafka's own classes, and damaged ones, as Kafka reads them."""

import base64

import pytest

from coterie import wire
from support.golden_data import SHARED
from support.wire.frames import by_api, model, plain, rows, tables, with_tags, without_records

THERE = (SHARED / "golden/wire/schemas.json").exists()
APIS = sorted(tables()["4.1.1"]["apis"]) if THERE else ["none"]
DAMAGED = sorted({row["damage"] for row in rows("damaged-requests")}) if THERE else ["none"]


def decoded(row, **options):
    if row["direction"] == "request":
        return wire.decode_request(row["frame"], **options)
    return wire.decode_response(row["key"], row["version"], row["frame"], **options)


@pytest.mark.parametrize("api", APIS)
def test_every_frame_decodes_to_what_kafka_shows_of_it(api):
    for row in by_api()[api]:
        found = decoded(row)
        assert found.body == row["body"]
        assert found.left_over == 0
        assert found.correlation_id == row["header"]["correlationId"]
        if row["direction"] == "request":
            assert found.api_key == row["key"]
            assert found.api_version == row["version"]
            assert found.client_id == row["header"]["clientId"]


@pytest.mark.parametrize("api", APIS)
def test_every_frame_is_written_byte_for_byte(api):
    for row in by_api()[api]:
        body, header = with_tags(row), row["header"]
        correlation_id = header["correlationId"]
        if row["direction"] == "request":
            found = wire.encode_request(
                row["key"], row["version"], body,
                correlation_id=correlation_id, client_id=header["clientId"],
            )  # fmt: skip
        else:
            found = wire.encode_response(
                row["key"], row["version"], body, correlation_id=correlation_id
            )
        if row.get("header_unknown_tags"):  # ours has none, and a count of 0 in their place
            size = header_size(row)
            assert found[size - 1] == 0
            assert found[: size - 1] == row["frame"][: size - 1]
            assert row["frame"].endswith(found[size:])
        else:
            assert found == row["frame"]


def header_size(row):
    """Bytes of a flexible header without unknown tags."""
    if row["direction"] == "response":
        return 4 + 1
    return 2 + 2 + 4 + 2 + len((row["header"]["clientId"] or "").encode()) + 1


@pytest.mark.parametrize("api", APIS)
def test_unknown_tags_are_kept_if_they_are_wanted(api):
    for row in by_api()[api]:
        assert decoded(row, tags=True).body == with_tags(row)


@pytest.mark.parametrize("api", APIS)
def test_a_filled_body_has_what_the_frame_says(api):
    for row in by_api()[api]:
        holds(decoded(row, fill=True).body, row["body"])


def holds(filled, body):
    for name, value in body.items():
        if isinstance(value, dict):
            holds(filled[name], value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            assert len(filled[name]) == len(value)
            for more, less in zip(filled[name], value, strict=True):
                holds(more, less)
        else:
            assert filled[name] == value


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_requests_are_refused_where_kafka_refuses_and_else_read_alike(damage):
    for row in rows("damaged-requests"):
        if row["damage"] != damage:
            continue
        frame, result = base64.b64decode(row["frame"]), row["result"]
        if result["stage"] != "parsed":
            with pytest.raises(wire.WireError) as caught:
                wire.decode_request(frame)
            assert caught.value.stage == result["stage"]
            continue
        found = wire.decode_request(frame)
        header = result["header"]
        api = next(a for a, (key, _) in model("4.1.1").apis.items() if key == found.api_key)
        fields = model("4.1.1").apis[api][1]["request"][2]
        assert without_records(found.body) == plain(fields, result["body"])
        assert found.left_over == result["left_over"]
        assert found.correlation_id == header["correlationId"]
        assert (found.client_id or "") == header["clientId"]  # a broker takes null as ""
