"""The driver's decisions and its reports, with a stand-in for a session. No JVM is started."""

from types import SimpleNamespace

import pytest

from coterie import CoterieError
from coterie.insight.question_engine import PartitionAnswer, QuestionRequest
from coterie.insight.questions import growth
from coterie.log.folders import Listing, Segment
from coterie.state.pickling import pack
from coterie_spark import designs, insight

pytest.importorskip("pyarrow")
engine = pytest.importorskip("coterie_spark.replay_job.engine", reason="needs pyspark")
from coterie_spark.replay_job import closures, roads  # noqa: E402


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
    spark = session(master, **{roads.SETTING: setting})
    listing = Listing(tuple(segments(10, 20)), ())
    assert roads.is_small(spark, listing) == is_small


@pytest.mark.parametrize("size", ["much", "", None])
def test_a_size_that_is_no_number_is_refused(size):
    spark = session(**{roads.SETTING: size})
    with pytest.raises(CoterieError, match=f"must be a number of bytes, not '{size or ''}'"):
        roads.is_small(spark, Listing((), ()))


def test_a_session_without_a_context_or_a_setting():
    few = Listing(tuple(segments(roads.DRIVER_BYTES)), ())
    assert roads.is_small(session(), few)
    assert not roads.is_small(session(), Listing(tuple(segments(1, few.size)), ()))
    assert not roads.is_small(SimpleNamespace(conf=Conf()), few)


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


# ---- questions

REQUEST = QuestionRequest(
    *("growth", growth.Parameters(), (), frozenset({"g"})), at_ms=9_000, since_ms=4_000
)
LOG = [(3, segments(1, partition=3)), (5, segments(2, 3, partition=5))]


def test_a_view_has_the_partition_the_groups_and_the_times_of_the_request():
    def read(segment):
        return memoryview(b"")

    view = insight.view_of(LOG, REQUEST, read, 1)
    assert (view.number, list(view.segments)) == (5, LOG[1][1])
    assert (view.groups, view.at_ms, view.since_ms) == (frozenset({"g"}), 9_000, 4_000)


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
