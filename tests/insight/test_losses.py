"""Records that a group skipped, read twice or stands before, against slow models and by hand."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.insight.offsets import jumps, stalls
from coterie.insight.offsets.loss_findings import Losses, Thresholds
from coterie.insight.questions import audit, undo
from coterie.insight.records import log_reader
from coterie.insight.records.aggregates import run_aggregates
from coterie.insight.records.partition_view import PartitionView
from coterie.live.totals import rewinds_of
from coterie.log.folders import find_segments
from support.examples import examples
from support.insight import loss_model
from support.insight.loss_model import STEPS, Life
from support.insight.pieces import answer_in_pieces
from support.insight.transaction_logs import write

STALL_MS = 300
SMALL = (
    (log_reader, "READ_PIECE_BYTES", 1),
    (jumps, "LEAST_STEPS", 3),
    (jumps, "LEAST_RECORDS", 5),
    (jumps, "LEAST_MS", 1),
    (jumps, "TIMES_FASTER", 3),
    (stalls, "LEAST_MOVES", 1),
    (stalls, "TIMES_LONGER", 2),
    (stalls, "SLICES", 3),
)
SEEK = {"least": 5, "larger": 10, "faster": 3, "least_steps": 3, "largest": 2, "least_ms": 1}


@pytest.fixture(scope="module", autouse=True)
def little_is_enough():
    """Let short logs show what long ones show, and read a batch at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in SMALL:
            patch.setattr(module, name, value)
        yield


def segments_of(written, home):
    write(written.segments, home)
    return next(iter(find_segments([home]).partitions().values()))


def collected(segments, thresholds):
    """The filled aggregates of a partition, and its view."""
    view = PartitionView(0, segments)
    losses = Losses(view, thresholds)
    run_aggregates(view, {"losses": (view.record_filter, losses)})
    return view, losses.parts


def place(jump):
    return jump.key[2], jump.at["previous_offset"], jump.at["offset"], jump.at["log_offset"]


@settings(max_examples=examples(150))
@given(steps=STEPS, rate=st.sampled_from([1, 500, 10_000]))
def test_skips_and_stalls_are_those_of_the_slow_models(steps, rate):
    written = Life(steps)
    with tempfile.TemporaryDirectory() as home:
        thresholds = Thresholds(skip_rate=rate, stall_ms=STALL_MS)
        view, parts = collected(segments_of(written, Path(home)), thresholds)
        actual = [
            (one.key[2], one.offset, one.resumed.offset, one.resumed.log_offset)
            for one in parts["removals"].rows()
            if one.resumed and not one.anew and one.offset not in (None, one.resumed.offset)
        ]
        assert sorted(actual) == loss_model.across_removals(written)
        found = list(parts["skip"].jumps(view))
        outside = loss_model.from_outside(written, jumps.FEW)
        assert sorted(place(one) for one in found if one.ordinary is None) == outside
        seeks = loss_model.seeks(written, rate=rate, **SEEK)
        actual = sorted(place(one) for one in found if one.ordinary is not None)
        assert actual == sorted(set(seeks) - set(outside))
        end_ms = max(written.ms, view.newest_ms)
        expected = loss_model.stalls(written, STALL_MS, 2, 1, STALL_MS // 3, end_ms)
        stood = [
            (one.key[2], one.since_ms, one.ms, one.offset) for one in parts["stall"].stalls(end_ms)
        ]
        assert sorted(stood) == expected


@settings(max_examples=examples(150))
@given(steps=STEPS)
def test_rewinds_are_those_of_the_slow_model_for_audit_metrics_and_undo(steps):
    written = Life(steps)
    with tempfile.TemporaryDirectory() as home:
        segments = segments_of(written, Path(home))
        view = PartitionView(0, segments)
        parameters = audit.Parameters(skip_by=1000)  # is no matter of rewinds
        found = run_aggregates(view, audit.aggregates(view, parameters))
        findings, losses = (found[f"audit.{kind}"] for kind in ("rewind", "skip"))
        expected = loss_model.rewinds(written, jumps.FEW)
        names = dict(findings.keys.items(range(len(findings.keys))))
        actual = {names[one.key][2]: (one.times, one.moved) for one in findings.rewinds}
        of_key = {key: [before - to for of, before, to, _ in expected if of == key]
                  for key, *_ in expected}  # fmt: skip
        assert actual == {key: (len(moved), sum(moved)) for key, moved in of_key.items()}
        across = [(before, after) for _, before, after, _ in loss_model.across_removals(written)]
        total = len(expected) + sum(after < before for before, after in across)
        assert rewinds_of(findings, losses).total() == total
        rows = undo.rows(PartitionView(0, segments), undo.Parameters(written.ms))
        rewound = {row["partition"]: row["rewound_from"] for row in rows if row["rewound_from"]}
        lasts = {one.key: one.log_offset for one in written.commits}
        assert rewound == {
            key: before for key, before, _, log_offset in expected if lasts[key] == log_offset
        }


@settings(max_examples=examples(150))
@given(steps=STEPS)
def test_records_are_skipped_from_the_highest_offset_before_to_the_lowest_since(steps):
    written = Life(steps)
    with tempfile.TemporaryDirectory() as home:
        segments = segments_of(written, Path(home))
        view = PartitionView(0, segments)
        losses = Losses(view, Thresholds(skip_rate=1))
        run_aggregates(view, {"losses": (view.record_filter, losses)})
        found = {
            (row["partition"], row["previous_offset"], row["offset"], row["log_offset"]):
                row["moved"]
            for row in losses.skip_rows(view)
        }  # fmt: skip
        forward = [
            *loss_model.across_removals(written),
            *loss_model.from_outside(written, jumps.FEW),
            *loss_model.seeks(written, rate=1, **SEEK),
        ]
        expected = {}
        for partition, before, after, log_offset in forward:
            of_key = [
                one
                for one in loss_model.of_one_topic(written, partition, log_offset)
                if one.offset is not None
            ]
            peak = max(one.offset for one in of_key if one.log_offset < log_offset)
            lowest = min(one.offset for one in of_key if one.log_offset >= log_offset)
            if lowest > peak:
                expected[partition, before, after, log_offset] = lowest - peak
        assert found == expected


@settings(max_examples=examples(80))
@given(steps=STEPS)
def test_a_log_in_pieces_has_the_findings_of_the_log_as_one(steps):
    written = Life(steps)
    parameters = audit.Parameters(
        only=("skip", "rewind", "stall", "open_transaction"),
        skip_rate=1,
        stall_ms=STALL_MS,
        open_ms=0,
    )
    with tempfile.TemporaryDirectory() as home:
        segments = segments_of(written, Path(home))
        expected = list(audit.rows(PartitionView(0, segments), parameters))
        assert answer_in_pieces(segments, audit, parameters, {}) == expected
