"""A log with many faults: a state has the first ones in full, and counts the others by kind."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie._core.fold import fold_state
from coterie.cli.replay import summary_lines
from coterie.cli.verify import Hints, segment_faults
from coterie.log.folders import find_segments
from coterie.state.document import partition_rows
from coterie.state.faults import fault_line
from coterie.state.partial import PartialState, merge, scan
from coterie.state.replay_engine import read_of, summarize
from support.log_writer import batch, commit, commit_key

KEPT = 3
KEY, VALUE = (0, b"\0\1\0", b"x"), (0, commit_key(1, b"g", b"t", 0), b"\0")  # cut short
BATCHES = [
    batch(0, [commit(0)]), batch(1, [commit(0), KEY, VALUE]), batch(4, [VALUE]), batch(5, [KEY]),
    batch(6, [commit(0)])[:-1] + b"\xff", batch(7, [KEY, KEY, VALUE]),
]  # fmt: skip
KINDS = Counter(key=4, value=3, crc=1)


@pytest.fixture(autouse=True, scope="module")
def _few_are_kept():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_state, "FAULTS_MAX", KEPT)
        yield


def states(cuts):
    """The states of the log, cut before these batches; each as another process gets it."""
    bounds = [0, *sorted(cuts), len(BATCHES)]
    for first, end in itertools.pairwise(bounds):
        place = sum(map(len, BATCHES[:first]))
        state = scan(b"".join(BATCHES[first:end]), partition=0, file="f", position=place)
        yield PartialState.from_bytes(state.to_bytes())


def faults_of(state):
    fold = state.partitions[0]
    return fold.faults, fold.more_faults


@given(st.sets(st.integers(1, len(BATCHES) - 1)))
def test_states_of_any_pieces_have_the_first_faults_and_count_the_others(cuts):
    merged = merge(states(cuts))
    faults, more = faults_of(merged)
    assert [(fault.kind, fault.offset) for fault in faults] == [
        ("key", 2), ("value", 3), ("value", 4)]  # fmt: skip
    assert (more, merged.partitions[0].fault_count) == ({"key": 3, "value": 1, "crc": 1}, 8)


def test_a_table_a_document_and_a_summary_say_that_there_are_more():
    pytest.importorskip("pyarrow")
    state = merge(states({2, 4}))
    rows = state.to_arrow()["faults"].to_pylist()
    assert [row["position"] is None for row in rows] == [False] * KEPT + [True] * 3
    assert [(row["kind"], row["detail"]) for row in rows[KEPT:]] == [
        (kind, f"and {count} more of this kind: coterie verify lists them")
        for kind, count in (("crc", 1), ("key", 3), ("value", 1))
    ]
    (document,) = partition_rows(state)
    assert len(document["messages"]) == len(rows)
    assert document["messages"][-1] == "f: value: " + rows[-1]["detail"]
    summary = summarize(read_of(state), 1)
    assert (summary.fault_count, len(summary.faults)) == (8, KEPT)
    lines = summary_lines(summary, None, 1.0)
    assert "8 faults" in lines[0]
    assert [line for line in lines if line.startswith("fault: ")] == [
        *(f"fault: {fault_line(fault)}" for fault in summary.faults),
        "fault: and 5 more: see coterie verify",
    ]


def test_verify_lists_them_all(tmp_path):
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(BATCHES))
    (segment,) = find_segments([str(path)]).segments
    data = memoryview(b"".join(BATCHES))
    assert Counter(fault.kind for fault in segment_faults(segment, data, Hints())) == KINDS


def test_spark_merges_pieces_to_the_same_counts():
    pytest.importorskip("pyspark")
    from coterie_spark.replay_job import merging
    from coterie_spark.replay_job.products import summary_of

    merged = merging.PartitionMerge(0, "parquet")
    for state in states({1, 2, 5}):
        assert not [*merged.add(state)]
    products = pytest.importorskip("pyarrow").Table.from_batches(merged.finish()).to_pylist()
    about = [(row["name"], row["body"]) for row in products if row["name"] == merging.ABOUT]
    summary = summary_of(about, ())
    assert (summary.fault_count, summary.faults) == (8, tuple(faults_of(merge(states({3})))[0]))
    assert summary.more_faults == {"key": 3, "value": 1, "crc": 1}
