"""In a log of Kafka 4.x, a tombstone removes pending commits: wherever the log is read from.

Any record of the log may show its release, first or last, of any group and time.
Source: OffsetMetadataManager.replay.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import Batch, GroupCoordinator, ScanOptions
from coterie._core.codec.batch import LogReader
from coterie._core.codec.layout import decode_utf8
from coterie._core.fold.fold import split_key
from coterie.insight.offsets.end_offsets import EndOffsets
from coterie.insight.questions import lag
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import Segment
from coterie.messages import encode_key, encode_value
from support import log_writer as write
from support.examples import examples
from support.fold.load_model import in_words, model, state_in_words
from support.fold.made_logs import (
    COMMIT,
    IN_ANY_VERSION,
    TIMES,
    as_bytes,
    in_order,
    laid_out,
    logs_over,
)
from support.fold.pieces import cut_and_merged, history_of, one_scan, slow

LATE_MS = 1000
EPOCH_KEY = encode_key({"version": 3, "data": {"groupId": "other"}})
EPOCH = encode_value(3, {"version": 0, "data": {"epoch": 1, "metadataHash": 1}})
COMMIT_V4 = b"\0\4" + write.commit_value(1, -1, b"", 1)[2:] + b"\0"
SIGNS = {
    "a consumer group": (EPOCH_KEY, EPOCH),
    "its tombstone": (EPOCH_KEY, None),
    "a commit of version 4": (write.commit_key(1, b"other", b"t", 0), COMMIT_V4),
}
PLACE = (b"g", b"t", 0)
TANGLE = [  # a commit, pending when a tombstone comes
    (10, None, [("commit", 1, 1, PLACE, (100, -1, b"", 1))]),
    (12, 1, [("commit", 2, 1, PLACE, (150, -1, b"", 2))]),
    (14, None, [("commit", 3, 1, PLACE, None)]),
    (16, 1, (COMMIT, 4)),
]


@st.composite
def logs(draw):
    """A log as brokers write them: offsets rise, and a transaction has no tombstones."""
    steps = []
    for step, (producer, content) in draw(logs_over(2, 2, 3, st.nothing(), IN_ANY_VERSION)):
        if producer and isinstance(content, list):
            content = [record for record in content if record[-1] is not None]
        if content:
            steps.append((max(2, step), (producer, content)))
    return in_order(laid_out(steps))


def with_sign(log, at, sign):
    """The bytes of a log with a record of 4.x, before or after all or between, of a late time."""
    offset = log[at][0] - 1 if at < len(log) else log[-1][0] + 9 if log else 0
    record = write.batch(offset, [(LATE_MS, *SIGNS[sign])])
    return as_bytes(log[:at]) + record + as_bytes(log[at:])


def without_other(groups):
    return {group: row for group, row in groups.items() if group != "other"}


def scanned(data, **options):
    return one_scan([(0, "f", data)], ScanOptions(**options))


def ends_of(history):
    """The last offset of each key by the rows of the table of commits."""
    ends = {}
    for (_, key, log_offset, _, producer, value), outcome in history:
        if outcome == "committed" and (producer is None or log_offset > ends.get(key, (-1,))[0]):
            ends[key] = log_offset, value
    names = {key: (*map(decode_utf8, split_key(key)[:2]), split_key(key)[2]) for key in ends}
    return {names[key]: value[0] for key, (_, value) in ends.items() if value}


def offsets_in(log, at_ms):
    return {key: value[1] for key, value in model(log, at_ms, follows_4x=True)[0].items()}


@given(logs(), st.none() | TIMES, st.sampled_from(list(SIGNS)), st.data())
@settings(slow, max_examples=examples(150))
def test_whole_and_parts_and_history_are_what_the_model_says(log, at_ms, sign, data):
    written = with_sign(log, data.draw(st.integers(0, len(log))), sign)
    expected = in_words(log, at_ms, follows_4x=True)
    options = ScanOptions(at_ms=at_ms, history=True)
    merged = cut_and_merged(data.draw, [(0, "f", written)], options)
    for state in (scanned(written, at_ms=at_ms, history=True), merged):
        assert without_other(state_in_words(state)) == expected
        decided, _ = history_of(state.partitions[0])
        assert {key: at for key, at in ends_of(decided).items() if key[0] != "other"} == (
            offsets_in(log, at_ms)
        )


@given(logs(), st.none() | TIMES, st.sampled_from(list(SIGNS)))
@settings(slow, max_examples=examples(60))
def test_offsets_at_times_are_what_the_model_says(log, at_ms, sign):
    written = with_sign(log, len(log), sign)  # before other records, its late time sets clocks back
    view = PartitionView(0, [Segment("f", 0, 0, 0, None)], read=lambda segment: written)
    found = {
        (row["group_id"], row["topic"], row["partition"]): row["offset"]
        for row in lag.rows(view, lag.Parameters(EndOffsets(False), at_ms))
        if row["offset"] is not None and row["group_id"] != "other"
    }
    assert found == offsets_in(log, at_ms)


@given(logs())
@settings(slow, max_examples=examples(60))
def test_a_load_is_what_the_model_says(log):
    batches = [
        Batch(
            *(one.base_offset, one.producer_id, 0, one.is_transactional, one.is_control),
            tuple((record.key, record.value) for record in one.records),
        )
        for one in LogReader(as_bytes(log))
    ]
    loaded = GroupCoordinator({"coterie.behaviour": "4.1"}, log=batches)
    assert loaded.load_error is None
    found = {
        (group, topic, partition): offset
        for group in ("g", "h")
        for topic, partition in (("t", 0), ("t", 1))
        if (offset := loaded.offset_fetch(group, {topic: [partition]})[topic, partition].offset)
        >= 0
    }
    assert found == offsets_in(log, None)


@pytest.mark.parametrize("sign", SIGNS)
def test_a_record_of_any_group_shows_the_release_to_a_fold_of_one_group(sign):
    for at in range(len(TANGLE) + 1):
        written = with_sign(TANGLE, at, sign)
        for options in ({}, {"groups": {"g"}}, {"groups": {"g"}, "at_ms": 9}):
            state = scanned(written, **options)
            assert without_other(state_in_words(state)) == {}, (at, options)


def test_without_such_a_record_the_log_is_read_as_one_of_3x():
    """So is any log by ``load`` and ``recover``, which read it as a broker of 3.x."""
    for data, options in (
        (as_bytes(TANGLE), {}),
        (with_sign(TANGLE, 0, "a consumer group"), {"on_fault": "load"}),
        (with_sign(TANGLE, 0, "a consumer group"), {"on_fault": "recover"}),
    ):
        assert state_in_words(scanned(data, **options)) == in_words(TANGLE, None)
