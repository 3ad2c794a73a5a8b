"""Sessions that end, from columns of heartbeats: examples of the rule, and a plain loop beside."""

import random

import numpy as np
import pytest

from coterie import ArgumentError
from coterie.coordinator.sessions import session_expirations


def ended(member, heartbeat_ms, timeout_ms):
    names, times = session_expirations(member, heartbeat_ms, timeout_ms)
    return list(zip(map(str, names), map(int, times), strict=True))


def test_a_session_ends_its_timeout_after_the_last_heartbeat_before():
    # the heartbeat of b at 15 is too late by nothing, and begins a new session
    member, at_ms = ["a", "b", "a", "b", "c"], [0, 5, 8, 15, 20]
    assert ended(member, at_ms, 10) == [("b", 15), ("a", 18), ("b", 25), ("c", 30)]
    assert ended(member, at_ms, [10, 11, 10, 40, 7]) == [("a", 18), ("c", 27), ("b", 55)]
    assert ended([], np.zeros(0, dtype=np.int64), 10) == []


@pytest.mark.parametrize("seed", range(5))
def test_sessions_end_as_in_a_loop_over_the_heartbeats_in_their_order(seed):
    chance = random.Random(seed)
    beats = [(chance.choice("abcd"), chance.randrange(4000), chance.choice([70, 300, 1500]))
             for _ in range(60)]  # fmt: skip
    due, expected = {}, []
    for name, at_ms, timeout_ms in sorted(beats, key=lambda beat: beat[1]):
        if name in due and due[name] <= at_ms:
            expected.append((name, due[name]))
        due[name] = at_ms + timeout_ms
    expected += due.items()
    assert sorted(ended(*map(list, zip(*beats, strict=True)))) == sorted(expected)
    times = [at_ms for _, at_ms in ended(*map(list, zip(*beats, strict=True)))]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("columns", "named"),
    [((["a"], [0, 1], 5), "heartbeat_ms must be a column of 1 integers"),
     ((["a"], [0.5], 5), "heartbeat_ms"), ((["a"], [0], 5.5), "timeout_ms must be")],
)  # fmt: skip
def test_columns_of_other_forms_are_refused(columns, named):
    with pytest.raises(ArgumentError, match=named):
        session_expirations(*columns)
