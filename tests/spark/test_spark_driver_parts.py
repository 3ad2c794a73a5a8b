"""The driver's decisions and its reports, with a stand-in for a session. No JVM is started."""

from types import SimpleNamespace

import pytest

from coterie import CoterieError
from coterie.insight.question_engine import PartitionAnswer, QuestionRequest
from coterie.insight.questions import growth
from coterie.log.folders import Listing, Segment
from coterie.state.pickling import pack
from coterie_spark import designs, insight
from coterie_spark.replay_job import parted, scanning

pytest.importorskip("pyarrow")
engine = pytest.importorskip("coterie_spark.replay_job.engine", reason="needs pyspark")
from coterie_spark.replay_job import closures, on_the_driver  # noqa: E402


class Conf(dict):
    """Settings of a session."""


def session(master="local[2]", cores=2, **settings):
    context = SimpleNamespace(master=master, defaultParallelism=cores)
    return SimpleNamespace(sparkContext=context, conf=Conf(settings))


def segments(*sizes, partition=0):
    return [Segment(f"{at}.log", partition, at, size, None) for at, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("master", "setting", "is_small"),
    [
        ("local[2]", "30", True),
        ("local", "30", True),
        ("local[2]", "29", False),
        ("local[2]", "-1", False),
        ("spark://host:7077", "30", False),
        ("local-cluster[2,1,1024]", "30", False),
    ],
)
def test_the_driver_folds_a_log_up_to_a_size_where_workers_would_be_local(
    master, setting, is_small
):
    spark = session(master, **{on_the_driver.SETTING: setting})
    listing = Listing(tuple(segments(10, 20)), ())
    assert on_the_driver.is_small(spark, listing) == is_small
    at_url = Listing(tuple([Segment("s3a://b/0.log", 0, 0, 1, None)]), ())
    assert not on_the_driver.is_small(spark, at_url)


@pytest.mark.parametrize("size", ["much", "", None])
def test_a_size_that_is_no_number_is_refused(size):
    spark = session(**{on_the_driver.SETTING: size})
    with pytest.raises(CoterieError, match=f"must be a number of bytes, not '{size or ''}'"):
        on_the_driver.is_small(spark, Listing((), ()))


def test_a_session_without_a_context_or_a_setting():
    few = Listing(tuple(segments(on_the_driver.DRIVER_BYTES)), ())
    assert on_the_driver.is_small(session(), few)
    assert not on_the_driver.is_small(session(), Listing(tuple(segments(1, few.size)), ()))
    assert not on_the_driver.is_small(SimpleNamespace(conf=Conf()), few)


# ---- progress


class Progress:
    """The bytes that a command shows as read."""

    def __init__(self):
        self.advances = []

    def advance(self, size):
        self.advances.append(size)


def stage(completed, tasks):
    return SimpleNamespace(numCompletedTasks=completed, numTasks=tasks)


def job_with(stages, size=1000):
    """A job of which Spark tells these stages, by number; None: it does not know it yet."""
    spark, progress = session(), Progress()
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    spark.sparkContext.statusTracker = lambda: tracker
    return engine.JobProgress(spark, size, progress), progress


def test_progress_is_the_share_of_finished_tasks_of_the_first_known_stage_and_never_falls():
    stages = {1: None, 2: stage(0, 0), 3: stage(1, 4), 4: stage(9, 9)}
    job, progress = job_with(stages)
    for completed in (1, 3, 2, 4):
        stages[3] = stage(completed, 4)
        job.report()
    assert progress.advances == [250, 500, 0, 250]


@pytest.mark.parametrize(
    ("master", "known", "has_none"),
    [("spark://h:1", 1, True), ("spark://h:1", 2, False), ("local[2]", 1, False)],
)
def test_a_cluster_has_no_executor_while_it_knows_the_driver_alone(master, known, has_none):
    job, _ = job_with({})
    job.context.master = master
    status = SimpleNamespace(size=lambda: known)
    context = SimpleNamespace(getExecutorMemoryStatus=lambda: status)
    job.context._jsc = SimpleNamespace(sc=lambda: context)
    assert job.has_no_executor() == has_none


def test_a_job_gives_its_result_or_raises_its_failure():
    job, _ = job_with({})
    assert job.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        job.run(lambda: 1 // 0)


def test_the_line_of_an_unfit_worker_is_the_first_that_says_so():
    error = f"at x\n  Error: {closures.UNFIT}one: a  \n{closures.UNFIT}two: b"
    assert closures.unfit_line(error) == f"{closures.UNFIT}one: a"
    assert closures.unfit_line("at x") == ""


# ---- questions, whole and in parts

REQUEST = QuestionRequest(
    *("growth", growth.Parameters(), (), frozenset({"g"})), at_ms=9_000, since_ms=4_000
)
LOG = [(3, segments(1, partition=3)), (5, segments(2, 3, partition=5))]


def test_a_view_has_the_partition_the_groups_and_the_times_of_the_request():
    def read(segment):
        return memoryview(b"")

    query = parted.PartedQuery(LOG, REQUEST, [(0, ()), (1, ()), (1, ())], read)
    for view in (insight.view_of(LOG, REQUEST, read, 1), query.view(1)):
        assert (view.number, list(view.segments)) == (5, LOG[1][1])
        assert (view.groups, view.at_ms, view.since_ms) == (frozenset({"g"}), 9_000, 4_000)
    assert [query.part_numbers(place) for place in range(2)] == [[0], [1, 2]]
    assert [number for number, _ in query.part_log] == [3, 5, 5]


@pytest.mark.parametrize(
    ("cores", "sizes", "parts"),
    [
        (1, [20] * 6, [2, 2, 2]),  # three tasks for each core
        (2, [20] * 6, [1] * 6),
        (4, [4] * 5, [3, 2]),  # none of fewer than the least bytes, but for the last
        (1, [90] * 5, [1] * 5),  # none that goes on beyond the most
    ],
)
def test_a_part_has_a_share_of_the_bytes_within_bounds(monkeypatch, cores, sizes, parts):
    monkeypatch.setattr(parted, "PART_BYTES_MIN", 10)
    monkeypatch.setattr(parted, "PART_BYTES", 80)
    log = [(3, []), (5, segments(*sizes, partition=5))]
    query = parted.in_parts(session(cores=cores), log, REQUEST)
    assert [len(own) for place, own in query.parts if place == 1] == parts
    assert [own for place, own in query.parts if place == 0] == [()]
    assert parted.in_parts(session(cores=cores), [(5, segments(5))], REQUEST) is None


def test_answers_come_in_order_of_the_partition_from_chunks_in_any_order():
    answers = [PartitionAnswer(number, [{"n": number}], 1, [], 2, 3) for number in (0, 2)]
    rows = [
        SimpleNamespace(number=part.number, chunk=chunk, error=None, body=body)
        for part in answers
        for chunk, body in enumerate(halves(pack(insight.PART, part)))
    ]
    assert list(insight.answers_of(reversed(rows))) == answers
    rows.append(SimpleNamespace(number=1, chunk=0, error="p-1: is gone", body=None))
    with pytest.raises(CoterieError, match="p-1: is gone"):
        list(insight.answers_of(rows))


def halves(body):
    return body[: len(body) // 2], body[len(body) // 2 :]


@pytest.mark.parametrize("size", [1, 3, 4, 5, 8, 9])
def test_bytes_travel_as_numbered_rows_of_bounded_size(monkeypatch, size):
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 4)
    whole = bytes(range(size))
    rows = list(parted.rows_in(parted.body_rows(7, 8, 9, whole)))
    assert [row[:4] for row in rows] == [(7, 8, 9, chunk) for chunk in range((size + 3) // 4)]
    assert max(len(row.body) for row in rows) <= 4
    assert parted.joined_body(rows) == whole
    assert parted.joined_body([*rows, parted.PartRow(7, 8, 9, 0, None, None)]) == whole
    failed = parted.rows_in([parted.error_row(7, 8, CoterieError("is gone"))])
    with pytest.raises(CoterieError, match="is gone"):
        parted.joined_body(failed)


def test_chunks_of_segments_go_into_files_and_all_other_rows_pass():
    put = []
    spool = SimpleNamespace(put=lambda *chunk: put.append(chunk))
    rows = [
        parted.PartRow(4, parted.SPOOLED + 90, 2, 0, None, b"a"),
        parted.PartRow(4, parted.SPOOLED, 1, 0, None, None),
        parted.PartRow(4, parted.WHOLE, 0, 0, None, b"b"),
        parted.PartRow(4, 0, 0, 0, None, b"c"),
    ]
    passed = parted.without_chunks(map(parted.batch_of, rows), spool)
    assert list(passed) == rows[2:]
    assert put == [(4, 2, b"a"), (4, 1, b"")]


# ---- designs


def test_a_scenario_becomes_a_row_with_its_own_name_and_text():
    events = [
        {"at": 0, "op": "create_topic", "topic": "é", "replicas": [[0]]},
        {"at": 1, "op": "start", "consumer": "c", "subscription": {"é": 1}},
        {"at": 60_000, "op": "settle", "point": 1},
    ]
    scenario = f'{{"name": "mine", "events": {events}}}'.replace("'", '"')
    row = designs.row_of("given", None, scenario, "today")
    assert (row["scenario"], row["design"], row["error"]) == ("mine", "today", None)
    assert '"é/0"' in row["points"][0]
    assert dict(row["costs"])["rebalances"] == 1.0
    assert dict(row["costs"])["watch_events"] is None
    wrong = designs.row_of("given", None, "[1]", "today")
    assert (wrong["scenario"], wrong["costs"], wrong["points"]) == ("given", None, None)
    assert wrong["error"] == "given: a scenario is an object, not [1]"
