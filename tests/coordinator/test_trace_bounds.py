"""Traces, recordings and request logs at their limits."""

import json

import pytest

from coterie import ConfigError, GroupCoordinator, OffsetAndMetadata, TraceError, load_trace
from coterie.coordinator.config import coordinator_config
from coterie.coordinator.recording import Recording
from coterie.coordinator.requestlog import import_request_log
from coterie.coordinator.trace_diff import compare_responses, compare_traces
from coterie.coordinator.whatif import Changes, what_if
from coterie.values import Error
from support.request_lines import events, line
from support.trace_data import header

KEY = ("t", 0)


@pytest.mark.parametrize(("epoch", "expires"), [(-1, None), (0, None), (7, None), (0, 0), (-1, 9)])
def test_a_recorded_commit_is_played_as_it_was_made(tmp_path, epoch, expires):
    coordinator, recording = GroupCoordinator(), Recording()
    coordinator._record_into(recording)
    offset = OffsetAndMetadata(5, epoch, "m", expire_timestamp=expires)
    coordinator.offset_commit("g", {KEY: offset})
    recording.write(tmp_path / "it.trace.jsonl", coordinator.config, coordinator.now_ms)
    lines = (tmp_path / "it.trace.jsonl").read_text().splitlines()
    again = GroupCoordinator()
    again.play(load_trace(lines))
    assert again.snapshot("g").offsets == coordinator.snapshot("g").offsets
    assert again.snapshot("g").offsets[KEY].expire_timestamp == expires


def logged(api, version, request, response, **times):
    """A line whose response was sent 100 ms after the first second."""
    told = line(api, version, request, response, 100)
    head, _, body = told.partition("request:")
    entry, end = json.JSONDecoder().raw_decode(body)
    return f"{head}request:{json.dumps(entry | times)}{body[end:]}"


def events_of(*lines):
    return events(import_request_log(lines))


JOIN = {"groupId": "g", "memberId": "", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 5}
JOIN |= {"protocolType": "consumer", "protocols": [{"name": "range", "metadata": ""}]}
JOINED = {"errorCode": 79, "generationId": -1, "protocolName": None, "leader": "", "members": []}
JOINED |= {"memberId": "c-1"}


def test_a_request_is_handled_when_it_has_waited_in_the_queue():
    first = logged("JOIN_GROUP", 5, JOIN, JOINED, totalTimeMs=100.0, requestQueueTimeMs=0.0)
    second = logged("JOIN_GROUP", 5, JOIN, JOINED, totalTimeMs=60.0, requestQueueTimeMs=25.0)
    second = second.replace(":4000-1", ":4001-2")  # one connection would have waited
    assert [event["at"] for event in events_of(first, second)] == [0, 65]


@pytest.mark.parametrize(
    ("version", "rebalance_ms", "known", "skips"),
    [  # JoinGroupRequest.json: rebalance timeout 1+, known id 4+, skipping 9+
        *((0, 10_000, False, False), (1, 5, False, False), (3, 5, False, False)),
        *((4, 5, True, False), (8, 5, True, False), (9, 5, True, True)),
    ],
)
def test_a_join_is_read_by_its_version(version, rebalance_ms, known, skips):
    (event,) = events_of(line("JOIN_GROUP", version, JOIN, JOINED))
    assert event["rebalance_timeout_ms"] == rebalance_ms
    assert event["require_known_member_id"] == known
    assert event["supports_skipping_assignment"] == skips


@pytest.mark.parametrize(
    ("version", "request_", "response"),
    [  # LeaveGroupRequest.json: one member before version 3, a list from then on
        (2, {"memberId": "m"}, {"errorCode": 25}),
        (3, {"members": [{"memberId": "m"}]}, {"errorCode": 0}),
    ],
)
def test_a_leave_is_read_by_its_version(version, request_, response):
    gone = [{"memberId": "m", "groupInstanceId": None, "errorCode": 25}]
    logged = line("LEAVE_GROUP", version, {"groupId": "g"} | request_, {"members": gone} | response)
    made = import_request_log([logged])
    assert made.trace[1]["members"] == [{"member_id": "m"}]
    assert made.expected[0]["members"] == [
        {"member_id": "m", "group_instance_id": None, "error": "UNKNOWN_MEMBER_ID"}
    ]


def test_a_state_is_left_where_the_trace_ends():
    join = {"op": "join_group", "id": 1, "group_id": "g", "member_id": "", "client_id": "c"}
    join |= {"client_host": "/h", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
    join |= {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": ""}]}
    lines = [header(), {"at": 500} | join, {"at": 2500, "op": "advance"}]
    for summary in what_if(load_trace(lines), Changes()):
        assert summary.ms_in_state["PreparingRebalance"] == 2000
        assert summary.refused_requests == 0
    known = [header(), {"at": 500, "require_known_member_id": True} | join]
    for summary in what_if(load_trace(known), Changes()):
        assert summary.refused_requests == 0  # to be handed out an id is no refusal
    stale = [header(), {"at": 0, "op": "heartbeat", "id": 1, "group_id": "g", "member_id": "m"}]
    stale[1]["generation_id"] = 1
    for summary in what_if(load_trace(stale), Changes()):
        assert summary.refused_requests == 1


def test_events_that_one_of_two_outputs_lacks_are_differences():
    event = {"at": 5, "event": "transition", "group_id": "g", "to": "Empty"}
    other = event | {"to": "Dead"}
    (missing,) = compare_traces([event, other], [event])
    assert (missing.expected, missing.actual) == (other, None)
    (more,) = compare_traces([event], [event, other])
    assert (more.expected, more.actual) == (None, other)


def test_null_and_absent_are_the_same():
    less = {"at": 5, "event": "response", "id": 1, "op": "join_group", "members": [{"a": 1}]}
    logged = less | {"leader": None, "members": [{"a": 1, "group_instance_id": None}]}
    assert not list(compare_traces([logged], [less]))
    assert not list(compare_traces([less], [logged]))
    assert list(compare_traces([logged | {"leader": ""}], [less]))


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [  # GroupCoordinatorConfig.java: atLeast(1), and so on
        ("group.initial.rebalance.delay.ms", 0, 2**31 - 1),
        ("group.max.size", 1, 2**31 - 1),
        ("offsets.retention.minutes", 1, 2**31 - 1),
        ("offsets.commit.required.acks", -1, 1),
    ],
)
def test_a_setting_may_be_its_least_and_its_greatest(name, least, most):
    for value in (least, most):
        assert coordinator_config({name: value})[name] == value
    for value in (least - 1, most + 1):
        with pytest.raises(ConfigError, match=name):
            coordinator_config({name: value})


def test_a_request_that_another_replaced_is_not_answered():
    coordinator = GroupCoordinator()
    fields = {"protocol_type": "consumer", "protocols": {"range": b""}, "client_id": "c"}
    first, _ = (coordinator.join_group("g", **fields) for _ in range(2))
    coordinator.advance_by(10_000)
    member_id = first.response.member_id
    coordinator.join_group("g", **fields)  # a third: a rebalance, which waits for both
    parked, later = (coordinator.join_group("g", member_id=member_id, **fields) for _ in range(2))
    assert (parked.status, parked.done) == ("replaced", False)
    assert (later.status, later.done) == ("waiting", False)


def test_a_members_timeouts_in_a_decoded_append_are_its_own():
    coordinator = GroupCoordinator()
    fields = {"protocol_type": "consumer", "protocols": {"range": b""}, "client_id": "c"}
    times = {"session_timeout_ms": 7000, "rebalance_timeout_ms": 9000}
    joined = coordinator.join_group("g", **fields, **times)
    coordinator.advance_by(3000)
    answer = joined.response
    coordinator.sync_group("g", answer.generation_id, answer.member_id)
    (append,) = [event for event in coordinator.events if type(event).__name__ == "Append"]
    (member,) = append.decoded()["value"]["members"]
    assert {name: member[name] for name in times} == times


@pytest.mark.parametrize(
    ("name", "number"),
    [  # Errors.java
        *(("UNKNOWN_SERVER_ERROR", -1), ("NONE", 0), ("COORDINATOR_LOAD_IN_PROGRESS", 14)),
        *(("COORDINATOR_NOT_AVAILABLE", 15), ("NOT_COORDINATOR", 16), ("ILLEGAL_GENERATION", 22)),
        *(("INCONSISTENT_GROUP_PROTOCOL", 23), ("UNKNOWN_MEMBER_ID", 25)),
        *(("INVALID_SESSION_TIMEOUT", 26), ("REBALANCE_IN_PROGRESS", 27), ("NON_EMPTY_GROUP", 68)),
        *(("GROUP_ID_NOT_FOUND", 69), ("MEMBER_ID_REQUIRED", 79), ("GROUP_MAX_SIZE_REACHED", 81)),
        *(("FENCED_INSTANCE_ID", 82), ("GROUP_SUBSCRIBED_TO_TOPIC", 86)),
        *(("UNSTABLE_OFFSET_COMMIT", 88), ("OFFSET_METADATA_TOO_LARGE", 12)),
    ],
)
def test_an_error_has_kafkas_number(name, number):
    assert Error[name] == number


@pytest.mark.parametrize("at", [0, 2**63 - 1])
@pytest.mark.parametrize("request_id", [-(2**63), 0, 2**63 - 1])
def test_times_from_0_and_ids_of_64_bits_are_taken(at, request_id):
    event = {"at": at, "op": "describe_group", "id": request_id, "group_id": "g"}
    requests = list(load_trace([header(), event]).requests())
    assert [(at_ms, number) for _, at_ms, _, number, *_ in requests] == [(at, request_id)]


@pytest.mark.parametrize(
    "wrong",
    [{"at": -1}, {"at": 2**63}, {"id": -(2**63) - 1}, {"id": 2**63}, {"id": True}, {"at": True}],
)
def test_times_and_ids_beyond_64_bits_are_refused(wrong):
    event = {"at": 5, "op": "describe_group", "id": 1, "group_id": "g"} | wrong
    with pytest.raises(TraceError, match="line 2"):
        load_trace([header(), event])


def test_events_of_one_time_are_in_their_order_and_no_time_goes_back():
    events = [{"at": at, "op": "describe_group", "id": at_id, "group_id": "g"}
              for at_id, at in enumerate((7, 7, 8), 1)]  # fmt: skip
    assert [number for _, _, _, number, *_ in load_trace([header(), *events]).requests()] == [
        1, 2, 3,
    ]  # fmt: skip
    with pytest.raises(TraceError, match="line 3"):
        load_trace([header(), events[2], events[0]])


def test_differences_come_in_order_of_time_whichever_output_has_them():
    def event(at):
        return {"at": at, "event": "transition", "group_id": "g", "to": "Empty"}

    found = list(compare_traces([event(8), event(17)], [event(1), event(16)]))
    assert [difference.at for difference in found] == [1, 8, 16, 17]


@pytest.mark.parametrize(("length", "cut"), [(998, False), (999, True)])
def test_a_difference_shows_1000_characters_of_a_value_as_they_are(length, cut):
    """Quotation marks count; letters outside ASCII are shown, not their numbers."""
    line = {"at": 5, "event": "transition", "group_id": "g", "to": "é" * length}
    (found,) = compare_traces([line], [line | {"to": "Dead"}])
    shown = f'"{"é" * length}"'
    told = f"{shown[:1000]}... (1001 characters)" if cut else shown
    assert str(found).splitlines()[1] == f'  to: expected {told}, came "Dead"'


def test_a_recording_makes_its_folders_and_is_replaced_and_shows_letters_as_they_are(tmp_path):
    path = tmp_path / "one" / "two" / "it.trace.jsonl"
    coordinator, recording = GroupCoordinator(), Recording()
    coordinator._record_into(recording)
    for group in ("gé", "hö"):
        coordinator.describe_group(group)
        recording.write(path, coordinator.config, coordinator.now_ms)
        assert f'"{group}"' in path.read_text("utf-8").splitlines()[-1]
    assert len(path.read_text("utf-8").splitlines()) == 3


@pytest.mark.parametrize("broker_tells", [False, True])
def test_types_of_members_are_compared_only_with_a_response_that_has_them(broker_tells):
    def described(*members):
        return {"at": 5, "event": "response", "id": 1, "op": "consumer_group_describe",
                "groups": [{"group_id": "g", "members": list(members)}]}  # fmt: skip

    logged = {"member_id": "m"} | ({"member_type": "classic"} if broker_tells else {})
    came = described({"member_id": "m", "member_type": "consumer"})
    found = list(compare_responses([described(logged)], [came | {"at": 99}]))
    assert len(found) == broker_tells
    assert [difference.at for difference in found] == [5] * broker_tells
    assert came["groups"][0]["members"] == [{"member_id": "m", "member_type": "consumer"}]
    other = described({"member_id": "n", "member_type": "consumer"})
    assert len(list(compare_responses([described(logged)], [other]))) == 1


def test_a_response_that_only_one_side_has_is_a_difference():
    answer = {"at": 5, "event": "response", "id": 1, "op": "heartbeat", "error": "NONE"}
    (missing,) = compare_responses([answer], [{"at": 1, "event": "transition", "group_id": "g"}])
    (more,) = compare_responses([], [answer])
    assert (missing.at, missing.actual, more.at, more.expected) == (5, None, 5, None)
