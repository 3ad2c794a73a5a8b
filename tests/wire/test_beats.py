"""Heartbeats on the short way, beside the codec and the coordinator's call on the long one."""

import random
import struct

import pytest

from coterie import wire
from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.serving.beats import LAST_VERSION, answer_beats
from coterie.coordinator.config import coordinator_config
from coterie.errors import ArgumentError
from coterie.operations import NUMBER

HEARTBEAT = 12
LONGEST = 10_000
SESSION_MS = 10_000


def core():
    """A stable group of a dynamic and a static member, and one that rebalances."""
    made = Coordinator(coordinator_config({"group.initial.rebalance.delay.ms": 0}), 1000)
    for group, instance in (("g", None), ("s", "i"), ("группа", None)):
        details = ("consumer", (("range", b""),), SESSION_MS, SESSION_MS, "c", "/h", False, False)
        made.call(NUMBER["join_group"], 1, group, -1, "", instance, details)
        member = made.group(group).all_members[0].member_id
        made.call(NUMBER["sync_group"], 2, group, 1, member, instance, (None, None, {member: b"a"}))
    made.call(NUMBER["join_group"], 3, "g", -1, "", None, details)  # rebalances from now on
    made.effects.clear()
    return made


def members(of):
    return [(group, of.group(group).all_members[0].member_id) for group in ("g", "s", "группа")]


def slow(of, frame):
    """The answer to one frame, by way of dicts; None where the codec refuses it."""
    try:
        request = wire.decode_request(frame, fill=True)
    except wire.WireError:
        return None
    body = request.body
    of.call(
        NUMBER["heartbeat"], 9, body["groupId"], body["generationId"], body["memberId"],
        body["groupInstanceId"], None,
    )  # fmt: skip
    (event,) = of.effects.events()
    of.effects.clear()
    return wire.encode_response(
        HEARTBEAT, request.api_version, {"errorCode": event.response.error},
        correlation_id=request.correlation_id,
    )  # fmt: skip


def with_length(frame):
    return struct.pack(">i", len(frame)) + frame


def random_beat(rng, known):
    group, member = rng.choice(known)
    version = rng.randint(0, LAST_VERSION)
    body = {
        "groupId": rng.choice([group, group, group, "", "nobody", "é" * 70]),
        "generationId": rng.choice([1, 1, 1, 2, -1]),
        "memberId": rng.choice([member, member, member, "", "m" * 300]),
        "groupInstanceId": rng.choice([None, None, "i", ""]),
        "_unknown_tags": rng.choice([[], [(7, b"x")]]) if version == LAST_VERSION else [],
    }
    return wire.encode_request(
        HEARTBEAT, version, body,
        correlation_id=rng.randint(-(1 << 31), (1 << 31) - 1),
        client_id=rng.choice([None, "", "client-1"]),
    )  # fmt: skip


def test_heartbeats_are_answered_as_on_the_long_way():
    rng = random.Random(5)
    short, long = core(), core()
    known = members(short)
    assert known == members(long)
    frames = [random_beat(rng, known) for _ in range(3000)]
    data = b"".join(map(with_length, frames))
    position, answers = answer_beats(short, data, 0, LONGEST)
    assert position == len(data)
    assert answers == b"".join(with_length(slow(long, frame)) for frame in frames)
    assert short.effects.count == 0
    codes = {answers[n : n + 2] for n in range(len(answers))}
    for error in (0, 22, 24, 25, 27, 82):
        assert struct.pack(">h", error) in codes


def test_a_heartbeat_keeps_a_member_alive():
    beaten, left = core(), core()
    for of in (beaten, left):
        of.advance(1000 + SESSION_MS - 1)
    group, member = members(beaten)[1]
    body = {"groupId": group, "generationId": 1, "memberId": member}
    frame = with_length(wire.encode_request(HEARTBEAT, 2, body))
    assert answer_beats(beaten, frame, 0, LONGEST)[1].endswith(b"\0\0")
    for of in (beaten, left):
        of.advance(1000 + SESSION_MS + 5)
    assert beaten.group("s").current_state == "Stable"
    assert left.group("s").current_state == "Empty"


def test_what_is_no_plain_heartbeat_is_left_where_it_is():
    rng = random.Random(6)
    of = core()
    beat = random_beat(rng, members(of))
    other = wire.encode_request(3, 1, {})
    body = {"groupId": "g", "generationId": 1, "memberId": "m"}
    not_text = wire.encode_request(HEARTBEAT, 1, body).replace(b"\0\1g", b"\0\1\xff")
    damaged = [
        other, not_text, b"", b"\0\x0c", beat[:-1], b"\0\x0c\0\5" + beat[4:],
        b"\0\x0c\xff\xff" + beat[4:], beat + b"\0" * LONGEST,
    ]  # fmt: skip
    for frame in damaged:
        data = with_length(beat) + with_length(frame) + with_length(beat)
        position, answers = answer_beats(of, data, 0, LONGEST)
        assert position == len(with_length(beat))
        assert answers
        assert answer_beats(of, data, position, LONGEST) == (position, b"")
    for length in (-1, 0, 0x7FFFFFFF, -(1 << 31)):
        data = struct.pack(">i", length) + beat
        assert answer_beats(of, data, 0, LONGEST) == (0, b"")


def test_a_frame_that_has_not_come_whole_waits():
    of = core()
    frame = with_length(random_beat(random.Random(7), members(of)))
    whole = answer_beats(of, frame, 0, LONGEST)[1]
    for size in range(len(frame)):
        assert answer_beats(of, frame[:size], 0, LONGEST) == (0, b"")
        data = bytearray(frame + frame[:size])
        assert answer_beats(of, data, 0, LONGEST) == (len(frame), whole)


def test_damaged_heartbeats_are_answered_only_if_the_codec_reads_them():
    rng = random.Random(8)
    short, long = core(), core()
    known = members(short)
    answered = 0
    for _ in range(4000):
        data = bytearray(random_beat(rng, known))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        frame = bytes(data)
        position, answers = answer_beats(short, with_length(frame), 0, LONGEST)
        if position:
            assert answers == with_length(slow(long, frame))
            answered += 1
    assert 500 < answered < 3500


@pytest.mark.parametrize(
    ("data", "position", "longest"),
    [("x", 0, 5), (None, 0, 5), (b"", 1, 5), (b"", -1, 5), (b"", 0, -1), (b"", 0, 1 << 31)],
)
def test_wrong_arguments_are_refused(data, position, longest):
    with pytest.raises(ArgumentError):
        answer_beats(core(), data, position, longest)
