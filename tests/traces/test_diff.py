"""Outputs of version 2 are compared by the rules of the format, as Kafka's were.

Source: the rules of the trace format, docs/rules/trace-format.md#comparison.
"""

import json

import pytest

from coterie import run_trace
from coterie.traces.diff import compare_traces
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
            "group_id": "g",
            "members": [
                {
                    "member_id": name,
                    "subscribed_topic_names": ["t", "u"],
                    "assignment": [
                        {"topic_id": topic, "topic": topic, "partitions": [0, 1, 10]}
                        for topic in ("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ")
                    ],
                }
                for name in "ab"
            ],
        }
    ],
}


def differences(expected, actual):
    return list(compare_traces(expected, actual))


@pytest.mark.parametrize("name", NAMES[::9])
def test_an_output_has_no_difference_from_kafkas(name):
    assert not differences(golden.expected(name), run_trace(golden.trace(name)))


def turned(value):
    """The same with every list in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(item) for key, item in value.items()}
    return [turned(item) for item in reversed(value)] if isinstance(value, list) else value


def test_lists_of_a_response_are_compared_without_their_order_at_any_depth():
    assert not differences([DESCRIBE], [turned(DESCRIBE)])
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
