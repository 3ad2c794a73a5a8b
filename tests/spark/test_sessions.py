"""Sessions over columns against one dictionary of deadlines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator.sessions import session_expirations

ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-50, 50), st.integers(1, 20)))


def model(rows):
    ended, deadlines = [], {}
    for member, time, timeout in sorted(rows, key=lambda row: row[1]):
        ended += sorted((d, m) for m, d in deadlines.items() if d <= time)
        deadlines = {m: d for m, d in deadlines.items() if d > time} | {member: time + timeout}
    return sorted([*ended, *((d, m) for m, d in deadlines.items())])


@given(ROWS)
def test_sessions_end_as_the_model_has_it(rows):
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    members, ended_ms = session_expirations(*columns)
    assert ended_ms.dtype == np.int64
    assert ended_ms.tolist() == sorted(ended_ms.tolist())
    assert sorted(zip(ended_ms.tolist(), members.tolist(), strict=True)) == model(rows)


def test_a_heartbeat_in_the_millisecond_of_the_end_comes_too_late():
    members, ended_ms = session_expirations(["m", "m"], [0, 10], 10)
    assert (members.tolist(), ended_ms.tolist()) == (["m", "m"], [10, 20])


def test_columns_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="timeout_ms"):
        session_expirations(["m"], [0], [1.5])
