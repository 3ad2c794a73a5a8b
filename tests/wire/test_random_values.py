"""Random values in every version of every message, by the player's codec as the model."""

import pytest

from coterie import wire
from support.golden_data import SHARED
from support.wire.frames import DIRECTIONS, tables
from support.wire.random_frames import ROUNDS, cases

THERE = (SHARED / "golden/wire/schemas.json").exists()
APIS = sorted(tables()["4.1.1"]["apis"]) if THERE else ["none"]


def written(key, version, direction, header, body):
    if direction == "response":
        return wire.encode_response(key, version, body, correlation_id=header["correlationId"])
    return wire.encode_request(
        key, version, body,
        correlation_id=header["correlationId"], client_id=header["clientId"],
    )  # fmt: skip


def read(key, version, direction, frame):
    if direction == "request":
        return wire.decode_request(frame, tags=True)
    return wire.decode_response(key, version, frame, tags=True)


@pytest.mark.parametrize("api", APIS)
def test_random_values_are_written_as_the_model_writes_them_and_read_back(api):
    count = 0
    for key, version, direction, header, body, frame in cases(api):
        assert written(key, version, direction, header, body) == frame
        found = read(key, version, direction, frame)
        if direction == "request":
            assert found.client_id == header["clientId"]
        assert found.correlation_id == header["correlationId"]
        assert found.left_over == 0
        # What is at its default in a tagged field is not written, so the model's body may say more.
        assert written(key, version, direction, header, found.body) == frame
        assert set(found.body) <= set(body)
        count += 1
    assert count >= len(DIRECTIONS) * ROUNDS


@pytest.mark.parametrize("api", APIS)
def test_a_frame_that_ends_anywhere_before_its_end_is_refused(api):
    for n, (key, version, direction, _, _, frame) in enumerate(cases(api)):
        if n % ROUNDS > 1:
            continue
        for size in range(len(frame)):
            with pytest.raises(wire.WireError) as caught:
                read(key, version, direction, frame[:size])
            assert caught.value.stage in ("header", "body")


@pytest.mark.parametrize("api", APIS)
def test_bytes_after_a_body_are_counted_and_not_minded(api):
    for key, version, direction, _, _, frame in cases(api):
        assert read(key, version, direction, frame + b"\xff\0\1").left_over == 3
