"""A Spark Connect session gives the same results as this process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import ScanOptions, run_trace
from coterie.designs import compare
from coterie.designs.shipped import path_of
from coterie.insight.fields import arrow_schema, arrow_table
from coterie.insight.offsets.end_offsets import read_end_offsets
from coterie.insight.question_engine import fields_of, find_question, rows_of
from coterie.insight.records.partition_view import read_partitions
from coterie.state.local_replay import scan_state
from coterie.state.replay_engine import Silent
from coterie_spark.replay_job.arrow import spark_schema, to_spark
from support import golden_data
from support.trace_data import TRACES, scenario

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
for needed in ("grpc", "grpc_status", "zstandard"):
    pytest.importorskip(needed, reason="pip install 'pyspark[connect]'")

CASE = "default50"
LOG = golden_data.log(CASE)
NOW_MS = 1795237385000
TRACE = "vote-tie"
KEY_AND_OFFSET = ["group_id", "topic", "partition", "offset"]
QUESTIONS = {
    "audit": {},
    "expire": {"now_ms": NOW_MS},
    "explain": {},
    "growth": {},
    "metrics": {},
    "undo": {"at_ms": NOW_MS},
}
ENDS = "t-a:0:1000000\nt-c:11:5\n"


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The folder of all answers over one session."""
    folder = tmp_path_factory.mktemp("connect")
    traces = folder / "traces"
    traces.mkdir()
    (traces / f"{TRACE}.trace.jsonl").symlink_to(TRACES / f"scenarios/{TRACE}.trace.jsonl")
    (folder / "ends").write_text(ENDS)
    script = ["-m", "support.package.spark_over_connect", folder, LOG, traces]
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, *script],
        env=os.environ | own | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def found(folder, name):
    """The rows of an answer, in an order of their own."""
    with pa.memory_map(str(folder / f"{name}.arrow")) as file:
        return in_order(pa.ipc.open_file(file).read_all())


def in_order(table):
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize(
    "name", ["groups", "members", "offsets", "generations", "faults", "commits"]
)
def test_a_replay_gives_the_tables_of_one_process_though_the_log_is_gone(answers, name):
    table = scan_state((str(LOG),), ScanOptions(history=True), Silent()).to_arrow()[name]
    expected = in_order(to_spark(table, spark_schema(table.schema)))
    assert found(answers, f"replay-{name}") == expected
    assert expected or name == "faults"


@pytest.mark.parametrize("name", [*QUESTIONS, "lag"])
def test_a_question_gives_the_rows_of_one_process(answers, name):
    question = find_question(name)
    of_lag = {"ends": read_end_offsets(answers / "ends"), "at_ms": NOW_MS, "log_until_ms": NOW_MS}
    ask = question.Parameters(**QUESTIONS.get(name, of_lag))
    rows = [row for facts in read_partitions([LOG]) for row in rows_of(facts, question, ask)]
    schema = spark_schema(arrow_schema(fields_of(question)))
    assert found(answers, name) == in_order(
        to_spark(arrow_table(fields_of(question), rows), schema)
    )
    assert rows


def test_designs_run_as_in_one_process(answers):
    with pa.memory_map(str(answers / "designs.arrow")) as file:
        (row,) = pa.ipc.open_file(file).read_all().to_pylist()
    scenario = json.loads(path_of("join-and-close").read_text(encoding="utf-8"))
    costs = compare(scenario, ["today"], timeline=False).runs["today"].costs
    assert (row["scenario"], row["design"]) == ("join-and-close", "today")
    assert json.loads(row["costs"]) == costs


@pytest.mark.parametrize("name", ["source", "created"])
def test_the_data_source_gives_the_records(answers, name):
    expected = [(record["partition"], record["offset"]) for record in golden_data.records(CASE)]
    with pa.memory_map(str(answers / f"{name}.arrow")) as file:
        rows = pa.ipc.open_file(file).read_all().select(["offsets_partition", "log_offset"])
        assert sorted(tuple(row.values()) for row in rows.to_pylist()) == sorted(expected)
    assert expected


def test_rows_of_a_frame_are_replayed(answers):
    groups = golden_data.json_of(CASE, "groups.json")["groups"]
    expected = [
        {"group_id": group["group_id"], **{name: row[name] for name in KEY_AND_OFFSET[1:]}}
        for group in groups
        for row in group["offsets"]
    ]
    with pa.memory_map(str(answers / "frame-offsets.arrow")) as file:
        rows = pa.ipc.open_file(file).read_all().select(KEY_AND_OFFSET)
        assert in_order(rows) == sorted(map(repr, expected))
    assert expected


@pytest.mark.parametrize("by", ["", "-sql"])
def test_the_udfs_compute_what_the_library_computes(answers, by):
    gone = [{"c": 0, "x": True}, {"c": 0, "x": True}, {"c": 95, "x": False}]
    for name in (f"expired{by}", "expired_column"):
        assert found(answers, name) == sorted(map(repr, gone))
    assert found(answers, f"select_protocol{by}") == [repr({"x": "b"})]
    ended = [("m", 10), ("m", 40), ("n", 15)]
    assert found(answers, f"session_expirations{by}") == [
        repr({"member": member, "ended_ms": at}) for member, at in ended
    ]


def test_traces_run_as_in_one_process(answers):
    with pa.memory_map(str(answers / "traces.arrow")) as file:
        rows = pa.ipc.open_file(file).read_all().sort_by("number").to_pylist()
    assert [json.loads(row["line"]) for row in rows] == list(run_trace(scenario(TRACE)[0]))
