"""Outputs of version 2 are compared by the rules of the format, as Kafka's were.

Source: the rules of the trace format, docs/rules/trace-format.md#comparison.
"""

import json

import pytest

from coterie import run_trace
from coterie.coordinator.trace_diff import compare_responses, compare_traces
from support.consumer_groups import golden

NAMES = golden.names()
DESCRIBE = {
    "at": 5,
    "event": "response",
    "id": 1,
    "op": "consumer_group_describe",
    "error": "NONE",
    "groups": [
        {
            "group_id": group,
            "members": [
                {
                    "member_id": name,
                    "subscribed_topic_names": ["t", "u"],
                    **{
                        held: [
                            {"topic_id": topic, "topic": topic, "partitions": [0, 1, 10]}
                            for topic in ("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ")
                        ]
                        for held in ("assignment", "target_assignment")
                    },
                }
                for name in "ab"
            ],
        }
        | {"group_epoch": epoch}
        for group, epoch in (("g", 9), ("h", 8))
    ],
}
FETCH = {
    "at": 5,
    "event": "response",
    "id": 1,
    "op": "offset_fetch",
    "partitions": [
        {"topic": topic, "partition": number, "offset": offset}
        for topic, number, offset in (("t", 0, 9), ("t", 1, 8), ("u", 0, 7), ("u", 1, 6))
    ],
}
LEAVE = {
    "at": 5,
    "event": "response",
    "id": 1,
    "op": "leave_group",
    "members": [
        {"member_id": name, "group_instance_id": instance, "error": error}
        for name, error in (("", "UNKNOWN_MEMBER_ID"), ("m", "NONE"))
        for instance in "ij"
    ],
}


def differences(expected, actual):
    return list(compare_traces(expected, actual))


@pytest.mark.parametrize("name", NAMES[::9])
def test_an_output_has_no_difference_from_kafkas(name):
    assert not differences(golden.expected(name), run_trace(golden.trace(name)))


def turned(value):
    """The same with every list in the opposite order, and the fields of every object."""
    if isinstance(value, dict):
        return {key: turned(item) for key, item in reversed(value.items())}
    return [turned(item) for item in reversed(value)] if isinstance(value, list) else value


@pytest.mark.parametrize("answer", [DESCRIBE, FETCH, LEAVE], ids=lambda answer: answer["op"])
def test_lists_and_fields_of_a_response_are_compared_without_their_order(answer):
    assert not differences([answer], [turned(answer)])


def test_lists_of_a_response_are_compared_without_their_order_at_any_depth():
    other = json.loads(json.dumps(DESCRIBE))
    other["groups"][0]["members"][1]["assignment"][0]["partitions"] = [0, 1]
    (found,) = differences([DESCRIBE], [turned(other)])
    assert found.what == "response to consumer_group_describe (id 1)"


def test_what_explains_is_not_compared():
    append = {"at": 5, "event": "append", "group_id": "g", "key": "AA==", "value": "AA=="}
    refused = {"at": 5, "event": "response", "id": 1, "op": "x", "error": "INVALID_REQUEST"}
    expected = [
        {"at": 5, "event": "timer", "key": "session-timeout-g-m"},
        append | {"record": {"type": 3}},
        refused | {"error_message": "names or an expression"},
        {"at": 9, "event": "note", "text": "the load failed"},
    ]
    assert not differences(expected, [append, refused])


def test_a_change_of_a_group_has_its_place_among_the_appends():
    append = {"at": 5, "event": "append", "group_id": "g", "key": "AA==", "value": None}
    change = {"at": 5, "event": "group", "group_id": "g", "type": "consumer", "state": "Stable"}
    assert not differences([append, change], [append, change])
    (found,) = differences([append, change], [change, append])
    assert found.what == "group 'g', append number 1 of this moment"
    (found,) = differences([append, change], [append, change | {"state": "Reconciling"}])
    assert 'expected "Stable", came "Reconciling"' in str(found)


def test_of_each_group_the_first_difference_of_a_moment_is_shown():
    """The others may follow from it."""
    expected, actual = (
        [{"at": 5, "event": "transition", "group_id": group, "to": to}
         for to in order for group in groups]
        for groups, order in (("gh", ["Empty", "Dead", "Stable"]), ("hg", ["Empty", "Stable"]))
    )  # fmt: skip
    found = differences(expected, actual)
    assert [(one.what, one.expected["to"], one.actual["to"]) for one in found] == [
        (f"group {group!r}, transition number 2 of this moment", "Dead", "Stable") for group in "gh"
    ]


def test_differences_of_responses_come_in_the_order_in_which_they_were_expected():
    answers = [{"at": 5, "event": "response", "id": number, "op": "heartbeat"} for number in (1, 2)]
    came = [answer | {"error": "UNKNOWN_MEMBER_ID"} for answer in reversed(answers)]
    for compare in (compare_traces, compare_responses):
        assert [one.what[-6:] for one in compare(answers, came)] == ["(id 1)", "(id 2)"]


def test_a_difference_is_named_by_the_line_that_was_expected():
    heartbeat = {"at": 5, "event": "response", "id": 1, "op": "heartbeat", "error": "NONE"}
    leave = heartbeat | {"op": "leave_group"}
    (found,) = differences([heartbeat], [leave])
    assert found.what == "response to heartbeat (id 1)"
    (found,) = differences([], [leave])
    assert found.what == "response to leave_group (id 1)"


def test_a_line_that_the_other_output_lacks_is_a_difference_on_one_side():
    line = {"at": 5, "event": "response", "id": 1, "op": "heartbeat", "error": "NONE"}
    append = {"at": 5, "event": "append", "group_id": "g", "key": "AA=="}
    for one in (line, append):
        (missing,) = differences([one], [])
        (extra,) = differences([], [one])
        assert (missing.expected, missing.actual) == (one, None)
        assert (extra.expected, extra.actual) == (None, one)
        assert str(extra).splitlines()[1] == "  expected: nothing"


def test_a_different_response_has_the_time_of_the_expected_one_or_else_its_own():
    line = {"at": 5, "event": "response", "id": 1, "op": "heartbeat", "error": "NONE"}
    other = line | {"at": 7, "error": "UNKNOWN_MEMBER_ID"}
    assert list(compare_responses([line], [line | {"at": 7}])) == []
    for expected, actual, at in (([line], [other], 5), ([line], [], 5), ([], [other], 7)):
        assert [found.at for found in compare_responses(expected, actual)] == [at]


def test_an_append_keeps_the_order_of_its_lists():
    append = {"at": 5, "event": "append", "group_id": "g", "partitions": [1, 0]}
    assert differences([append], [append | {"partitions": [0, 1]}])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", r"line 2: must be an object with at, not \[1\]"),
        ({"event": "note"}, "line 2: must be an object with at"),
        ({"at": "5"}, "line 2: must be an object with at"),
        ("[" * 100_000, "line 2: nested too deeply"),
    ],
    ids=["list", "no time", "time as text", "nested deeply"],
)
def test_what_is_no_line_of_an_output_is_refused_with_its_number(line, message):
    with pytest.raises(ValueError, match=message):
        differences([{"at": 5, "event": "note"}, line], [])
