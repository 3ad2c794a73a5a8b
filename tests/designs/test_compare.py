"""One scenario under several designs: what is owned at the end, and what it cost."""

import json

import pytest

from coterie.designs import DESIGNS, compare, read_scenario, run
from coterie.designs.shipped import path_of, shipped
from support.commandline import coterie
from support.designs import zk08_data

COORDINATOR = "coordinator-0.9"


def scenario(name):
    return json.loads(path_of(name).read_text(encoding="utf-8"))


def owned(point):
    return {
        name: sorted(one["next_offsets"])
        for name, one in point["consumers"].items()
        if one["state"] == "running"
    }


@pytest.mark.parametrize("design", DESIGNS[:3])
def test_the_story_of_the_document_ends_each_step_with_its_owners(design):
    """Four consumers join a topic of three partitions, then three close."""
    a, b, c = "topic1/0", "topic1/1", "topic1/2"
    points = run(scenario("join-and-close"), design).points
    assert [list(owned(point).values()) for point in points] == [
        *([[a, b, c]], [[a, b], [c]], [[a], [b], [c]], [[a], [b], [c], []]),
        *([[a], [b], [c]], [[a, b], [c]], [[a, b, c]]),
    ]


def test_the_story_under_the_consumer_protocol_moves_only_what_has_to_move():
    """Source: docs/rules/consumer-groups.md#assignors, `uniform`: members keep what they can."""
    a, b, c = "topic1/0", "topic1/1", "topic1/2"
    points = run(scenario("join-and-close"), "consumer-protocol").points
    assert [list(owned(point).values()) for point in points] == [
        *([[a, b, c]], [[a, b], [c]], [[a], [c], [b]], [[a], [c], [b], []]),
        *([[c], [b], [a]], [[b], [a, c]], [[a, b, c]]),
    ]


def test_the_herd_costs_each_consumer_a_rebalance_and_the_coordinator_one_for_each_join():
    costs = compare(scenario("herd")).costs
    assert costs["zookeeper-0.8"]["rebalances"] == 12 * 13 // 2
    assert costs[COORDINATOR]["rebalances"] == 12
    assert costs[COORDINATOR]["took_part"] == 12 * 13 // 2


@pytest.mark.parametrize("design", DESIGNS[1:])
@pytest.mark.parametrize("number", range(1, 6))
def test_a_coordinator_dies_and_all_is_owned_by_one_at_the_end(number, design):
    (point,) = run(scenario(f"coordinator-dies-{number}"), design).points
    held = [place for places in owned(point).values() for place in places]
    assert sorted(held) == [f"topic1/{n}" for n in range(6)]
    assert point["partitions_without_consumer"] == []
    assert point["partitions_that_several_believe_theirs"] == {}


@pytest.mark.parametrize("design", DESIGNS)
def test_who_is_cut_off_goes_on_consuming_what_another_has_taken_over(design):
    """Ten messages of each of two partitions are consumed twice: the other two are not shared."""
    found = compare(scenario("long-cut"), [design]).costs[design]
    assert found["repeated"] == 20
    assert found["shared_seconds"] > 60


def test_a_cost_that_a_design_does_not_have_is_a_dash():
    rows = {row[0]: row[1:] for row in compare(scenario("crash-and-return")).rows()}
    assert rows["zookeeper_operations"][-1] == rows["watch_events"][-1] == "-"
    assert "-" not in rows["requests"]


def test_every_scenario_that_comes_with_coterie_is_whole_and_has_its_name():
    assert len(shipped()) == 12
    for name in shipped():
        assert read_scenario(scenario(name)).name == name


@pytest.mark.skipif(not zk08_data.files(), reason="no ../shared/golden/zk08")
@pytest.mark.parametrize("design", DESIGNS[1:])
def test_every_golden_scenario_runs_under_the_later_designs_and_the_same_each_time(design):
    for path in zk08_data.files():
        given = zk08_data.stripped(path)
        assert run(given, design) == run(given, design)


def test_the_command_prints_a_column_for_each_design():
    done = coterie("designs", "compare", "herd")
    assert done.stdout.splitlines()[0].split() == ["cost", *DESIGNS]
    assert done.stdout.splitlines()[1].split() == ["rebalances", "78", "12", "12", "12"]
    assert len({len(line) for line in done.stdout.splitlines()}) == 1  # numbers end below names


def test_the_command_takes_one_design_a_setting_and_gives_json():
    done = coterie(
        *("designs", "compare", "crash-and-return", "--design", COORDINATOR, "--format", "json"),
        *("--set", "zookeeper.session.timeout.ms=6000"),
    )
    found = json.loads(done.stdout)
    assert done.stdout == json.dumps(found, indent=1) + "\n"
    assert (found["name"], list(found["costs"])) == ("crash-and-return", [COORDINATOR])
    # two partitions, a session of 6 s, and what is left of an interval of 2 s
    assert 8 <= found["costs"][COORDINATOR]["unowned_seconds"] <= 30


def test_list_names_designs_and_scenarios():
    done = coterie("designs", "list").stdout
    assert all(f"  {name}" in done for name in [*DESIGNS, *shipped()])
