"""In which slices of time a group moved in a topic: runs of them, beside a set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.insight.offsets import stalls
from coterie.insight.offsets.stalls import LEAST_SLICES, ActiveSlices

PAIRS = 3  # of a group and a topic; each is one key here
SLICE_MS = 10
moves = st.lists(
    st.lists(st.tuples(st.integers(0, PAIRS - 1), st.integers(0, 600)), max_size=12), max_size=8
)


class OneKeyEach:
    """Keys as ``Keys`` gives them: each is another pair of group and topic, in this order."""

    def __init__(self, order):
        self.order = order

    def __len__(self):
        return len(self.order)

    @property
    def entries(self):
        return np.array([(n, 0) for n in range(len(self))], [("group", "i4"), ("topic", "i4")])

    @property
    def group_names(self):
        return [f"group {n}" for n in self.order]

    topic_names = ("t",)


def put(slices, keys, some):
    of = np.array([keys.order.index(pair) for pair, _ in some], np.int64)
    slices.add(keys, of, np.array([ms for _, ms in some], np.int64))


def active(times, since, pause, slice_ms):
    first, last = since // slice_ms + 1, (since + pause) // slice_ms
    moved = {ms // slice_ms for ms in times} & set(range(first, last))
    return last - first >= LEAST_SLICES and 2 * len(moved) >= last - first


@given(moves, st.sampled_from((2, 5, 1 << 20)))
def test_runs_know_what_a_set_of_slices_knows(all_moves, stored):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stalls, "RUNS_STORED", stored)
        patch.setattr(stalls, "NEW_SLICES", 3)
        keys, slices = OneKeyEach(list(range(PAIRS))), ActiveSlices(SLICE_MS)
        for some in all_moves:
            put(slices, keys, some)
        assert len(slices.recent) <= 3  # each has a slice at least
        slices._settle()
        assert len(slices.begins) <= max(stored, PAIRS)
        assert slices.slice_ms == SLICE_MS or stored < 1 << 20  # it doubles only if it must
        for since in range(0, 300, 7):
            for pause in (0, 15, 80, 290):
                rows = {
                    "key": np.arange(PAIRS),
                    "since": np.full(PAIRS, since),
                    "pause": np.full(PAIRS, pause),
                }
                for pair, found in enumerate(slices.during(keys, rows).tolist()):
                    times = [ms for some in all_moves for which, ms in some if which == pair]
                    assert found == active(times, since, pause, slices.slice_ms)


def test_who_moves_all_the_time_is_one_run_however_long():
    keys, slices = OneKeyEach([0]), ActiveSlices(SLICE_MS)
    for at in range(0, 10_000, 50):
        put(slices, keys, [(0, at * SLICE_MS + one) for one in range(0, 50 * SLICE_MS, 7)])
    rows = {"key": np.array([0]), "since": np.array([0]), "pause": np.array([1_000])}
    assert slices.during(keys, rows).tolist() == [True]
    slices._settle()
    assert len(slices.begins) == 1


@pytest.mark.parametrize(("count", "size"), [(1, 2), (1 << 16, 2), ((1 << 16) + 1, 8)])
def test_key_numbers_are_stored_in_two_bytes_if_all_have_room_there(count, size):
    keys = np.array([0, count - 1], np.int64)
    assert stalls.small(keys, count).tolist() == keys.tolist()
    assert stalls.small(keys, count).itemsize == size
