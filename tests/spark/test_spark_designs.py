"""Scenarios on Spark give what they give in one process."""

import json

import pytest

from coterie.designs import DESIGNS, compare
from coterie.designs.shipped import path_of
from coterie.errors import ArgumentError
from coterie_spark.replay_job.tasks import a_row_a_task

pytest.importorskip("pyspark")


def test_each_scenario_runs_under_each_design_as_in_one_process(spark, tmp_path):
    from coterie_spark import run_designs

    story = json.loads(path_of("join-and-close").read_text(encoding="utf-8"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file.json").write_text(json.dumps({**story, "name": "of a file"}))
    (tmp_path / "folder" / "file.actual.json").write_text("what a run wrote")
    (tmp_path / "bad.json").write_text('{"events": [{"op": "explode"}]}')
    scenarios = [
        *("herd", str(tmp_path / "folder"), story),
        *(str(tmp_path / "bad.json"), str(tmp_path / "none.json"), {"name": "x", "events": 1}),
    ]
    rows = run_designs(spark, scenarios).collect()
    herd = json.loads(path_of("herd").read_text(encoding="utf-8"))
    for name, scenario in (("herd", herd), ("of a file", story), ("join-and-close", story)):
        found = {row.design: row for row in rows if row.scenario == name}
        assert found.keys() == {*DESIGNS}
        for design, local in compare(scenario, timeline=False).runs.items():
            assert found[design].costs == local.costs
            assert [json.loads(point) for point in found[design].points] == local.points
            assert found[design].error is None
    wrong = {row.scenario: row for row in rows if row.error is not None}
    assert {name: row.error for name, row in wrong.items()} == {
        "bad": f"{tmp_path}/bad.json: events[0].op: unknown op 'explode'",
        "none": f"{tmp_path}/none.json: No such file or directory",
        "x": "x: events: 1 is not a list",
    }
    assert all(row.costs is row.points is None for row in wrong.values())
    assert len(rows) == len(DESIGNS) * 6


@pytest.mark.parametrize(
    ("scenarios", "designs", "message"),
    [
        ("herd", ["raft"], "designs: 'raft' is none of zookeeper-0.8, coordinator-0.9, today"),
        ([3], [], r"scenarios\[0\]: 3 is no name, path or dict"),
        ({"events": {1}}, [], r"scenarios\[0\]: not JSON"),
    ],
)
def test_what_is_no_scenario_or_design_is_refused_before_anything_runs(scenarios, designs, message):
    from coterie_spark import run_designs

    with pytest.raises(ArgumentError, match=message):
        run_designs(None, scenarios, designs)


def test_each_scenario_under_each_design_is_a_task_of_its_own(spark):
    from pyspark.sql.functions import spark_partition_id

    from coterie_spark import run_designs

    ran = run_designs(spark, ["stale-views", "join-and-close"])
    tasks = [row[0] for row in ran.select(spark_partition_id()).collect()]
    assert sorted(tasks) == list(range(2 * len(DESIGNS)))


@pytest.mark.parametrize("count", [1, 2, 7])
def test_each_row_comes_to_a_task_of_its_own(spark, count):
    from pyspark.sql.functions import spark_partition_id

    rows = a_row_a_task(spark, [(f"{n}",) for n in range(count)], "name string")
    tasks = [row[0] for row in rows.select(spark_partition_id()).collect()]
    assert sorted(tasks) == list(range(count))
