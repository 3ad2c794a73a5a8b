"""Merging partial states of any cut equals one scan; and one scan equals the shortest model.

The cuts fall on any batch, the pieces are merged in any association, and some travel as bytes.
"""

import functools
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import ScanOptions, merge, scan
from coterie._core.codec.batch import batch_boundaries
from support.examples import examples
from support.fold.load_model import events_of, in_words, name, state_in_words
from support.fold.made_logs import GROUPS, LOGS, TANGLES, TIMES, as_bytes, laid_out
from support.fold.pieces import (
    MODES,
    cut_and_merged,
    damaged,
    history_of,
    one_scan,
    pieces_of,
    slow,
    what_it_says,
)
from support.golden_data import cases, corrupt_cases
from support.history_model import HistoryModel

# ---- golden logs --------------------------------------------------------------------------------


@functools.cache
def times_of(case):
    """A few times at which the log can be looked at, and none."""
    state = one_scan(pieces_of(case), ScanOptions(history=True))
    commits = [
        one for fold in state.partitions.values() for each in history_of(fold) for one in each
    ]
    times = sorted({event[3] for event, _ in commits})
    return [None, *times[:: max(1, len(times) // 4)]]


@functools.cache
def one_scan_of(case, options):
    return what_it_says(one_scan(pieces_of(case), options))


def check_case(case, data):
    options = ScanOptions(
        on_fault=data.draw(st.sampled_from(MODES)),
        at_ms=data.draw(st.sampled_from(times_of(case))),
        history=data.draw(st.booleans()),
    )
    merged = cut_and_merged(data.draw, pieces_of(case), options)
    assert what_it_says(merged) == one_scan_of(case, options)


@pytest.mark.parametrize("case", cases())
@given(st.data())
@settings(slow, max_examples=examples(12))
def test_any_cut_of_a_golden_log_merges_to_one_scan(case, data):
    check_case(case, data)


@pytest.mark.parametrize("case", corrupt_cases())
@given(st.data())
@settings(slow, max_examples=examples(12))
def test_any_cut_of_a_corrupt_log_merges_to_one_scan(case, data):
    check_case(f"corrupt/{case}", data)


@pytest.mark.parametrize("case", ["compacted", "transactions", "old-formats"])
@given(st.data())
@settings(slow, max_examples=examples(30))
def test_any_cut_of_a_log_damaged_anywhere_merges_to_one_scan(case, data):
    pieces = data.draw(damaged(case))
    options = ScanOptions(on_fault=data.draw(st.sampled_from(MODES)))
    merged = cut_and_merged(data.draw, pieces, options)
    assert what_it_says(merged) == what_it_says(one_scan(pieces, options))


# ---- logs that no broker wrote, against a model -------------------------------------------------


@given(LOGS, st.none() | TIMES)
@settings(slow, max_examples=examples(100))  # the next test scans three times as many, too
def test_one_scan_is_what_the_model_says(steps, at_ms):
    log = laid_out(steps)
    state = one_scan([(0, "f", as_bytes(log))], ScanOptions(at_ms=at_ms))
    assert state.partitions[0].faults == []
    assert state_in_words(state) == in_words(log, at_ms)


@given(LOGS, st.none() | TIMES, st.booleans(), st.data())
@settings(slow, max_examples=examples(300))
def test_any_cut_in_any_association_is_what_the_model_says(steps, at_ms, history, data):
    log = laid_out(steps)
    pieces = [(0, "f", as_bytes(log))]
    options = ScanOptions(at_ms=at_ms, history=history)
    merged = cut_and_merged(data.draw, pieces, options)
    assert state_in_words(merged) == in_words(log, at_ms)
    assert merged.partitions[0].faults == []
    assert what_it_says(merged) == what_it_says(one_scan(pieces, options))


@pytest.mark.parametrize("claim", TANGLES)
def test_every_cut_of_a_tangle_is_what_the_model_says(claim):
    data = as_bytes(TANGLES[claim])
    places = batch_boundaries(data, 1)
    options = ScanOptions(history=True)
    parts = [scan(data[a:b], partition=0, options=options) for a, b in itertools.pairwise(places)]
    commits = HistoryModel(0)
    history = commits.feed_events(events_of(TANGLES[claim], None)), commits.left()
    for cuts in itertools.product([False, True], repeat=len(parts) - 1):
        for from_the_right in (False, True):
            states = [parts[0]]
            for part, apart in zip(parts[1:], cuts, strict=True):
                states = [*states, part] if apart else [*states[:-1], merge([states[-1], part])]
            while len(states) > 1:
                at = len(states) - 2 if from_the_right else 0
                states[at : at + 2] = [merge(states[at : at + 2])]
            assert state_in_words(states[0]) == in_words(TANGLES[claim], None)
            assert history_of(states[0].fold(0)) == history


@given(LOGS, st.sets(st.sampled_from(GROUPS)))
@settings(slow, max_examples=examples(100))
def test_a_scan_of_some_groups_is_the_whole_scan_without_the_others(steps, wanted):
    log = laid_out(steps)
    names = frozenset(map(name, wanted))
    some = one_scan([(0, "f", as_bytes(log))], ScanOptions(groups=names))
    whole = in_words(log, None)
    assert state_in_words(some) == {group: whole[group] for group in whole if group in names}


@given(LOGS, st.sets(st.sampled_from(["g", "h", "\ufffd", "not there"])))
@settings(slow, max_examples=examples(50))
def test_groups_without_the_offsets_of_others_are_the_same_groups(steps, wanted):
    state = one_scan([(0, "f", as_bytes(laid_out(steps)))], ScanOptions())
    assert state.groups(offsets_of=wanted) == [
        {**row, "offsets": row["offsets"] if row["group_id"] in wanted else []}
        for row in state.groups()
    ]
