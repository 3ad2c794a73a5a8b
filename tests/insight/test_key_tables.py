"""What is counted by key, against dictionaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.insight.offsets import jumps
from coterie.insight.offsets.occurrences import OCCURRENCE, Occurrences
from coterie.insight.records.key_index import Table, rows_by_key
from coterie.insight.records.record_columns import is_before
from support.examples import examples

PLACES = st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 50), st.integers(0, 50))


def column(values):
    return np.array(values, np.int64)


def occurrence(number, count, low, more):
    """An occurrence from its place in the log; each field has values of its own."""
    return {
        "offset": low,
        "timestamp": 7000 + number,
        "log_offset": 100 + number,
        "file": number // 4,
        "position": 300 + number,
        "previous_offset": low + more,
        "previous_log_offset": 50 + number,
        "began_ms": 6000 + number,
        "count": count,
    }


@settings(max_examples=examples(100))
@given(st.lists(PLACES, min_size=1, max_size=12), st.integers(0, 12))
def test_what_happens_to_a_key_again_is_summed_up_in_any_order(places, cut):
    rows = [(key, occurrence(number, *rest)) for number, (key, *rest) in enumerate(places)]
    occurrences = Occurrences()
    occurrences.fit(4)
    for some in (rows[cut:], rows[:cut]):
        columns = {name: column([row[name] for _, row in some]) for name in OCCURRENCE}
        occurrences.put(column([key for key, _ in some]), columns)
    found = {one.key: one._asdict() for one in occurrences}
    assert sorted(found) == sorted({key for key, _ in rows})
    for key, actual in found.items():
        own = [row for at, row in rows if at == key]
        counts = [row["count"] for row in own]
        assert actual == {
            "key": key,
            "times": len(own),
            "commits": sum(counts),
            "moved": sum(row["previous_offset"] - row["offset"] for row in own),
            "fewest": min(counts),
            "most": max(counts),
            "lowest": min(row["offset"] for row in own),
            "highest": max(row["previous_offset"] for row in own),
            "first": own[0],
            "last": own[-1],
        }


@given(st.lists(st.integers(0, 4), max_size=12))
def test_rows_of_a_key_stand_together_in_log_order(keys):
    rows = np.arange(len(keys)) + 10
    grouped = rows_by_key(column(keys), rows)
    expected = [[10 + at for at, one in enumerate(keys) if one == key] for key in sorted({*keys})]
    assert [run.tolist() for run in grouped.runs()] == expected
    assert grouped.order[grouped.first].tolist() == [run[0] for run in expected]
    assert grouped.order[grouped.last].tolist() == [run[-1] for run in expected]
    assert grouped.keys.tolist() == sorted(keys)


@pytest.mark.parametrize("rows", [4, 400])
def test_a_row_that_is_named_twice_gets_both_weights_however_large_the_table(rows):
    table = Table(count=(np.int64, 5), seen=(np.bool_, False))
    table.fit(rows)
    table.add("count", column([1, 3, 1]), column([10, 20, 30]))
    table.add("count", column([0, 0]))
    assert table["count"][:4].tolist() == [7, 45, 5, 25]


def test_a_table_that_grows_keeps_its_rows_and_fills_the_others():
    table = Table(at=(np.int64, -1), seen=(np.bool_, True))
    for count, expected in ((2, 2), (3, 3), (50, 50), (4, 50)):
        table.fit(count)
        assert (len(table["at"]), len(table["seen"])) == (expected, expected)
        table["at"][1] += 2
    assert table["at"].tolist() == [-1, 7, *[-1] * 48]
    assert table["seen"].all()


# ---- times from 0 on


def test_a_record_is_before_a_time_if_its_own_is_known_and_less():
    times = column([-1, 0, 499, 500, 501])
    assert is_before(times, 500).tolist() == [False, True, True, False, False]
    assert not is_before(times, None).any()


@pytest.mark.parametrize(
    ("now", "before", "ms"),
    [(0, 0, 0), (700, 0, 700), (700, 200, 500), (200, 700, 0), (-1, 0, None), (700, -1, None)],
)
def test_the_time_between_commits_is_long_if_one_of_them_has_none(now, before, ms):
    expected = jumps.LONG_MS if ms is None else ms
    assert jumps.elapsed_ms(column([now]), column([before])).tolist() == [expected]
