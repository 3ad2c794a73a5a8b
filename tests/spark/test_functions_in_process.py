"""UDFs, traces and designs on frames, run by a stand-in for Spark. No JVM is started."""

import json
import shutil

import pytest

from coterie import run_trace
from coterie.designs import DESIGNS, compare
from coterie.designs.shipped import path_of
from coterie.errors import ArgumentError
from support.trace_data import TRACES, scenario

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

import coterie_spark  # noqa: E402
from coterie_spark import run_designs, run_traces, traces, udfs  # noqa: E402
from support.spark_stand_in import EPOCH, MILLISECOND, Column, Session, col, patched  # noqa: E402

NEVER = 2**63 - 1


def as_udf(udf):
    """A column of what a pandas UDF computes of a row."""

    def of(*columns):
        columns = [col(one) for one in columns]
        return Column(lambda row: udf.func(*(pd.Series([one.of(row)]) for one in columns))[0])

    return of


@pytest.fixture
def session(monkeypatch):
    patched(monkeypatch)
    monkeypatch.setattr(udfs, "Column", Column)
    for name in ("_expired_udf", "_select_protocol_udf"):
        monkeypatch.setattr(udfs, name, as_udf(getattr(udfs, name)))
    return Session()


OFFSETS = [  # commit, expiry, now, retention -> whether it is gone
    ((90, None, 100, 10), True),
    ((91, None, 100, 10), False),
    ((91, -1, 100, 10), False),
    ((0, 101, 100, 10), False),
    ((99, 100, 100, 10), True),
    ((99, 99, 100, 10), True),
    ((0, NEVER, 100, 10), False),
    ((0, None, 9_000, 9_001), False),
    ((5_000, 7_000, 6_999, 1), False),
    ((5_000, 7_000, 7_000, 9_000), True),
]
TIME = "c long, e long, now long, retention long"


def times(row):
    """A row with the same times as timestamps."""
    commit, expire, now, retention = row
    moment = lambda ms: None if ms is None else EPOCH + ms * MILLISECOND  # noqa: E731
    return moment(commit), moment(expire), moment(now), retention


def test_offsets_expire_by_their_own_time_or_by_age(session):
    frame = session.createDataFrame([row for row, _ in OFFSETS], TIME)
    for expired in (udfs.expired, udfs.expired_column):
        flags = frame.select(expired("c", "e", "now", "retention").alias("x")).collect()
        assert [row.x for row in flags] == [gone for _, gone in OFFSETS], expired
        flags = frame.select(expired(col("c"), col("e"), col("now"), col("retention")).alias("x"))
        assert [row.x for row in flags.collect()] == [gone for _, gone in OFFSETS], expired
    for (commit, expire, now, retention), gone in OFFSETS:
        frame = session.createDataFrame([(commit, expire)], "c long, e long")
        (row,) = frame.select(udfs.expired_column("c", "e", now, retention).alias("x")).collect()
        assert row.x == gone


def test_offsets_with_timestamps_expire_as_those_with_milliseconds(session):
    kinds = "c timestamp, e timestamp, now timestamp, retention long"
    own = [(row, gone) for row, gone in OFFSETS if row[1] not in (-1, NEVER)]
    frame = session.createDataFrame([times(row) for row, _ in own], kinds)
    for expired in (udfs.expired, udfs.expired_column):
        flags = frame.select(expired("c", "e", "now", "retention").alias("x")).collect()
        assert [row.x for row in flags] == [gone for _, gone in own], expired


def test_an_offset_without_a_commit_time_never_expires_by_age(session):
    rows = [(None, None, 100, 10), (None, 100, 100, 10), (None, 101, 100, 10)]
    frame = session.createDataFrame(rows, TIME)
    flags = frame.select(udfs.expired_column("c", "e", "now", "retention").alias("x")).collect()
    assert [row.x for row in flags] == [False, True, False]


@pytest.mark.parametrize("wrong", [1.5, EPOCH + MILLISECOND * 1.001, EPOCH + MILLISECOND * 0.999])
@pytest.mark.parametrize("name", ["commit_ms", "expire_ms", "now_ms"])
def test_a_fraction_of_a_millisecond_is_refused(session, name, wrong):
    given = {"commit_ms": 0, "expire_ms": None, "now_ms": 0, "retention_ms": 0}
    columns = {key: Column(lambda row, value=value: value) for key, value in given.items()}
    with_fraction = {**columns, "retention_ms": Column(lambda row: 1.5)}
    columns[name] = Column(lambda row: wrong)
    frame = session.createDataFrame([(0,)], "c long")
    for expired in (udfs.expired, udfs.expired_column):
        with pytest.raises(ValueError, match=f"{name} must be whole milliseconds"):
            frame.select(expired(**columns).alias("x")).collect()
    numbers = {**columns, name: Column(lambda row: 5.0)}
    for expired in (udfs.expired, udfs.expired_column):
        assert len(frame.select(expired(**numbers).alias("x")).collect()) == 1
    with pytest.raises(ValueError, match="retention_ms must be whole milliseconds"):
        frame.select(udfs.expired_column(**with_fraction).alias("x")).collect()


def test_the_protocol_of_a_group_is_a_column(session):
    groups = Column(lambda row: [["b", "a"], ["a", "b"]] if row["c"] else [])
    frame = session.createDataFrame([(1,), (0,)], "c long")
    rows = frame.select(udfs.select_protocol(groups).alias("x")).collect()
    assert [row.x for row in rows] == ["b", None]


def test_sessions_end_whatever_the_order_of_heartbeats(session):
    beats = [("one", at, 10) for at in (20, 0, 5, 30, 12)]
    beats += [(member, at, 4) for at in (50, 40, 43) for member in ("two", None)]
    frame = session.createDataFrame(beats, "member string, heartbeat_ms long, timeout_ms long")
    ended = [tuple(row) for row in udfs.session_expirations(frame).collect()]
    expected = [("one", 30), ("one", 40), (None, 47), (None, 54), ("two", 47), ("two", 54)]
    assert sorted(map(repr, ended)) == sorted(map(repr, expected))


def test_functions_for_sql_are_registered_by_name(monkeypatch):
    made = {}

    class Registry:
        def register(self, *values):
            made[values[0] if len(values) > 1 else values[0].name()] = values[-1]

    spark = Session()
    spark.udf = spark.udtf = spark.dataSource = Registry()
    coterie_spark.register(spark)
    names = {"consumer_offsets", "expired", "select_protocol", "session_expirations"}
    assert made.keys() == names
    assert made["select_protocol"] is udfs.select_protocol
    assert made["session_expirations"].func.eval
    monkeypatch.delattr(udfs.f, "arrow_udf", raising=False)  # as before Spark 4.1
    udfs.register(spark)
    assert made["expired"] is udfs.expired


def test_traces_run_on_workers_as_in_this_process(session, tmp_path, monkeypatch):
    names = ["vote-tie", "commit-nothing", "demo1"]
    for name in names:
        shutil.copy(TRACES / "scenarios" / f"{name}.trace.jsonl", tmp_path)
    (tmp_path / "bad.trace.jsonl").write_text("{}\n")
    expected = {name: list(run_trace(scenario(name)[0])) for name in names}
    for rows in (10_000, 2):
        monkeypatch.setattr(traces, "ROWS", rows)
        for paths in (str(tmp_path), [str(tmp_path)]):
            frame = run_traces(session, paths)
            assert max(map(len, frame.parts())) == max(map(len, expected.values()))
            found = sorted(frame.collect(), key=lambda row: (row.trace, row.number))
            for name in names:
                own = [row for row in found if row.trace == name]
                assert [json.loads(row.line) for row in own] == expected[name]
                assert [row.number for row in own] == list(range(1, len(own) + 1))
                for row, line in zip(own, expected[name], strict=True):
                    for field in ("at", "event", "op", "id", "group_id"):
                        assert row[field] == line.get(field)
                    assert row.error is None
            (bad,) = [row for row in found if row.trace == "bad"]
            assert bad.error.startswith(f"{tmp_path / 'bad.trace.jsonl'}: line 1")
            assert (bad.number, bad.line, bad.op) == (1, None, None)


def test_each_scenario_runs_under_each_design_as_in_one_process(session, tmp_path):
    story = json.loads(path_of("join-and-close").read_text(encoding="utf-8"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file.json").write_text(json.dumps({**story, "name": "of a file"}))
    (tmp_path / "bad.json").write_text('{"events": [{"op": "explode"}]}')
    scenarios = [
        *("join-and-close", str(tmp_path / "folder"), {**story, "name": "é"}),
        *(str(tmp_path / "bad.json"), {"events": 1}),
    ]
    for designs in ((), ("today", "today")):
        rows = run_designs(session, scenarios, designs).collect()
        runs = compare(story, timeline=False).runs
        chosen = dict.fromkeys(designs or DESIGNS)
        assert len(rows) == len(chosen) * 5
        for name in ("join-and-close", "of a file", "é"):
            found = {row.design: row for row in rows if row.scenario == name}
            assert found.keys() == chosen.keys()
            for design in chosen:
                assert dict(found[design].costs) == runs[design].costs
                assert [json.loads(one) for one in found[design].points] == runs[design].points
                assert found[design].error is None
        wrong = {row.scenario: row for row in rows if row.error is not None}
        assert {name: row.error for name, row in wrong.items()} == {
            "bad": f"{tmp_path}/bad.json: events[0].op: unknown op 'explode'",
            "scenarios[4]": "scenarios[4]: events: 1 is not a list",
        }
        assert all(row.costs is row.points is None for row in wrong.values())
    (alone,) = run_designs(session, "join-and-close", ["today"]).collect()
    assert (alone.scenario, alone.design) == ("join-and-close", "today")
    (alone,) = run_designs(session, {**story, "name": "é"}, ["today"]).collect()
    assert alone.scenario == "é"


@pytest.mark.parametrize(
    ("scenarios", "designs", "message"),
    [
        ("herd", ["today", "raft"], "designs: 'raft' is none of zookeeper-0.8, coordinator-0.9, t"),
        (["herd", 3], [], r"scenarios\[1\]: 3 is no name, path or dict"),
        ({"events": {1}}, [], r"scenarios\[0\]: not JSON"),
    ],
)
def test_what_is_no_scenario_or_design_is_refused_before_anything_runs(scenarios, designs, message):
    with pytest.raises(ArgumentError, match=message):
        run_designs(None, scenarios, designs)
