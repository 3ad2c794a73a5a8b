"""Lines of traces and of their outputs: as text, bytes or objects, and lines without text."""

import json
from types import SimpleNamespace

import pytest

from coterie import ArgumentError, TraceError, load_trace, run_trace
from coterie.coordinator.requestlog import import_request_log
from coterie.coordinator.trace_diff import Difference, compare_responses, compare_traces
from coterie.coordinator.whatif import _has_left, _was_accepted
from coterie.values import Error
from support.request_lines import commit, line
from support.trace_data import header, join

EVENTS = [header(), join(0, 1), {"at": 9000, "op": "advance"}]


@pytest.mark.parametrize(
    "form",
    [dict, json.dumps, lambda event: json.dumps(event).encode()],
    ids=["dict", "str", "bytes"],
)
def test_a_trace_is_the_same_in_each_form_and_with_empty_lines(form):
    expected = list(run_trace(EVENTS))
    lines = list(map(form, EVENTS))
    assert list(run_trace(lines)) == expected
    assert list(run_trace(["", lines[0], " \n", b"", *lines[1:], "\n"])) == expected


@pytest.mark.parametrize(
    ("own", "given", "began_ms"),
    [
        (None, None, 3000),  # Kafka's default
        ({"group.initial.rebalance.delay.ms": 1000}, {"group.max.size": 5}, 1000),
        ({"group.initial.rebalance.delay.ms": 1000}, {"group.initial.rebalance.delay.ms": 9}, 9),
    ],
)
def test_settings_take_the_place_of_the_traces_own_of_the_same_names(own, given, began_ms):
    lines = run_trace([header() | {"config": own}, *EVENTS[1:]], given)
    assert [line["at"] for line in lines if line["event"] == "response"] == [began_ms]


def test_settings_of_a_trace_are_a_mapping():
    with pytest.raises(ArgumentError, match="settings must be a mapping"):
        list(run_trace(EVENTS, [("group.max.size", 5)]))


def test_empty_lines_are_counted_in_the_place_of_an_error():
    with pytest.raises(TraceError, match="time goes back") as raised:
        load_trace(
            ["", header(), b"\n", {"at": 5, "op": "advance"}, "", {"at": 4, "op": "advance"}]
        )
    assert raised.value.line == 6


def test_outputs_are_compared_without_their_empty_lines():
    event = {"at": 5, "event": "transition", "group_id": "g", "to": "Empty"}
    assert not list(compare_traces(["", json.dumps(event), "\n"], [event]))
    with pytest.raises(ValueError, match="line 2: no JSON"):
        list(compare_traces(["", "{"], []))


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        ({"a": 1}, None, 'at 5: what\n  expected: {"a": 1}\n  came:     nothing'),
        (None, {"a": "ß"}, 'at 5: what\n  expected: nothing\n  came:     {"a": "ß"}'),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "at 5: what\n  b: expected 2, came 3"),
        ({"a": 1}, {"c": 0}, "at 5: what\n  a: expected 1, came nothing\n"
                             "  c: expected nothing, came 0"),
    ],
)  # fmt: skip
def test_a_difference_shows_the_fields_that_differ_or_the_only_line(expected, actual, text):
    assert str(Difference(5, "what", expected, actual)) == text


def left(error, *members):
    return SimpleNamespace(error=error, members=[SimpleNamespace(error=one) for one in members])


@pytest.mark.parametrize(
    ("recorded", "place", "has_left"),
    [
        (None, 0, True),  # there is no response yet
        (left(Error.NONE, Error.NONE), 0, True),
        (left(Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.NONE), 1, True),
        (left(Error.NONE, Error.NONE, Error.UNKNOWN_MEMBER_ID), 1, False),
        (left(Error.NOT_COORDINATOR), 0, False),
        (left(Error.NOT_COORDINATOR, Error.NONE), 0, False),
    ],
)
def test_a_member_has_left_unless_its_leave_was_refused(recorded, place, has_left):
    assert _has_left(recorded, place) is has_left


def committed(*errors):
    return SimpleNamespace(partitions=[SimpleNamespace(error=one) for one in errors])


@pytest.mark.parametrize(
    ("recorded", "is_accepted"),
    [
        (None, True),  # there is no response yet
        (SimpleNamespace(error=Error.NONE), True),
        (SimpleNamespace(error=Error.ILLEGAL_GENERATION), False),
        (SimpleNamespace(error=Error.REBALANCE_IN_PROGRESS), False),
        (committed(), True),
        (committed(Error.NONE, Error.NONE), True),
        (committed(Error.NONE, Error.OFFSET_METADATA_TOO_LARGE), True),  # of its generation still
        (committed(Error.NONE, Error.ILLEGAL_GENERATION), False),
        (committed(Error.STALE_MEMBER_EPOCH), False),
        (committed(Error.UNKNOWN_MEMBER_ID), False),
        (committed(Error.GROUP_ID_NOT_FOUND), False),
    ],
)
def test_a_request_is_one_of_its_generation_unless_it_was_refused_as_another_ones(
    recorded, is_accepted
):
    assert _was_accepted(recorded) is is_accepted


def test_a_partition_that_the_broker_refused_is_no_part_of_a_fetch():
    """The broker checks the user's rights before the coordinator gets the others."""
    rows = [{"partitionIndex": number, "committedOffset": -1 if code else 10 + number,
             "committedLeaderEpoch": -1, "metadata": "", "errorCode": code}
            for number, code in ((0, 0), (1, 29), (2, 0))]  # fmt: skip
    topics = [{"name": "t", "partitionIndexes": [0, 1, 2]}]
    found = [{"groupId": "g", "topics": [{"name": "t", "partitions": rows}], "errorCode": 0}]
    fetch = line("OFFSET_FETCH", 8, {"groups": [{"groupId": "g", "topics": topics}],
                                     "requireStable": False}, {"groups": found}, 9)  # fmt: skip
    made = import_request_log([commit(0, 0, 0), fetch])
    assert made.trace[2]["topics"] == [{"topic": "t", "partitions": [0, 2]}]
    assert [row["partition"] for row in made.expected[1]["partitions"]] == [0, 2]
    assert list(compare_responses(made.expected, run_trace(made.trace))) == []


RESPONSE = {"at": 5, "event": "response", "id": 1, "error": "NONE"}
DESCRIBED = {"op": "consumer_group_describe"}
FETCHED = {"topic": "t", "partition": 0, "offset": 7}
OTHER = {"topic": "t", "partition": 1, "offset": 8, "leader_epoch": 4}
ELSEWHERE = OTHER | {"topic": "u", "partition": 0}


@pytest.mark.parametrize(
    ("expected", "actual", "is_same"),
    [
        (DESCRIBED, DESCRIBED, True),
        (DESCRIBED, DESCRIBED | {"groups": None}, True),
        (DESCRIBED | {"groups": [{}]}, DESCRIBED, False),
        ({"op": "offset_fetch", "partitions": [FETCHED]},
         {"op": "offset_fetch", "partitions": [FETCHED | {"leader_epoch": 3}]}, True),
        ({"op": "offset_fetch", "partitions": [FETCHED, OTHER]},
         {"op": "offset_fetch", "partitions": [FETCHED | {"leader_epoch": 3}, OTHER]}, True),
        ({"op": "offset_fetch", "partitions": [FETCHED]},
         {"op": "offset_fetch", "partitions": [FETCHED, "x"]}, False),
        ({"op": "offset_fetch", "partitions": [FETCHED, ELSEWHERE]},
         {"op": "offset_fetch", "partitions": [FETCHED | {"leader_epoch": 3}, ELSEWHERE]}, True),
        ({"op": "offset_fetch", "partitions": [FETCHED, "x"]},
         {"op": "offset_fetch", "partitions": [FETCHED | {"leader_epoch": 3}]}, False),
        ({"op": "offset_fetch", "partitions": [FETCHED]}, {"op": "offset_fetch"}, False),
        ({"op": "offset_fetch"}, {"op": "offset_fetch", "partitions": [FETCHED]}, False),
    ],
)  # fmt: skip
def test_responses_that_lack_lists_or_have_others_are_compared_too(expected, actual, is_same):
    found = list(compare_responses([RESPONSE | expected], [RESPONSE | actual]))
    assert (not found) == is_same
