"""What each check of a scenario's values takes, at and beyond its bounds."""

import pytest

from coterie.designs.checks import CHECKS, MOST, MOST_STREAMS, ScenarioError

INT64 = 2**63
TAKEN = {
    "count": [0, 1, MOST],
    "positive": [1, 2, MOST],
    "bool": [True, False],
    "text": ["", "a/b"],
    "name": ["a", "a b"],
    "topic": ["a"],
    "path": ["/a", "/a/b"],
    "settings": [{}, {"a": "b", "c": INT64, "d": -INT64, "e": True}],
    "streams": [{"a": 1, "b": MOST_STREAMS}],
    "stream_count": [1, 2, MOST_STREAMS],
    "ids": [[0], [2, 1]],
    "replicas": [[[0]], [[1, 2], [0]]],
}
REFUSED = {
    "count": [-1, MOST + 1, True, 1.0, "1", None],
    "positive": [0, -1, MOST + 1, True, 1.0],
    "bool": [0, 1, "true", None],
    "text": [None, 1, b"a"],
    "name": ["", "a/b", None, 1],
    "topic": ["", "/"],
    "path": ["", "a", "/", "/a/", "//a", "/a//b", None, 1],
    "settings": [None, [], {1: "a"}, {"a": None}, {"a": 1.5}, {"a": INT64 + 1}, {"a": -INT64 - 1}],
    "streams": [{}, [], {"": 1}, {"a": 0}, {"a": MOST_STREAMS + 1}],
    "stream_count": [0, MOST_STREAMS + 1, True],
    "ids": [[], [-1], [0, 0], "0", 0, [True]],
    "replicas": [[], [[]], [[0, 0]], "0", [0]],
}


@pytest.mark.parametrize("kind", CHECKS)
def test_a_value_is_taken_within_its_bounds_and_refused_with_its_place_beyond(kind):
    for value in TAKEN[kind]:
        taken = CHECKS[kind](value, "events[3].at")
        assert taken == (tuple(value) if kind == "ids" else value) or kind == "replicas"
    for value in REFUSED[kind]:
        with pytest.raises(ScenarioError, match=r"^events\[3\]\.at") as refused:
            CHECKS[kind](value, "events[3].at")
        assert "\n" not in str(refused.value)


def test_the_bounds_are_those_of_json_and_of_threads_that_a_machine_can_run():
    assert (MOST, MOST_STREAMS) == (9_007_199_254_740_992, 10_000)
