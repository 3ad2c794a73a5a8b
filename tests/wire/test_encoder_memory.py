"""What the encoders of messages allocate and borrow is given back, also after an error."""

import pytest

from coterie import messages, wire
from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.fast_path.dispatch import answer_quick
from coterie.coordinator.config import coordinator_config
from coterie.errors import ArgumentError
from support.c_memory import left_by

LARGE = 5_000  # bytes: more than an encoder has room for without allocating


def refused(call):
    with pytest.raises(ArgumentError):
        call()


def with_length(*request):
    frame = wire.encode_request(*request)
    return len(frame).to_bytes(4, "big") + frame


def test_encoders_give_back_their_memory():
    large, wrong = b"x" * LARGE, object()
    offset = {"offset": 5, "leaderEpoch": 1, "metadata": "x" * LARGE, "commitTimestamp": 7}
    tagged = {"_unknown_tags": [(9, large)]}
    features = {"supportedFeatures": [{"name": "x" * LARGE}]}
    core, beats = Coordinator(coordinator_config(None)), 300 * with_length(12, 2, {"memberId": "m"})
    uses = {
        "a request": lambda: wire.encode_request(36, 0, {"authBytes": large}),
        "a response": lambda: wire.encode_response(36, 0, {"authBytes": large}),
        "a response of tags": lambda: wire.encode_response(12, 4, tagged),
        "a tagged field": lambda: wire.encode_response(18, 3, features),
        "answers to heartbeats": lambda: answer_quick(core, None, beats, 0, LARGE),
        "a value": lambda: messages.encode_value(1, {"version": 3, "data": offset}),
        "a refused request": lambda: refused(
            lambda: wire.encode_request(
                11, 5, {"memberId": "x" * LARGE, "protocols": [{"metadata": wrong}]}
            )
        ),
        "a refused response": lambda: refused(
            lambda: wire.encode_response(
                11, 5, {"leader": "x" * LARGE, "members": [{"metadata": wrong}]}
            )
        ),
        "a refused value": lambda: refused(
            lambda: messages.encode_value(
                1, {"version": 3, "data": {**offset, "commitTimestamp": wrong}}
            )
        ),
    }
    for name, use in uses.items():
        assert left_by(use) < 200, name


def test_bytes_that_were_lent_to_an_encoder_can_change_again():
    lent = bytearray(b"x" * 10)
    wire.encode_request(36, 0, {"authBytes": lent})
    lent += b"y"  # BufferError while somebody reads it
    assert wire.decode_request(wire.encode_request(36, 0, {"authBytes": lent})).body == {
        "authBytes": b"x" * 10 + b"y"
    }
    core, data = Coordinator(coordinator_config(None)), bytearray(with_length(12, 2, {}))
    for position in (0, len(data), len(data) + 1):  # the last one is refused
        try:
            answer_quick(core, None, data, position, LARGE)
        except ArgumentError:
            assert position > len(data)
        data.append(0)
        data.pop()
