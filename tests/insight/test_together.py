"""The number of threads that read a log does not change an answer."""

from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path

import pytest

from coterie.errors import LogError
from coterie.insight.answering import answer
from coterie.insight.question_engine import QuestionRequest, find_question
from coterie.insight.questions import expire, explain, group_names, growth
from coterie.insight.questions.growth import Parameters
from coterie.insight.records import threads
from coterie.insight.records.partition_view import read_partitions
from coterie.log.folders import find_segments
from coterie.report.gather import gather, look
from coterie.report.page import page_data
from coterie.report.sections import Basis
from coterie.state import parallel_scan
from coterie.state.replay_engine import Silent
from support.golden_data import log
from support.insight.compacted_logs import FIRST_MS
from support.insight.every_question import all_questions, ends_at
from support.log_writer import batch, commit
from support.segment_cutter import in_small_segments

THREADS = 3
BASIS = Basis(now_ms=FIRST_MS + 200_000, retention_ms=1000)
CASES = ("transactions", "old-formats")


@pytest.fixture(autouse=True, scope="module")
def small_is_large():
    """Let threads share any log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel_scan, "cores", lambda: THREADS)
        patch.setattr(threads, "LARGE_BYTES", 1)
        yield


def page(read):
    return page_data(gather(read, BASIS), "title", BASIS)


def rows_of(question, parameters, view):
    return list(question.rows(view, parameters))


def check(home, questions, options):
    """Compare the answers of threads with those of one reading of each partition."""
    for question, parameters in questions:
        expected = [
            rows_of(question, parameters, view) for view in read_partitions([home], **options)
        ]
        rows = partial(rows_of, question, parameters)
        with threads.each_partition([home], rows, **options) as result:
            assert list(result) == expected, question.NAME
    with threads.each_partition([home], lambda view: look(view, BASIS), **options) as by_threads:
        assert page(by_threads) == page(read_partitions([home], **options))


@pytest.mark.parametrize("case", CASES)
def test_threads_give_the_answers_of_one_about_a_real_log(case, tmp_path):
    small = in_small_segments(log(case), tmp_path, 7)
    ends = [
        max((piece.max_timestamp for piece in view.fold.segments), default=-1)
        for view in read_partitions([small])
    ]
    newest_ms = max(ends)
    check(
        small,
        all_questions(newest_ms - 10_000, newest_ms, ends_at([newest_ms - 20_000, newest_ms])),
        {},
    )


class Told(Silent):
    """Records its progress updates."""

    def __init__(self):
        self.whole, self.read = None, []

    def total(self, size_bytes):
        self.whole = size_bytes

    def advance(self, size_bytes):
        self.read.append(size_bytes)


@pytest.mark.parametrize(
    ("question", "parameters"),
    [("growth", Parameters()), ("group_names", group_names.Parameters())],
)
def test_progress_of_a_partition_comes_with_its_segments(question, parameters, tmp_path):
    small = in_small_segments(log("basic"), tmp_path, 12)
    for number, segments in find_segments([small]).partitions().items():
        progress = Told()
        folder = Path(segments[0].path).parent
        list(answer(QuestionRequest(question, parameters, [folder]), progress))
        assert sum(progress.read) == progress.whole
        assert len(progress.read) > len(segments), number
        assert min(progress.read) >= 0


def test_what_cannot_be_read_is_reported_after_the_answers_before_it(tmp_path):
    small = in_small_segments(log("basic"), tmp_path, 12)
    listing = find_segments([small])
    numbers = list(listing.partitions())
    Path(listing.partitions()[numbers[-1]][-1].path).unlink()
    actual = answer(QuestionRequest("growth", Parameters(), listing), Silent())
    assert [next(actual).number for _ in numbers[:-1]] == numbers[:-1]
    with pytest.raises(LogError, match="No such file"):
        next(actual)


def test_nothing_is_read_once_nobody_wants_it(tmp_path):
    small = in_small_segments(log("basic"), tmp_path, 12)
    view = []
    with threads.each_partition([small], view.append) as actual:
        next(actual)
    with pytest.raises(CancelledError):
        view[-1].read_segment_bytes(view[-1].segments[0])


@pytest.mark.parametrize("case", CASES)
def test_a_view_can_be_read_as_long_as_the_log_is_read(case, tmp_path, monkeypatch):
    """Also after all others: `expire` without a time begins with the newest of all."""
    small = in_small_segments(log(case), tmp_path, 7)
    asked = [
        QuestionRequest("expire", expire.Parameters(retention_ms=ms), [small], groups)
        for ms in (1, 1 << 40)
        for groups in (None, frozenset({"g", "group", "tx-group"}))
    ]
    answers = [list(answer(request, Silent())) for request in asked]
    assert any(part.rows for part in answers[0])
    monkeypatch.setattr(parallel_scan, "cores", lambda: 1)
    assert answers == [list(answer(request, Silent())) for request in asked]


def test_every_question_can_be_asked(tmp_path):
    small = in_small_segments(log("basic"), tmp_path, 12)
    for name in ("time_range", "group_names"):
        question = find_question(name)
        expected = [
            list(question.rows(view, question.Parameters())) for view in read_partitions([small])
        ]
        actual = [
            part.rows
            for part in answer(QuestionRequest(name, question.Parameters(), [small]), Silent())
        ]
        assert [[{**row} for row in rows] for rows in expected] == [
            [{k: v for k, v in row.items() if k != "trusted_from"} for row in rows]
            for rows in actual
        ]


@pytest.mark.parametrize("at_ms", [1500, 3000, 5500])
def test_threads_read_no_further_than_a_log_of_a_time_whose_clock_went_back(tmp_path, at_ms):
    """The record of 2000 stands behind that of 5000: as of 3000, the log ends before both.

    As of 5500, it ends where the clock went back: what follows was written later than it says.
    """
    place = tmp_path / "__consumer_offsets-0"
    place.mkdir()
    for offset, time in enumerate((1000, 1200, 5000, 2000, 2100, 6000)):
        record = commit(time, offset=offset, group=b"ab"[offset % 2 :][:1])
        (place / f"{offset:020}.log").write_bytes(batch(offset, [record]))
    options = {"at_ms": at_ms}
    questions = [(explain, explain.Parameters()), (growth, growth.Parameters())]
    check(tmp_path, questions, options)
    (view,) = read_partitions([tmp_path], **options)
    shown = sum(row["records"] for row in growth.rows(view, growth.Parameters()))
    assert shown == (3 if at_ms == 5500 else 2)
