"""What a page takes of a log: no more memory for more records, the same page however it is cut."""

import json
import tempfile
import tracemalloc
import weakref
import zlib
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.insight.records import log_reader
from coterie.insight.records.partition_view import read_partitions
from coterie.report import charts, spans
from coterie.report.gather import CENSUS, gather, look, read
from coterie.report.page import page_data
from coterie.report.sections import Basis
from coterie.report.spans import SpanCounts, span_of
from support.examples import examples
from support.golden_data import log
from support.insight.compacted_logs import folders, operations, written
from support.log_writer import batch, commit, each

BASIS = Basis(now_ms=10_000, retention_ms=1000)
WHOLE = 1 << 30


@pytest.fixture(scope="module", autouse=True)
def at_once():
    """Set how many bytes are read at once, how many points are drawn, and how many of a line."""
    with pytest.MonkeyPatch.context() as patch:

        def limit(piece_bytes, cells, points=spans.POINTS):
            patch.setattr(log_reader, "READ_PIECE_BYTES", piece_bytes)
            patch.setattr(charts, "CELLS_AT_ONCE", cells)
            patch.setattr(charts, "POINTS", points)

        yield limit


def page_of(place, **options):
    """All that the scripts of a page get, of every group."""
    data = page_data(gather(read_partitions([place], **options), BASIS), "title", BASIS)
    details = [json.loads(zlib.decompress(b64decode(packed))) for packed in data["details"]]
    return data | {"details": details}


@settings(max_examples=examples(60))
@given(
    steps=operations(),
    wanted=st.sampled_from([None, frozenset({"a"}), frozenset({"b", "c"})]),
    since=st.sampled_from([None, 1_030_000]),
    end=st.sampled_from([None, 1_090_000]),
    cells=st.sampled_from([1, 5, WHOLE]),
)
def test_a_log_in_pieces_makes_the_page_of_the_log_as_one(
    steps, wanted, since, end, cells, at_once
):
    options = {"groups": wanted, "since_ms": since, "at_ms": end}
    with tempfile.TemporaryDirectory() as home:
        for folder in folders(written(steps), home):
            at_once(WHOLE, WHOLE)
            expected = page_of(folder, **options)
            at_once(1, cells)
            assert page_of(folder, **options) == expected


@pytest.mark.parametrize("case", ["transactions", "kip848", "old-formats"])
def test_a_real_log_in_pieces_makes_the_page_of_the_log_as_one(case, at_once):
    at_once(WHOLE, WHOLE, 3)
    expected = page_of(log(case))
    at_once(2000, 1, 3)
    assert page_of(log(case)) == expected


def partition(folder, *segments):
    """A folder of segments, each of these batches."""
    place = Path(folder) / "__consumer_offsets-0"
    place.mkdir(parents=True)
    for number, batches in enumerate(segments):
        (place / f"{number:020}.log").write_bytes(b"".join(batches))
    return place


@given(
    told=st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 1)), min_size=1, max_size=12),
    piece_bytes=st.sampled_from([1, 300, WHOLE]),
    cells=st.sampled_from([1, WHOLE]),
)
@settings(max_examples=examples(100))
def test_a_line_has_all_its_offsets_by_time_or_the_last_of_each_span(
    told, piece_bytes, cells, at_once
):
    at_once(piece_bytes, cells, 3)
    records = [commit(ms, offset, partition=to) for offset, (ms, to) in enumerate(told)]
    with tempfile.TemporaryDirectory() as home:
        (detail,) = page_of(partition(home, each(0, *records)))["details"]
    times = [ms for ms, _ in told]
    span_ms = span_of(min(times), max(times))
    expected = {}
    for offset, (ms, to) in enumerate(told):
        expected.setdefault(to, []).append((ms, offset))
    assert {line["partition"]: line["sampled"] for line in detail["lines"]["lines"]} == {
        to: len(points) > 3 for to, points in expected.items()
    }
    for line in detail["lines"]["lines"]:
        points = sorted(expected[line["partition"]])
        shown = sampled(points, span_ms) if line["sampled"] else points
        assert list(zip(line["at"], line["value"], strict=True)) == shown


def sampled(points, span_ms):
    """Return the last of the points of each span."""
    return list({ms // span_ms: (ms, offset) for ms, offset in points}.values())


def peak_of(place):
    """How many bytes a page takes at most while it is made."""
    tracemalloc.start()
    try:
        gather(read_partitions([place]), BASIS)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_page_takes_no_more_memory_for_more_commits_of_the_same_keys(tmp_path, at_once):
    """Read are 500 requests at once, a segment."""
    at_once(1 << 16, WHOLE)
    segments = [
        [
            batch(4 * at, [commit(7 * at, at, partition=number) for number in range(4)])
            for at in range(first, first + 500)
        ]
        for first in range(0, 8_000, 500)
    ]
    few, many = (partition(tmp_path / str(n), *segments[:n]) for n in (2, 16))
    peak_of(few)  # what is imported and remembered at the first time
    assert peak_of(many) < peak_of(few) + (1 << 20)  # of 28,000 more: 3.6 MB of columns


def test_only_the_census_of_a_log_remains_when_its_charts_are_drawn():
    (view, *_) = read_partitions([log("basic")])
    found = look(view, BASIS).shared_aggregates
    references = {name: weakref.ref(found[name]) for name in found}
    del found
    assert len(references) > 1
    _, details = read(view, BASIS)
    assert details.census is references[CENSUS]()
    assert [name for name, alive in references.items() if alive()] == [CENSUS]


times = st.lists(st.integers(-1, 10**7), max_size=8)


@given(one=times, other=times)
def test_merged_counts_are_the_counts_of_all(one, other):
    both, first, second = (SpanCounts(points=4) for _ in range(3))
    for counts, some in ((both, one), (both, other), (first, one), (second, other)):
        counts.add(np.array(some, np.int64))
    first.merge(second)
    assert first.as_data() == both.as_data()


def test_a_group_that_has_no_room_with_others_is_drawn_alone(at_once):
    plans = {name: charts.ChartPlan(0, 0, 90, 10, ()) for name in "abc"}  # of ten cells each
    for cells, expected in ((5, ["a", "b", "c"]), (20, ["ab", "c"]), (30, ["abc"])):
        at_once(WHOLE, cells)
        assert ["".join(some) for some in charts.batches_of(plans)] == expected
