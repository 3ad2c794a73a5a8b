"""When `explain` reports that a partition may have had no coordinator, at the limits of its rules.

A silence counts if several groups had written steadily before it, if it is long beside their
pauses, and if members of several groups went at once soon after it.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from coterie._core.codec.batch import encode_batch
from coterie.insight.groups.causes import CAUSE
from coterie.insight.groups.outages import (
    Outage,
    OutageDetector,
    groups_that_lost_members,
    outage_row,
    rejoin_bound_ms,
)
from coterie.insight.questions import explain
from coterie.insight.questions.server_log_lines import SERVER, BrokerLogLine
from coterie.insight.questions.server_log_phrases import LOADED
from coterie.log.folders import find_segments
from support.insight.pieces import answer_in_pieces
from support.log_writer import batch, commit, group_key, group_value

T0 = 1_795_000_000_123


def reported(folder, records, *, epochs=None, loads=(), cut=None):
    """The outages of a log with one batch a record, as (event, from, until, duration, cause).

    ``cut``: the number of the batch with which the second of two segments begins.
    """
    folder = folder / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    data = [
        batch(at, [record], leader_epoch=0 if epochs is None else epochs[at])
        if record
        else empty_batch(at, leader_epoch=epochs[at])
        for at, record in enumerate(records)
    ]
    for begin, end in ((0, cut), (cut, None)) if cut else ((0, None),):
        (folder / f"{begin:020}.log").write_bytes(b"".join(data[begin:end]))
    lines = tuple(BrokerLogLine("", LOADED, at_ms, SERVER, 0) for at_ms in loads)
    (segments,) = find_segments([folder]).partitions().values()
    parameters = explain.Parameters(broker_log_lines=lines)
    return [
        (row["event"], row["timestamp"], row["until"], row["duration_ms"], row["cause"])
        for row in answer_in_pieces(segments, explain, parameters, {})
        if row["event"] in ("silence", "coordinator_change") and row["group_id"] == "g1"
    ]


def empty_batch(offset, leader_epoch):
    """A batch whose only record the cleaner took."""
    return encode_batch([], offset, leader_epoch=leader_epoch, last_offset_delta=0)


def generation(at_ms, group, number, *members):
    return at_ms, group_key(group), group_value(number, members)


def silent(
    silence_ms=5000, step_ms=100, commits=20, groups=(b"g1", b"g2"), lost=((b"g1", 0), (b"g2", 0))
):
    """Two members a group, steady commits, a silence, then one member a group among commits."""
    began = [generation(0, group, 1, b"x", b"y") for group in (b"g1", b"g2", b"g3")]
    steady = [
        commit(step_ms * at, offset=at, group=groups[at % len(groups)]) for at in range(commits)
    ]
    back_ms = steady[-1][0] + silence_ms
    after = [generation(back_ms + at_ms, group, 2, b"x") for group, at_ms in lost]
    after += [commit(back_ms + at_ms, offset=99, group=b"g1") for at_ms in range(0, 64_000, 4000)]
    untimed = generation(-1, b"g3", 2, b"x")  # a record of which no time is known
    return [*began, *steady, *sorted(after), untimed]


@pytest.mark.parametrize(
    ("case", "is_outage"),
    [
        ({"silence_ms": 5000}, True),
        ({"silence_ms": 4999}, False),
        ({"step_ms": 600, "silence_ms": 6001}, True),  # ten times the longest pause before
        ({"step_ms": 600, "silence_ms": 6000}, False),
        ({"commits": 8}, True),  # ten pauses with those of the three first generations
        ({"commits": 7}, False),
        ({"groups": (b"g1",), "commits": 25}, False),  # the last 20 batches are of one group
        ({"lost": ((b"g1", 60_000), (b"g2", 60_000))}, True),
        ({"lost": ((b"g1", 60_001), (b"g2", 60_001))}, False),
        ({"lost": ((b"g1", 10), (b"g2", 1010))}, True),
        ({"lost": ((b"g1", 10), (b"g2", 1011))}, False),
        ({"lost": ((b"g1", 10), (b"g1", 20))}, False),
        ({"lost": ((b"g1", 2000), (b"g2", 5), (b"g3", 900))}, True),  # two of them at once
        ({"lost": ()}, False),
    ],
)
def test_a_silence_is_long_after_steady_writing_and_several_groups_lose_members_at_once(
    tmp_path, case, is_outage
):
    found = reported(tmp_path, silent(**case))
    assert [row[0] for row in found] == ["silence"] * is_outage
    if is_outage:
        ((_, from_ms, until_ms, duration_ms, cause),) = found
        silence_ms, step_ms = case.get("silence_ms", 5000), case.get("step_ms", 100)
        assert until_ms - from_ms == duration_ms == silence_ms
        assert from_ms == step_ms * (case.get("commits", 20) - 1)
        assert "members of 2 groups went at once after a silence" in cause
        longest = f"(before, {step_ms / 1000:.1f} s at most)"
        assert f"no record of any group for {silence_ms / 1000:.1f} s {longest}" in cause


def test_of_several_moments_the_one_at_which_most_groups_lost_members_counts():
    departed = [(0, "a"), (500, "b"), (1500, "b"), (1500, "c"), (1600, "d"), (1700, "d")]
    assert groups_that_lost_members(departed, 0) == 3
    assert groups_that_lost_members(departed, 1600) == 1
    assert groups_that_lost_members(departed, 1701) == 0
    assert groups_that_lost_members([], 0) == 0


@pytest.mark.parametrize(
    ("epochs", "changes"),
    [((3, 3, 4, 4), [2]), ((-1, -1, 4, 4), []), ((0, 1, 1, 2), [1, 3]), ((4, 4, 3, 3), [])],
)
def test_a_leader_epoch_that_rises_from_a_known_one_is_a_change_of_coordinator(
    tmp_path, epochs, changes
):
    records = [commit(1000 * at, offset=at, group=b"g1") for at in range(4)]
    records[0] = generation(0, b"g1", 1, b"x")
    found = reported(tmp_path, records, epochs=epochs)
    assert [row[:4] for row in found] == [
        ("coordinator_change", 1000 * (at - 1), 1000 * at, 1000) for at in changes
    ]
    for at, row in zip(changes, found, strict=True):
        assert f"leader epoch went from {epochs[at - 1]} to {epochs[at]}" in row[4]


def test_a_group_that_is_deleted_after_a_silence_lost_no_members(tmp_path):
    records = silent()
    (at,) = (at for at, record in enumerate(records) if record[:2] == (6900, group_key(b"g2")))
    records[at] = 6900, group_key(b"g2"), None
    assert reported(tmp_path, records) == []


@pytest.mark.parametrize(("since_end", "is_outage"), [(20, True), (21, False)])
def test_the_last_20_batches_decide_how_many_groups_wrote(tmp_path, since_end, is_outage):
    records = silent(groups=(b"g1",), commits=25)
    other = 28 - since_end  # three generations, 25 commits
    records[other] = commit(records[other][0], group=b"g2")
    assert len(reported(tmp_path, records)) == is_outage


@pytest.mark.parametrize(("since_end", "is_outage"), [(20, False), (21, True)])
def test_the_longest_pause_before_the_last_20_batches_decides_how_long_a_silence_is(
    tmp_path, since_end, is_outage
):
    records = silent(commits=25)
    late = 28 - since_end
    records[late:] = [(at_ms + 600, *rest) for at_ms, *rest in records[late:-1]] + records[-1:]
    assert len(reported(tmp_path, records)) == is_outage


@pytest.mark.parametrize(
    ("since_ms", "is_whole"), [(None, True), (T0 + 29, True), (T0 + 30, True), (T0 + 31, False)]
)
def test_the_records_of_an_outage_are_whole_if_compaction_ended_before_it(since_ms, is_whole):
    """Twelve batches 10 ms apart, then a batch of three seconds with another leader epoch."""
    detector = OutageDetector(since_ms, ())
    kinds = {"records": int, "until_ms": np.int64, "from_ms": np.int64, "leader_epoch": int,
             "group": int, "log_offset": int, "position": int}  # fmt: skip
    rows = [(1, T0 - 80 + 10 * at, T0 - 80 + 10 * at, 4, 0, 70 + at, 900 + at) for at in range(12)]
    rows.append((2, T0 + 7_000, T0 + 4_000, 6, 0, 90, 950))
    batches = np.array(rows, list(kinds.items()))
    detector.take(SimpleNamespace(batches=batches, file_number=1, files=["e.log", "f.log"]))
    (outage,) = detector.changed.values()
    assert replace(outage, shown_by="") == Outage(
        "coordinator_change", "", T0 + 30, T0 + 4_000, 10 if is_whole else None, is_whole, 90,
        "f.log", 950, T0 + 7_000,
    )  # fmt: skip
    assert "from 4 to 6" in outage.shown_by


@pytest.mark.parametrize(
    ("loads", "changes"),
    [
        ([], []),
        ([1000], []),  # at the first record: it is not known since when there was none
        ([1001], [1]),
        ([2000], [1]),  # the next record is of the same time
        ([2001, 3000], [2]),
        ([5000, 1500], [1, 4]),
        ([5500], [5]),
        ([4500], [4]),  # the first that is not before it, though a later one has a lower time
        ([6001, 9000], []),  # none has come since
        ([900], []),
    ],
)
def test_the_first_batch_after_a_load_has_a_coordinator_again(tmp_path, loads, changes):
    times = [1000, 2000, 3000, 3000, 5000, 6000, 4000]
    records = [commit(at_ms, offset=at, group=b"g1") for at, at_ms in enumerate(times)]
    records[0] = generation(1000, b"g1", 1, b"x")
    for cut in (None, 1, 3, 4, 6):
        found = reported(tmp_path / str(cut), records, loads=loads, cut=cut)
        assert [row[:3] for row in found] == [
            ("coordinator_change", times[at - 1], times[at]) for at in changes
        ], cut


def test_batches_that_compaction_left_without_a_record_are_no_batches(tmp_path):
    """They keep their epoch and the time of their last record (RecordBatch, KAFKA-5443)."""
    records = [generation(0, b"g1", 1, b"x"), *([] for _ in range(30)), commit(9000, group=b"g1")]
    (row,) = reported(tmp_path, records, epochs=[3, *([4] * 30), 4])
    assert row[:4] == ("coordinator_change", 0, 9000, None)
    assert "leader epoch went from 3 to 4: " in row[4]
    assert row[4].endswith("; the records of that time are compacted")


OUTAGE = Outage("silence", "it was silent", T0, T0 + 7_250, 640, True, 41, "f.log", 73, T0 + 7_300)


@pytest.mark.parametrize(
    ("changed", "duration_ms", "cause"),
    [
        ({}, 7_250, "no record of any group for 7.2 s (before, 0.6 s at most)"),
        ({"usual_ms": None}, 7_250, "no record of any group for 7.2 s"),
        ({"usual_ms": 0}, 7_250, "no record of any group for 7.2 s (before, 0.0 s at most)"),
        ({"until_ms": T0 - 1}, 0, "no record of any group for 0.0 s (before, 0.6 s at most)"),
        ({"whole": False}, None, "the records of that time are compacted"),
    ],
)
def test_an_outage_is_a_row_with_its_times_place_and_evidence(changed, duration_ms, cause):
    outage = replace(OUTAGE, **changed)
    assert outage.as_row() == {
        "event": "silence", "timestamp": T0, "until": outage.until_ms, "log_offset": 41,
        "duration_ms": duration_ms, "cause": f"it was silent; {cause}", "file": "f.log",
        "position": 73,
    }  # fmt: skip


def rebalance(at_ms, *names, what="evicted", number=5):
    causes = [dict.fromkeys(CAUSE) | {"what": what, "client_id": name} for name in names]
    timestamp = None if at_ms is None else OUTAGE.until_ms + at_ms
    return {"timestamp": timestamp, "generation": number, "previous_generation": 4,
            "causes": causes}  # fmt: skip


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([rebalance(-1, "c")], None),
        ([rebalance(0, "c")], "c left or was evicted"),
        ([rebalance(10_000, "c")], "c left or was evicted"),
        ([rebalance(10_001, "c")], None),
        ([rebalance(None, "c")], None),
        ([rebalance(1, "c", what="joined")], None),
        *(([rebalance(1, "c", what=what)], "c left or was evicted") for what in (
            "left_or_evicted", "restarted", "restarted_evicted")),
        ([rebalance(1, "c", "d"), rebalance(2, "c", "e")], "c, d, e left or were evicted"),
        ([rebalance(1, *"abcde")], "a, b, c, d, e left or were evicted"),
        ([rebalance(1, *"abcdef")], "a, b, c, d, e, 1 other left or were evicted"),
        ([rebalance(1, *"abcdefg")], "a, b, c, d, e, 2 others left or were evicted"),
        # A rebalance that nobody left ends it: all members are back. What is none does not.
        ([rebalance(1), rebalance(2, "c")], None),
        ([rebalance(1, "b"), rebalance(2), rebalance(3, "c")], "b left or was evicted"),
        ([rebalance(1, number=4), rebalance(2, "c")], "c left or was evicted"),
        ([{"timestamp": OUTAGE.until_ms}, rebalance(2, "c")], "c left or was evicted"),
    ],
)  # fmt: skip
def test_an_outage_of_a_group_names_those_that_were_evicted_soon_after(events, text):
    row, plain = outage_row(OUTAGE, events, 10_000), OUTAGE.as_row()
    assert row == plain | {"cause": plain["cause"] + (f"; soon after, {text}" if text else "")}


def test_absent_members_are_evicted_a_session_and_a_heartbeat_interval_after_a_load():
    members = [{"session_timeout_ms": ms} for ms in (7_000, 30_000, 9_000)]
    assert rejoin_bound_ms({"members": members}) == 33_000
    assert rejoin_bound_ms({"members": []}) == rejoin_bound_ms(None) == 48_000
