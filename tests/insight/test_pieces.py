"""In whatever pieces a log is read, its answers are those of the log read at once."""

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coterie._core.codec.batch import LogReader
from coterie.insight.groups import outages
from coterie.insight.offsets import at_times, rewinds
from coterie.insight.questions import growth, lag, metrics
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from support.examples import examples
from support.golden_data import log
from support.insight.compacted_logs import FIRST_MS, folders, operations, written
from support.insight.every_question import all_questions, ends_at
from support.insight.pieces import answer_in_pieces
from support.insight.transaction_logs import STEPS, batches_of, write
from support.segment_cutter import in_small_segments

LEADER_EPOCH_AT = 12  # of a batch; its checksum leaves it out
LIMITS = (
    (at_times, "PRUNE_EVENTS", 1),
    (outages, "STEADY", 2),
    (outages, "LEAST_MS", 300),
    (outages, "TIMES_LONGER", 2),
    (rewinds, "MAX_ROWS", 1),
)


@pytest.fixture(scope="module", autouse=True)
def little_at_once():
    """Store little, and let few batches show a silence."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in LIMITS:
            patch.setattr(module, name, value)
        yield


def same_in_pieces(segments, questions, options):
    for question, parameters in questions:
        expected = list(question.rows(PartitionView(0, segments, **options), parameters))
        result = answer_in_pieces(segments, question, parameters, options)
        assert result == expected, question.NAME


def segments_in(home):
    """The segments of the only partition; none without a folder."""
    return next(iter(find_segments([home]).partitions().values())) if home.exists() else ()


def raise_epochs(segments):
    """Have another leader write every other segment."""
    for number, segment in enumerate(segments):
        data = bytearray(Path(segment.path).read_bytes())
        for read_batch in list(LogReader(bytes(data))):
            struct.pack_into(">i", data, read_batch.position + LEADER_EPOCH_AT, number // 2)
        Path(segment.path).write_bytes(data)


@settings(max_examples=examples(200))
@given(
    steps=operations((b"a",), (b"t",), 25) | operations(at_least=10),
    times=st.lists(st.integers(0, 400_000), min_size=1, max_size=4),
    wanted=st.sampled_from([None, frozenset({"a"}), frozenset({"b", "c"})]),
    since=st.sampled_from([None, 0, 30_000]),
    end=st.sampled_from([None, 90_000]),
    data=st.data(),
)
def test_a_log_in_pieces_gives_the_answers_of_the_log_at_once(
    steps, times, wanted, since, end, data
):
    times = [FIRST_MS + ms for ms in times]
    options = {
        "groups": wanted,
        "since_ms": None if since is None else FIRST_MS + since,
        "at_ms": None if end is None else FIRST_MS + end,
    }
    with tempfile.TemporaryDirectory() as home:
        written_log = written(steps)
        questions = data.draw(
            st.sampled_from(all_questions(times[0], written_log.now_ms, ends_at(times)))
        )
        folder = data.draw(st.sampled_from(folders(written_log, home)))
        (segments,) = find_segments([folder]).partitions().values()
        if data.draw(st.booleans()):
            small = in_small_segments(folder, Path(home) / "small")
            segments = segments_in(small) or segments
        if data.draw(st.booleans()):
            raise_epochs(segments)
        same_in_pieces(segments, [questions], options)


def test_transactions_that_stay_open_stand_in_the_order_of_the_log():
    key = b"a", b"t", 0
    steps = [(0, "write", (producer_id, key, 0)) for producer_id in (2, 1, 3)]
    with tempfile.TemporaryDirectory() as home:
        folder = folders(written(steps), home)[0]
        segments = segments_in(in_small_segments(folder, Path(home) / "small"))
        same_in_pieces(segments, [(growth, growth.Parameters())], {})
        ((row,),) = [list(growth.rows(PartitionView(0, segments), growth.Parameters()))]
        assert [one["producer_id"] for one in row["open_transactions"]] == [2, 1, 3]


@settings(max_examples=examples(40))
@example(  # open from the first piece on; another that ended in between
    steps=[
        (5, "offset", 1),
        (6, "offset", 1),
        (5, "offset", 1),
        (6, "commit", 1),
        (7, "offset", 1),
    ],
    times=[9, 30],
)
@given(steps=STEPS, times=st.lists(st.integers(0, 30), min_size=1, max_size=4))
def test_transactions_over_any_pieces_are_reported_as_those_of_the_log_at_once(steps, times):
    with tempfile.TemporaryDirectory() as home:
        write(enumerate(batches_of(steps)), Path(home))
        segments = segments_in(Path(home))
        questions = [(growth, growth.Parameters()), (metrics, metrics.Parameters())]
        questions.append((lag, lag.Parameters(ends_at(times))))
        same_in_pieces(segments, questions, {})


@pytest.mark.parametrize("case", ["transactions", "kip848", "old-formats"])
def test_a_real_log_in_pieces_gives_the_answers_of_the_log_at_once(case, tmp_path):
    small = find_segments([in_small_segments(log(case), tmp_path, 7)]).partitions()
    for number, segments in find_segments([log(case)]).partitions().items():
        scanned = PartitionView(0, segments).fold.segments
        newest_ms = max((piece.max_timestamp for piece in scanned), default=-1)
        if newest_ms < 0:
            continue
        questions = all_questions(
            newest_ms - 10_000, newest_ms, ends_at([newest_ms - 20_000, newest_ms])
        )
        same_in_pieces(small[number], questions, {})
