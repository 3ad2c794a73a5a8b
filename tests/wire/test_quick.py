"""Heartbeats and commits on the short way, beside the codec and the core's call on the long one."""

import random
import struct
from types import SimpleNamespace

import pytest

from coterie import GroupCoordinator, wire
from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.runtime import CallerLog, DirectLog
from coterie._core.fast_path.dispatch import LAST_CONSUMER_VERSION, LAST_VERSION, answer_quick
from coterie.base.operations import NUMBER
from coterie.consumer_groups import encode_topic_id
from coterie.coordinator.config import coordinator_config
from coterie.errors import ArgumentError

HEARTBEAT, OFFSET_COMMIT, CONSUMER_HEARTBEAT = 12, 8, 68
UNKNOWN_ID = encode_topic_id(bytes(range(16)))
TOPICS = {
    name: SimpleNamespace(name=name, partitions=[0] * count, id_bytes=bytes([n + 1]) * 16)
    for n, (name, count) in enumerate([("t", 5), ("ü", 2)])
}
IDS = {topic.id_bytes: topic for topic in TOPICS.values()}
ID_OF = {name: encode_topic_id(topic.id_bytes) for name, topic in TOPICS.items()}
LONGEST = 10_000
SESSION_MS = 10_000


def core(behaviour="3.9"):
    """A stable group of a dynamic and a static member, and one that rebalances."""
    config = {"group.initial.rebalance.delay.ms": 0, "coterie.behaviour": behaviour}
    made = Coordinator(coordinator_config(config), 1000)
    for group, instance in (("g", None), ("s", "i"), ("группа", None)):
        details = ("consumer", (("range", b""),), SESSION_MS, SESSION_MS, "c", "/h", False, False)
        made.call(NUMBER["join_group"], 1, group, -1, "", instance, details)
        member = made.group(group).all_members[0].member_id
        made.call(NUMBER["sync_group"], 2, group, 1, member, instance, (None, None, {member: b"a"}))
    made.call(NUMBER["join_group"], 3, "g", -1, "", None, details)  # rebalances from now on
    made.outputs.clear()
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
    (event,) = of.outputs.events()
    of.outputs.clear()
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
    position, answers = answer_quick(short, None, data, 0, LONGEST)
    assert position == len(data)
    assert answers == b"".join(with_length(slow(long, frame)) for frame in frames)
    assert short.outputs.count == 0
    codes = {answers[n : n + 2] for n in range(len(answers))}
    for error in (0, 22, 24, 25, 27, 82):
        assert struct.pack(">h", error) in codes


def test_requests_that_may_wait_for_a_write_go_the_long_way():
    coordinator = GroupCoordinator(
        {"coterie.behaviour": "4.1", "group.initial.rebalance.delay.ms": 0}
    )
    given = {"protocol_type": "consumer", "client_id": "c", "protocols": {"range": b""}}
    member = coordinator.join_group("g", **given).response.member_id
    coordinator.sync_group("g", 1, member, assignments={member: b""})
    of_member = {"groupId": "g", "memberId": member}
    beat = with_length(wire.encode_request(HEARTBEAT, 2, of_member | {"generationId": 1}))
    topics = [{"name": "t", "partitions": [
        {"partitionIndex": 0, "committedOffset": 5, "committedMetadata": ""}]}]  # fmt: skip
    body = of_member | {"generationIdOrMemberEpoch": 1, "topics": topics}
    commit = with_length(wire.encode_request(OFFSET_COMMIT, 2, body))
    core = coordinator._core
    coordinator.handle({"op": "hold_commits"})
    assert answer_quick(core, TOPICS, commit, 0, LONGEST) == (0, b"")
    coordinator.join_group("h", **given)
    assert answer_quick(core, TOPICS, beat + commit, 0, LONGEST) == (0, b"")
    assert not coordinator.snapshot("g").offsets
    coordinator.handle({"op": "release_commits"})
    position, answers = answer_quick(core, TOPICS, beat + commit, 0, LONGEST)
    assert (position, answers[-2:]) == (len(beat + commit), b"\0\0")


def test_a_heartbeat_keeps_a_member_alive():
    beaten, left = core(), core()
    for of in (beaten, left):
        of.advance(1000 + SESSION_MS - 1)
    group, member = members(beaten)[1]
    body = {"groupId": group, "generationId": 1, "memberId": member}
    frame = with_length(wire.encode_request(HEARTBEAT, 2, body))
    assert answer_quick(beaten, None, frame, 0, LONGEST)[1].endswith(b"\0\0")
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
        position, answers = answer_quick(of, None, data, 0, LONGEST)
        assert position == len(with_length(beat))
        assert answers
        assert answer_quick(of, None, data, position, LONGEST) == (position, b"")
    for length in (-1, 0, 0x7FFFFFFF, -(1 << 31)):
        data = struct.pack(">i", length) + beat
        assert answer_quick(of, None, data, 0, LONGEST) == (0, b"")


def test_a_frame_that_has_not_come_whole_waits():
    of = core()
    frame = with_length(random_beat(random.Random(7), members(of)))
    whole = answer_quick(of, None, frame, 0, LONGEST)[1]
    for size in range(len(frame)):
        assert answer_quick(of, None, frame[:size], 0, LONGEST) == (0, b"")
        data = bytearray(frame + frame[:size])
        assert answer_quick(of, None, data, 0, LONGEST) == (len(frame), whole)


@pytest.mark.parametrize("version", [1, 4])
def test_a_frame_may_be_as_long_as_is_said_and_no_longer(version):
    of = core()
    frame = wire.encode_request(HEARTBEAT, version, {"groupId": "g" * 100})
    data = with_length(frame)
    assert answer_quick(of, None, data, 0, len(frame))[0] == len(data)
    assert answer_quick(of, None, data, 0, len(frame) - 1) == (0, b"")


@pytest.mark.parametrize("field", ["groupId", "memberId", "groupInstanceId"])
def test_a_text_may_have_as_many_bytes_as_the_codec_takes(field):
    of, texts = core(), {"groupId": "g", "memberId": "m", "groupInstanceId": "i"}
    longest = wire.encode_request(HEARTBEAT, 4, {**texts, field: "x" * 0x7FFF})
    assert answer_quick(of, None, with_length(longest), 0, 1 << 20)[0] == 4 + len(longest)
    size = b"\x80\x80\2"  # 0x7fff and 1 more, as an unsigned varint; null is 0
    assert longest.count(size) == 1
    beyond = longest.replace(size + b"x", b"\x81\x80\2xx")
    assert answer_quick(of, None, with_length(beyond), 0, 1 << 20) == (0, b"")
    with pytest.raises(wire.WireError, match=field):
        wire.decode_request(beyond)


def test_after_a_heartbeat_that_lets_something_else_happen_the_next_ones_wait():
    of = core()
    group, member = members(of)[1]
    body = {"groupId": group, "generationId": 1, "memberId": member}
    data = with_length(wire.encode_request(HEARTBEAT, 2, body))
    of.call(NUMBER["describe_group"], 7, "g", -1, None, None, None)  # its answer was not taken
    position, answers = answer_quick(of, None, 3 * data, 0, LONGEST)
    assert (position, answers[-2:]) == (len(data), b"\0\0")
    assert [event.id for event in of.outputs.events()] == [7]


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
        position, answers = answer_quick(short, None, with_length(frame), 0, LONGEST)
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
        answer_quick(core(), None, data, position, longest)


def named(name, version):
    return {"topicId": ID_OF.get(name, UNKNOWN_ID)} if version >= 10 else {"name": name}


def name_of(topic, version):
    """The name of a topic of a request; None where there is none."""
    if version < 10:
        return topic["name"]
    return next((name for name in ID_OF if ID_OF[name] == topic["topicId"]), None)


def commit_topics(rng, version):
    """Most of them plain; of partitions that do not exist, of one topic twice, of none."""
    names = rng.choice([["t"], ["t"], ["ü", "t"], ["t"], [], ["t", "t"], ["t", "missing"]])
    counts = {"t": 5, "ü": 2, "missing": 9}
    return [
        {**named(name, version), "partitions": [
            {"partitionIndex": n, "committedOffset": rng.randint(-2, 1 << 40),
             "committedLeaderEpoch": rng.choice([-1, 3]),
             "committedMetadata": rng.choice(["", None, "m", "é" * 9, "x" * 5000])}
            for n in rng.choices(range(counts[name] + (rng.random() < 0.05)), k=rng.randint(0, 4))]}
        for name in names
    ]  # fmt: skip


def random_commit(rng, known):
    group, member = rng.choice(known)
    version = rng.randint(2, 10)
    group, generation = rng.choice([(group, 1)] * 6 + [(group, 2), ("", -1), ("alone", -1)])
    body = {
        "groupId": group, "generationIdOrMemberEpoch": generation,
        "memberId": rng.choice([member] * 6 + ["", "m"]) if generation > 0 else "",
        "groupInstanceId": rng.choice([None, None, "i"]) if version >= 7 else None,
        "retentionTimeMs": rng.choice([-1] * 6 + [5]) if version <= 4 else -1,
        "topics": commit_topics(rng, version),
        "_unknown_tags": rng.choice([[], [(7, b"x")]]) if version >= 8 else [],
    }  # fmt: skip
    return wire.encode_request(
        OFFSET_COMMIT, version, body,
        correlation_id=rng.randint(-(1 << 31), (1 << 31) - 1), client_id=rng.choice([None, "c"]),
    )  # fmt: skip


def is_plain(request, ids=None):
    """Whether a commit is one for the short way: all that it names exists, no topic twice."""
    body, version = request.body, request.api_version
    names = [name_of(topic, version) for topic in body["topics"]]
    partitions = [
        (name, p["partitionIndex"])
        for name, topic in zip(names, body["topics"], strict=True) for p in topic["partitions"]
    ]  # fmt: skip
    return (
        bool(partitions) and len(set(names)) == len(names) and body["retentionTimeMs"] == -1
        and (version < 10 or ids is not None) and all(name in TOPICS for name in names)
        and all(0 <= number < len(TOPICS[name].partitions) for name, number in partitions)
    )  # fmt: skip


def slow_commit(of, request, ids=None):
    """The answer to a plain commit, by way of dicts."""
    body, version = request.body, request.api_version
    rows = [
        ((name_of(topic, version), p["partitionIndex"]), p["committedOffset"],
         p["committedLeaderEpoch"], p["committedMetadata"] or "", None, -1,
         *([] if ids is None else [TOPICS[name_of(topic, version)].id_bytes]))
        for topic in body["topics"] for p in topic["partitions"]
    ]  # fmt: skip
    of.call(
        NUMBER["offset_commit"], 9, body["groupId"], body["generationIdOrMemberEpoch"],
        body["memberId"], body["groupInstanceId"], (tuple(rows), -1, -1, request.api_version, -1),
    )  # fmt: skip
    told = [event for event in of.outputs.events() if hasattr(event, "response")]
    of.outputs.clear()
    errors = told[0].response.partitions
    topics = [
        {**named(name, version), "partitions": [
            {"partitionIndex": each.partition, "errorCode": each.error}
            for each in errors if each.topic == name]}
        for name in dict.fromkeys(each.topic for each in errors)
    ]  # fmt: skip
    return wire.encode_response(
        OFFSET_COMMIT, request.api_version, {"topics": topics},
        correlation_id=request.correlation_id,
    )  # fmt: skip


@pytest.mark.parametrize(("behaviour", "ids"), [("3.9", None), ("4.1", None), ("4.4", IDS)])
def test_plain_commits_are_answered_and_written_as_on_the_long_way(behaviour, ids):
    rng = random.Random(11)
    short, long = core(behaviour), core(behaviour)
    known = members(short)
    plain = 0
    codes = set()
    for _ in range(3000):
        frame = random_commit(rng, known)
        data = with_length(frame)
        request = wire.decode_request(frame, fill=True)
        position, answers = answer_quick(short, TOPICS, data, 0, 1 << 20, ids)
        assert (position == len(data)) == is_plain(request, ids)
        assert bool(answers) == bool(position)
        if position:
            assert answers == with_length(slow_commit(long, request, ids))
            codes |= {answers[n : n + 2] for n in range(len(answers))}
            plain += 1
        assert short.outputs.count == 0
        assert not short.unsettled
    assert short.batches() == long.batches()
    assert plain > 1000
    for error in (0, 12, 22, 25, 82):
        assert struct.pack(">h", error) in codes


def test_each_answer_of_several_commits_and_heartbeats_has_its_own_length():
    rng = random.Random(14)
    short, long = core(), core()
    (_, _, (group, member)) = members(short)
    frames = []
    for version in range(2, 10):
        partitions = [{"partitionIndex": n, "committedOffset": 7} for n in range(version % 4 + 1)]
        body = {
            "groupId": group, "generationIdOrMemberEpoch": 1, "memberId": member,
            "topics": [{"name": "t", "partitions": partitions}],
        }  # fmt: skip
        frames.append(wire.encode_request(OFFSET_COMMIT, version, body, correlation_id=version))
        frames.append(random_beat(rng, [(group, member)]))
    data = b"".join(map(with_length, frames))
    position, answers = answer_quick(short, TOPICS, data, 0, LONGEST)
    assert position == len(data)
    expected = b""
    for n, frame in enumerate(frames):
        commit = n % 2 == 0
        answer = slow_commit(long, wire.decode_request(frame, fill=True)) if commit else None
        expected += with_length(answer or slow(long, frame))
    assert answers == expected


@pytest.mark.parametrize("version", [2, 8])
def test_a_commit_with_a_topic_without_a_list_of_partitions_is_left(version):
    """Only null lists: an empty one beside others is plain."""
    topics = [{"name": "t", "partitions": []}, {"name": "ü", "partitions": [{"partitionIndex": 0}]}]
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1, "topics": topics}
    frame = wire.encode_request(OFFSET_COMMIT, version, body)
    empty, null = (b"t\0\0\0\0", b"t\xff\xff\xff\xff") if version == 2 else (b"t\1", b"t\0")
    assert frame.count(empty) == 1
    damaged = frame.replace(empty, null)
    with pytest.raises(wire.WireError):
        wire.decode_request(damaged)
    for each, taken in ((frame, 4 + len(frame)), (damaged, 0)):
        assert answer_quick(core(), TOPICS, with_length(each), 0, LONGEST)[0] == taken


@pytest.mark.parametrize(("behaviour", "ids"), [("3.9", None), ("4.4", IDS)])
def test_damaged_commits_are_answered_only_if_the_codec_reads_them(behaviour, ids):
    rng = random.Random(12)
    short, long = core(behaviour), core(behaviour)
    known = members(short)
    answered = 0
    for _ in range(4000):
        frame = bytearray(random_commit(rng, known))
        for _ in range(rng.randint(1, 3)):
            frame[rng.randrange(4, len(frame))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        frame = bytes(frame[: rng.choice([len(frame)] * 3 + [rng.randrange(8, len(frame))])])
        position, answers = answer_quick(short, TOPICS, with_length(frame), 0, 1 << 20, ids)
        if position:
            request = wire.decode_request(frame, fill=True)
            assert is_plain(request, ids)
            assert answers == with_length(slow_commit(long, request, ids))
            answered += 1
    assert short.batches() == long.batches()
    assert 300 < answered < 3500


def test_commits_are_left_where_nobody_knows_topics_or_the_log_writes_later():
    rng = random.Random(13)
    settings = coordinator_config(None)
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1, "topics": [
        {"name": "t", "partitions": [{"partitionIndex": 0}]}]}  # fmt: skip
    commit = with_length(wire.encode_request(OFFSET_COMMIT, 8, body))
    beat = with_length(random_beat(rng, [("g", "m")]))
    data = beat + commit + beat

    def later(batch):
        return None

    for of, topics in (
        (Coordinator(settings), None),
        (Coordinator(settings, 0, None, True), TOPICS),
        (Coordinator(settings, 0, None, False, CallerLog(later, tuple)), TOPICS),
    ):
        assert answer_quick(of, topics, data, 0, LONGEST)[0] == len(beat)
    assert answer_quick(Coordinator(settings), TOPICS, data, 0, LONGEST)[0] == len(data)


def test_a_commit_whose_append_fails_is_answered_and_the_failure_left_to_be_taken():
    def fails(*batch):
        raise OSError("full")

    of = Coordinator(coordinator_config(None), 0, None, False, DirectLog(fails, tuple))
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1, "topics": [
        {"name": "t", "partitions": [{"partitionIndex": 0}]}]}  # fmt: skip
    commit = with_length(wire.encode_request(OFFSET_COMMIT, 2, body))
    position, answers = answer_quick(of, TOPICS, commit + commit, 0, LONGEST)
    assert position == len(commit)
    assert answers.endswith(struct.pack(">ih", 0, 16))  # NOT_COORDINATOR
    assert of.unsettled
    assert isinstance(of.take_failure(), OSError)
    assert not of.unsettled


def consumer_group(behaviour="4.1"):
    """A coordinator with a consumer group of one member, and the fields of its heartbeats."""
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    client = {"client_id": "client", "client_host": "/h"}
    joined = coordinator.consumer_group_heartbeat(
        "group", "member", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"],
        topic_partitions=[], **client,
    )  # fmt: skip
    epoch = joined.member_epoch
    coordinator.consumer_group_heartbeat("group", "member", epoch, **client)  # reads the metadata
    return coordinator, {"groupId": "group", "memberId": "member", "memberEpoch": epoch}


def consumer_beat(body, version):
    return wire.encode_request(CONSUMER_HEARTBEAT, version, body, client_id="client")


def quick(coordinator, data, host_of=lambda: "/h"):
    return answer_quick(coordinator._core, None, data, 0, LONGEST, None, host_of)


@pytest.mark.parametrize("behaviour", ["4.1", "4.3", "4.4"])
@pytest.mark.parametrize("version", range(LAST_CONSUMER_VERSION + 1))
def test_a_consumer_heartbeat_with_any_byte_changed_is_answered_only_if_it_means_the_same(
    version, behaviour
):
    coordinator, body = consumer_group(behaviour)
    whole = consumer_beat(body, version)
    read = wire.decode_request(whole, fill=True)
    answered = 0
    for at in range(4, len(whole)):
        assert quick(coordinator, with_length(whole[:at])) == (0, b"")
        for byte in (0, 1, 2, 0x7F, 0x80, 0xFF, whole[at] ^ 1):
            frame = whole[:at] + bytes([byte]) + whole[at + 1 :]
            position, answers = quick(coordinator, with_length(frame))
            if not position:
                assert answers == b""
                continue
            request = wire.decode_request(frame, fill=True)
            assert (request.body, request.client_id) == (read.body, read.client_id)
            given = {"memberId": "member", "memberEpoch": body["memberEpoch"],
                     "heartbeatIntervalMs": 5000, "assignment": None}  # fmt: skip
            assert answers == with_length(wire.encode_response(
                CONSUMER_HEARTBEAT, version, given, correlation_id=request.correlation_id
            ))  # fmt: skip
            answered += 1
    assert answered > 25
    assert coordinator._core.outputs.count == 0


def test_a_consumer_heartbeat_is_left_while_writes_are_pending_or_its_host_is_unknown():
    coordinator, body = consumer_group()
    beat = with_length(consumer_beat(body, 1))
    answered = quick(coordinator, beat)
    assert answered[0] == len(beat)
    for host_of in (None, lambda: None, lambda: "/other"):
        assert quick(coordinator, beat, host_of) == (0, b"")
    with pytest.raises(TypeError):
        quick(coordinator, beat, lambda: 5)
    coordinator.handle({"op": "hold_commits"})
    assert quick(coordinator, beat) == answered
    coordinator.join_group("h", protocol_type="consumer", protocols={"range": b""})
    coordinator.consumer_group_heartbeat(
        "i", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert quick(coordinator, beat) == (0, b"")
    coordinator.handle({"op": "release_commits"})
    assert quick(coordinator, beat) == answered


def test_a_coordinator_before_4_1_leaves_every_consumer_heartbeat():
    _, body = consumer_group()
    data = with_length(consumer_beat(body, 1))
    assert answer_quick(core(), None, data, 0, LONGEST, None, lambda: "/h") == (0, b"")
