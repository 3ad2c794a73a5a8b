"""Consumers of 0.8.2 over ZooKeeper: the golden scenarios, as real ones ran them."""

import json

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coterie.designs import Times, run
from support.commandline import coterie
from support.designs import zk08_data
from support.examples import examples

FILES = zk08_data.files()
pytestmark = pytest.mark.skipif(not FILES, reason="no ../shared/golden/zk08")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_point_is_as_kafka_had_it(path):
    assert zk08_data.differences(path, run(zk08_data.stripped(path)).points) == []


def test_the_comparison_sees_one_wrong_count():
    path = FILES[0]
    points = run(zk08_data.stripped(path)).points
    name = next(iter(points[0]["consumers"]))
    points[0]["consumers"][name]["since_last_point"]["failed_rebalances"] += 1
    assert len(zk08_data.differences(path, points)) == 1


def test_the_same_scenario_gives_the_same_bytes():
    for path in FILES:
        first, again = (run(zk08_data.stripped(path)) for _ in range(2))
        assert json.dumps(first.points) == json.dumps(again.points)
        assert first.timeline == again.timeline
        assert (first.costs, first.counted) == (again.costs, again.counted)


small_times = st.builds(
    lambda delivery, claim, gap, reconnect: Times(
        delivery_ms=delivery,
        claim_ms=claim,
        start_gap_ms=gap,
        watch_ms=gap * 15 // 2,
        reconnect_ms=delivery + reconnect,
    ),
    delivery=st.integers(0, 60),
    claim=st.integers(1, 120),
    gap=st.sampled_from([2, 4, 6]),
    reconnect=st.integers(1, 900),
)


@given(times=small_times)
@settings(max_examples=examples(24), phases=[Phase.explicit, Phase.generate])
def test_small_times_change_nothing_that_is_golden(times):
    for path in FILES:
        points = run(zk08_data.stripped(path), times=times, timeline=False).points
        assert zk08_data.differences(path, points) == [], path.stem


def test_the_command_writes_what_the_comparison_reads(tmp_path):
    bare = tmp_path / "in"
    bare.mkdir()
    for path in FILES:
        (bare / path.name).write_text(json.dumps(zk08_data.stripped(path)))
    ran = coterie("designs", "run", bare, "--out", tmp_path / "out")
    assert (ran.returncode, ran.stderr) == (0, f"{len(FILES)} run, 0 failed\n")
    for path in FILES:
        actual = json.loads((tmp_path / "out" / f"{path.stem}.actual.json").read_text())
        assert actual["name"] == path.stem
        assert zk08_data.differences(path, actual["points"]) == []
