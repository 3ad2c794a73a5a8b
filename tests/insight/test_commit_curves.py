"""What each partition had committed when, thinned to so many points."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie._core.fold.record_scan import KEY_DTYPE
from coterie.insight.offsets.commit_curves import CommitCurves
from support.examples import examples

KEYS = 3
# A commit: its key, its time (-1: none), whether it has no effect or is a tombstone.
COMMITS = st.tuples(st.integers(0, KEYS - 1), st.integers(-1, 1_000), st.sampled_from("ccccan"))
ENTRIES = np.zeros(KEYS, KEY_DTYPE)
ENTRIES["partition"] = range(KEYS)
SCAN = SimpleNamespace(keys=lambda: ENTRIES, key_count=KEYS, groups=["g"], topics=["t"])


def taken(pieces, most_points):
    curves, number = CommitCurves(most_points), 0
    for piece in pieces:
        keys, times, what = zip(*piece, strict=True) if piece else ((), (), ())
        records = SimpleNamespace(
            scan=SCAN,
            key=np.array(keys, np.int32),
            timestamp=np.array(times, np.int64),
            offset=np.arange(number, number + len(piece)),
            effective=np.array([one != "a" for one in what], np.bool_),
            tombstone=np.array([one == "n" for one in what], np.bool_),
        )
        number += len(piece)
        curves.take(records)
    return {
        one.partition: list(zip(one.times_ms, one.offsets, strict=True)) for one in curves.curves()
    }


@settings(max_examples=examples(200))
@given(st.lists(st.lists(COMMITS, max_size=40), max_size=5), st.integers(KEYS, 60))
def test_a_thinned_curve_is_a_part_of_the_commits_and_has_the_last(pieces, most_points):
    whole = {}
    for offset, (key, ms, what) in enumerate(one for piece in pieces for one in piece):
        if ms >= 0 and what == "c":
            whole.setdefault(key, []).append((ms, offset))
    assert taken(pieces, 10_000).keys() == whole.keys()
    found = taken(pieces, most_points)
    assert found.keys() == whole.keys()
    assert sum(map(len, found.values())) <= most_points
    for key, points in whole.items():
        left = iter(points)
        assert all(point in left for point in found[key])  # in the order of the log
        assert found[key][-1] == points[-1]


def test_more_keys_than_points_leave_one_of_each():
    pieces = [[(key, at, "c") for key in range(KEYS)] for at in range(100)]
    assert taken(pieces, 1) == {key: [(99, 99 * KEYS + key)] for key in range(KEYS)}
