"""Questions as the driver plans them, run by a stand-in for Spark. No JVM is started."""

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

import coterie_spark
from coterie import CoterieError
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.question_engine import (
    QuestionRequest,
    check_names,
    fields_of,
    find_question,
    rows_of,
)
from coterie.insight.questions import expire, growth
from coterie.insight.records.partition_view import read_partitions
from coterie.log.folders import Segment
from coterie.state.replay_engine import Silent
from coterie_spark import insight
from coterie_spark.replay_job import scanning
from support import log_writer as write
from support.golden_data import log, records
from support.segment_cutter import in_small_segments
from support.spark_questions import QUESTIONS, RESET_CLI, arguments_of, rows_here

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
from coterie_spark.replay_job import engine, spool  # noqa: E402
from support.spark_stand_in import EPOCH, Session, patched  # noqa: E402

OF_TRANSACTIONS = [
    (name, parameters) for name, case, parameters in QUESTIONS if case == "transactions"
]
OTHERS = [
    ("audit", {"no_progress": 5}),
    ("explain", {"flap_count": 2}),
    ("growth", {"every_ms": 10_000}),
    ("metrics", {}),
]


@pytest.fixture
def session(monkeypatch, tmp_path):
    patched(monkeypatch)
    monkeypatch.setattr(spool, "home", lambda: str(tmp_path))
    return Session()


@pytest.mark.parametrize(
    ("name", "parameters", "scheme"),
    [(*one, "") for one in OF_TRANSACTIONS + OTHERS] + [(*one, "file:") for one in OF_TRANSACTIONS],
)
def test_a_question_gives_the_rows_it_gives_here(
    session, tmp_path, monkeypatch, name, parameters, scheme
):
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 5000)
    monkeypatch.setattr(insight, "ROWS_AT_ONCE", 3)
    home = tmp_path / "log"
    in_small_segments(log("transactions"), home, 3)
    expected = rows_here(home, name, parameters)
    frame = getattr(coterie_spark, name)(session, f"{scheme}{home}", **arguments_of(parameters))
    assert frame.columns == list(fields_of(find_question(name)))
    answer = frame.toArrow().to_pylist()
    rows = sorted(repr(row).replace(f"{scheme}{home}", str(home)) for row in answer)
    assert rows == expected
    assert expected
    assert max(map(len, frame.parts())) < len(rows) or len(rows) < 3


def test_a_partition_without_bytes_at_a_url_has_an_answer_too(session, tmp_path):
    for number, data in ((1, write.batch(0, [write.commit(5)])), (2, b"")):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(data)
    parameters = {"every_ms": 10}
    for form in (str, type(tmp_path).as_uri):
        frame = coterie_spark.growth(session, form(tmp_path), **parameters)
        assert sorted(map(repr, frame.toArrow().to_pylist())) == rows_here(
            tmp_path, "growth", parameters
        )


def test_each_partition_has_a_task_though_no_file_has_bytes(session):
    log_ = [(n, [Segment(f"file:/l/{n}.log", n, 0, 0, None)]) for n in (3, 5, 8, 9, 11)]

    def work(read, batches):
        for batch in batches:
            for task in batch.column(0).to_pylist():
                (segment,) = log_[task][1]
                yield pa.RecordBatch.from_pydict(
                    {"n": [log_[task][0]], "b": [bytes(read(segment))]}
                )

    found = spool.each_partition(session, log_, work, "n long, b binary")
    assert sorted(map(tuple, found.collect())) == [(n, b"") for n, _ in log_]
    assert [table.num_rows for table in found.parts()] == [1] * 5


def test_a_segment_that_cannot_be_read_is_named(session, tmp_path):
    in_small_segments(log("transactions"), tmp_path / "gone", 3)
    frame = coterie_spark.undo(session, tmp_path / "gone", at=RESET_CLI)
    (first, *_) = sorted(tmp_path.glob("gone/*/*.log"))
    first.unlink()
    with pytest.raises(CoterieError, match=first.name):
        frame.collect()


# ---- arguments


def requested(session, monkeypatch, name, newest=70, **arguments):
    """The request that a question makes of its arguments."""
    made = []
    monkeypatch.setattr(insight, "question_frame", lambda spark, request: made.append(request))
    monkeypatch.setattr(insight, "newest_ms", lambda spark, log: newest)
    getattr(coterie_spark, name)(session, log("corrupt/fine"), **arguments)
    (request,) = made
    return request


def test_times_and_groups_reach_the_question(session, monkeypatch):
    time = EPOCH + timedelta(milliseconds=9_001)
    for at in (9_001, time, time.isoformat()):
        request = requested(session, monkeypatch, "growth", at=at, since=4_003, groups="gh")
        assert (request.question, request.at_ms, request.since_ms) == ("growth", 9_001, 4_003)
        assert request.groups == frozenset({"gh"})
    request = requested(session, monkeypatch, "growth", until=time, since=time)
    assert (request.at_ms, request.since_ms, request.groups) == (9_001, 9_001, None)
    assert requested(session, monkeypatch, "growth", groups=["a", "b"]).groups == {"a", "b"}
    assert requested(session, monkeypatch, "growth").at_ms is None


def test_a_time_of_the_question_is_no_bound_of_the_records(session, monkeypatch):
    for arguments in ({"at": 9_001}, {"at_ms": 9_001}):
        request = requested(session, monkeypatch, "undo", **arguments)
        assert (request.parameters.at_ms, request.at_ms) == (9_001, None)
    request = requested(session, monkeypatch, "undo", at=9_001, until=9_500)
    assert (request.parameters.at_ms, request.at_ms) == (9_001, 9_500)


def test_now_is_a_parameter_or_until_or_the_newest_record(session, monkeypatch):
    for arguments, now_ms in (({}, 70), ({"until": 90}, 90), ({"now_ms": 0, "until": 90}, 0)):
        request = requested(session, monkeypatch, "expire", **arguments)
        assert request.parameters.now_ms == now_ms
    with pytest.raises(CoterieError, match="no record with a time; give now_ms"):
        requested(session, monkeypatch, "expire", newest=None)
    assert requested(session, monkeypatch, "expire", newest=None, until=90).parameters.now_ms == 90
    for arguments, until_ms in (({}, 70), ({"log_until_ms": 80}, 80)):
        ends = EndOffsets(True, {("t", 0): (Sample(5, 9000),)})
        request = requested(session, monkeypatch, "lag", ends=ends, **arguments)
        assert request.parameters.log_until_ms == until_ms


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("lag", {}, "^lag needs ends$"),
        ("lag", {"ends": None}, "^lag needs ends$"),
        ("undo", {}, "^undo needs at$"),
        ("expire", {"nonsense": 1}, "expire has no nonsense; it takes now_ms, retention_ms, what"),
        ("undo", {"at": 5, "at_ms": 5}, "at and at_ms say the same; give one of them"),
        ("growth", {"at": 5, "until": 5}, "at and until say the same; give one of them"),
    ],
)
def test_a_wrong_parameter_is_one_line(session, name, arguments, says):
    with pytest.raises(CoterieError, match=says):
        getattr(coterie_spark, name)(session, log("corrupt/fine"), **arguments)


def test_a_parameter_has_a_default_or_a_value_or_is_needed():
    @dataclass
    class Ask:
        plain: int
        known: int | None = None
        several: list = field(default_factory=list)

    check_names("ask", Ask, {"plain": 0})
    check_names("ask", Ask, {"plain": 0, "known": None, "several": None})
    with pytest.raises(CoterieError, match=r"^ask needs plain$"):
        check_names("ask", Ask, {"known": 5, "several": []})
    with pytest.raises(CoterieError, match=r"^ask has no x; it takes plain, known, several$"):
        check_names("ask", Ask, {"plain": 0, "x": 1})
    with pytest.raises(CoterieError, match=r"^ask has no x; it takes nothing$"):
        check_names("ask", dataclass(type("None_", (), {})), {"x": 1})


@pytest.mark.parametrize("name", ["audit", "expire", "explain", "growth", "lag", "undo", "metrics"])
def test_each_question_is_a_function_of_its_name(name):
    ask = getattr(coterie_spark, name)
    assert (ask.__name__, ask.__qualname__) == (name, name)
    assert f"coterie.insight.{name}.Parameters" in ask.__doc__


# ---- the command


class Progress(Silent):
    def __init__(self):
        self.calls = []

    def total(self, size):
        self.calls.append(("total", size))

    def stage(self, name):
        self.calls.append(("stage", name))


@pytest.fixture
def of_command(session, monkeypatch):
    """A command gets the session, by its master and settings."""
    given = []

    @contextmanager
    def session_of_command(master, progress, conf):
        given.append((master, conf))
        yield session

    monkeypatch.setattr(engine, "session_of_command", session_of_command)
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    return given


@pytest.mark.parametrize("form", [str, type(log("basic")).as_uri])
def test_a_command_has_the_answers_of_each_partition(session, of_command, monkeypatch, form):
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 100)  # several chunks of each answer
    paths = (form(log("transactions")),)
    now_ms = max(record["timestamp"] for record in records("transactions"))
    for given in (None, now_ms):
        ask = expire.Parameters(now_ms=given)
        request = QuestionRequest("expire", ask, paths, master="yarn", conf=(("a", "b"),))
        progress = Progress()
        answers = list(insight.answer(request, progress))
        rows = [row for one in answers for row in one.rows]
        views = read_partitions([log("transactions")])
        known = expire.Parameters(now_ms=now_ms)
        assert rows == [row for view in views for row in rows_of(view, expire, known)]
        size = sum(path.stat().st_size for path in log("transactions").glob("*/*.log"))
        assert progress.calls == [("total", size), ("stage", "reading")]
    assert of_command == [("yarn", (("a", "b"),))] * 2
    bound = {1} if form is str else {64}
    assert {*session.rows_per_batch} - {10_000} == bound  # the newest time is read apart


def test_a_log_without_times_has_a_now_before_all(session, of_command, tmp_path, monkeypatch):
    (tmp_path / "a.log").touch()
    requests = []
    monkeypatch.setattr(
        insight, "answers_over", lambda *a: requests.append(a[2]) or session.range(0)
    )
    monkeypatch.setattr(insight, "newest_ms", lambda spark, log: None)
    request = QuestionRequest("expire", expire.Parameters(), (str(tmp_path / "a.log"),))
    assert list(insight.answer(request, Silent())) == []
    assert requests[0].parameters.now_ms == -1
    request = QuestionRequest("growth", growth.Parameters(), (str(tmp_path / "a.log"),))
    assert list(insight.answer(request, Silent())) == []
    assert replace(requests[1], log=request.log) == request  # the listing of the start


def test_the_newest_time_is_that_of_the_newest_record_of_all_partitions(session, tmp_path):
    for number, times in enumerate([(5, 9_001), (7,), (-1,)]):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        data = b"".join(write.each(0, *(write.commit(time, committed=3) for time in times)))
        (folder / f"{0:020}.log").write_bytes(data)
    assert insight.newest_ms(session, (str(tmp_path),)) == 9_001
    alone = tmp_path / "__consumer_offsets-2"
    assert insight.newest_ms(session, (str(alone),)) is None
