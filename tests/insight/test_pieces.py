"""Cutting a log into pieces changes no answer, and no question holds more than a piece."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coterie.errors import CoterieError
from coterie.insight.offsets import at_times
from coterie.insight.offsets.divergence import Live
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.questions import audit, expire, explain, growth, lag, metrics, undo
from coterie.insight.records import group_log, log_reader
from coterie.insight.records.group_log import GroupRecord, GroupRecords
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from support.examples import examples
from support.golden_data import log
from support.insight.compacted_logs import FIRST_MS, folders, operations, written
from support.insight.transaction_logs import STEPS, batches_of, write
from support.log_writer import batch, commit, each, marker

LIMITS = (
    (log_reader, "READ_PIECE_BYTES"),
    (at_times, "PRUNE_EVENTS"),
    (growth, "PAIRS_AT_ONCE"),
    (group_log, "MEMORY_BYTES"),
)


@pytest.fixture(scope="module", autouse=True)
def no_more_than_this_at_once():
    """Limit how much is read and held at a time."""
    with pytest.MonkeyPatch.context() as patch:

        def limit(size):
            for module, name in LIMITS:
                patch.setattr(module, name, size)

        yield limit


def all_questions(at_ms, later_ms, ends):
    live = Live({"a": {"state": "Stable", "members": [], "offsets": []}}, 1)
    return [
        (undo, undo.Parameters(at_ms)),
        (expire, expire.Parameters(later_ms, 60_000)),
        (audit, audit.Parameters(no_progress=2, metadata_bytes=0, live=live)),
        (growth, growth.Parameters(interval_ms=400)),
        (growth, growth.Parameters(every_ms=1000)),
        (metrics, metrics.Parameters(ends=ends)),
        (lag, lag.Parameters(ends)),
        (explain, explain.Parameters(flap_count=2)),
    ]


def answers(segments, questions, options):
    """Each question's rows, from its own reading of the log."""
    return [
        list(question.rows(PartitionView(0, segments, **options), parameters))
        for question, parameters in questions
    ]


def samples(times):
    return tuple(Sample(ms, 3) for ms in sorted(set(times)))


def ends_at(times):
    return EndOffsets(True, {("t", 0): samples(times), ("u", 1): samples(times[:1])})


@given(
    steps=operations(),
    times=st.lists(st.integers(0, 400_000), min_size=1, max_size=4),
    wanted=st.sampled_from([None, frozenset({"a"}), frozenset({"b", "c"})]),
    since=st.sampled_from([None, 0, 30_000]),
    end=st.sampled_from([None, 90_000]),
)
@settings(max_examples=examples(100))
def test_a_log_in_pieces_gives_the_answers_of_the_log_as_one(
    steps, times, wanted, since, end, no_more_than_this_at_once
):
    times = [FIRST_MS + ms for ms in times]
    options = {
        "groups": wanted,
        "since_ms": None if since is None else FIRST_MS + since,
        "at_ms": None if end is None else FIRST_MS + end,
    }
    with tempfile.TemporaryDirectory() as home:
        written_log = written(steps)
        questions = all_questions(times[0], written_log.now_ms, ends_at(times))
        for folder in folders(written_log, home):
            (segments,) = find_segments([folder]).partitions().values()
            no_more_than_this_at_once(1 << 30)
            expected = answers(segments, questions, options)
            no_more_than_this_at_once(1)
            assert answers(segments, questions, options) == expected


@settings(max_examples=examples(150))
@example(  # the second's tombstone cancels its own commit, so the first's remains
    steps=[
        (6, "offset", 0),
        (6, "commit", 0),
        (5, "offset", 0),
        (5, "tombstone", 0),
        (5, "commit", 0),
    ],
    times=[9],
)
@given(steps=STEPS, times=st.lists(st.integers(0, 30), min_size=1, max_size=4))
def test_one_keys_offsets_of_transactions_are_seen_alike_in_pieces(
    steps, times, no_more_than_this_at_once
):
    with tempfile.TemporaryDirectory() as home:
        write([(0, b"".join(batches_of(steps)))], Path(home))
        (segments,) = find_segments([home]).partitions().values()
        questions = [(lag, lag.Parameters(ends_at(times)))]
        no_more_than_this_at_once(1 << 30)
        expected = answers(segments, questions, {})
        no_more_than_this_at_once(1)
        assert answers(segments, questions, {}) == expected


@pytest.mark.parametrize("size", [1, 2000])
@pytest.mark.parametrize("case", ["transactions", "kip848", "old-formats"])
def test_a_real_log_in_pieces_gives_the_answers_of_the_log_as_one(
    case, size, no_more_than_this_at_once
):
    listing = find_segments([log(case)])
    for segments in listing.partitions().values():
        no_more_than_this_at_once(1 << 30)
        scanned = PartitionView(0, segments).fold.segments
        end = max(piece.max_timestamp for piece in scanned)
        questions = all_questions(end - 10_000, end, ends_at([end - 20_000, end]))
        expected = answers(segments, questions, {})
        no_more_than_this_at_once(size)
        assert answers(segments, questions, {}) == expected


def record(value):
    return GroupRecord("g", 1, 2, 2, b"key", value, "file", 3)


def test_a_temporary_file_without_room_is_one_line(no_more_than_this_at_once):
    no_more_than_this_at_once(1)  # byte, before a file is written
    groups = GroupRecords([record(b"kept")])
    full = open("/dev/full", "r+b", buffering=0)  # noqa: SIM115 - the log closes it
    groups.spool.file.close()
    groups.spool.file = full
    with full, pytest.raises(CoterieError, match=r"No space left on device; let TMPDIR name"):
        groups.append(record(b"not kept"))
    assert len(groups) == 1


@pytest.mark.parametrize("held", [1, 1 << 20])
def test_records_of_groups_are_read_as_they_were_written(held, no_more_than_this_at_once):
    no_more_than_this_at_once(held)
    records = [record(None), record(b""), record(b"a value"), record(b"x" * 5000)]
    groups = GroupRecords(records)
    assert list(groups) == records
    assert groups[2] == records[2]
    assert list(groups[1:3]) == records[1:3]
    assert list(groups.part([3, 0])) == [records[3], records[0]]
    assert groups == records
    assert groups != records[:1]


def test_a_transaction_that_ended_in_a_later_piece_keeps_the_cleaner_from_nothing(
    tmp_path, no_more_than_this_at_once
):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    header = {"producer_id": 5, "transactional": True}
    batches = [
        batch(0, [commit(1, 1, topic=b"u")], **header),
        marker(1, 5, 2, commit=True),
        *each(2, commit(3), commit(4)),
    ]
    for base_offset, data in ((0, batches), (4, each(4, commit(5)))):
        (folder / f"{base_offset:020}.log").write_bytes(b"".join(data))
    (segments,) = find_segments([folder]).partitions().values()
    no_more_than_this_at_once(1)
    rows = list(growth.rows(PartitionView(0, segments), growth.Parameters()))
    (superseded,) = [row for row in rows if row["superseded_records"]]
    size = len(batches[2])
    assert superseded["topic"] == "t"
    assert superseded["superseded_bytes"] == 2 * size
    assert (superseded["free_bytes"], superseded["held_active_bytes"]) == (size, size)
    assert superseded["held_transaction_bytes"] == 0
