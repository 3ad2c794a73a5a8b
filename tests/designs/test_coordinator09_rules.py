"""The 0.9 coordinator's own rules: when a rebalance is over, whom it refuses, what moments mean."""

import json

import pytest

from coterie.designs import DESIGNS, coordinator09_simulation, read_scenario, run, today
from coterie.designs.coordinator09_simulation import Player
from coterie.designs.ops import MOMENTS
from coterie.designs.shipped import path_of
from support.designs.coordinator09_cases import check, settle, settled, trigger

NEXT = 60_000  # by then every consumer has heard of a rebalance, and has joined


def state(cluster):
    """The state that the group's coordinator was last in."""
    states = {"Catch up", "Ready", "Prepare for rebalance", "Rebalancing"}
    return next(one.text for one in reversed(cluster.logged) if one.text in states)


def generation(cluster):
    return cluster.store.groups["group1"].generation_id


def written(cluster):
    """Let a topic grow, and stop as soon as the new generation is written."""
    before = generation(cluster)
    trigger(cluster, "topic grows")
    while generation(cluster) == before:
        cluster.run_until(cluster.schedule.now_ms + 1)
    return before + 1


def test_a_group_is_rebalancing_until_all_have_shown_the_new_generation():
    """The group is Ready once all have shown the new generation, by heartbeats or commits."""
    cluster = settled(3, 1)
    new = written(cluster)
    cluster.hold("c3")  # what it was answered does not reach it
    cluster.run_until(cluster.schedule.now_ms + 5000)
    assert {cluster.consumers[one].generation_id for one in ("c1", "c2")} == {new}
    assert state(cluster) == "Rebalancing"
    cluster.release("c3")
    cluster.run_until(cluster.schedule.now_ms + 100)
    assert state(cluster) == "Ready"
    settle(cluster)
    check(cluster)
    assert generation(cluster) == new


def test_a_commit_of_the_new_generation_shows_it_as_a_heartbeat_does():
    cluster = settled(3, 1)
    new = written(cluster)
    while any(one.generation_id < new for one in cluster.consumers.values()):
        cluster.run_until(cluster.schedule.now_ms + 1)
    first, *others = cluster.consumers.values()  # their heartbeats are on the way
    for one in others:
        cluster.commit(one)
    assert state(cluster) == "Rebalancing"
    cluster.commit(first)
    assert state(cluster) == "Ready"


def test_a_commit_of_an_older_generation_shows_nothing():
    cluster = settled(2, 1)
    written(cluster)
    for one in cluster.consumers.values():  # the answers are on the way
        cluster.commit(one)
    assert state(cluster) == "Rebalancing"


@pytest.mark.parametrize(
    ("strategy", "code"),
    [
        ("roundrobin", "InconsistentPartitionAssignmentStrategy"),
        ("nobody's", "UnknownPartitionAssignmentStrategy"),
    ],
)
def test_a_strategy_that_is_unknown_or_not_the_groups_is_refused(strategy, code):
    cluster = settled(2, 1)
    before, owners = generation(cluster), dict(cluster.owners())
    refused = cluster.start_consumer("other", ["a"], strategy=strategy)
    settle(cluster)
    assert refused.error.value == code
    assert (refused.id, refused.partitions, refused.fetching) == ("", (), False)
    assert (generation(cluster), dict(cluster.owners())) == (before, owners)


def test_a_topic_that_is_not_there_has_no_partitions_and_no_owners():
    cluster = settled(1, 1)
    cluster.start_consumer("other", ["a", "missing"])
    settle(cluster)
    check(cluster)
    assert {topic for topic, _ in cluster.owners()} == {"a"}
    assert cluster.counts("missing") == 0


def test_a_group_that_everybody_has_left_takes_another_strategy():
    cluster = settled(1, 1)
    cluster.consumers["c1"].close()
    cluster.start_consumer("other", ["a"], strategy="roundrobin")
    settle(cluster)
    check(cluster)
    assert cluster.store.groups["group1"].strategy == "roundrobin"


def shipped(number):
    """The scenario that comes with the package, read."""
    text = path_of(f"coordinator-dies-{number}").read_text(encoding="utf-8")
    return read_scenario(json.loads(text))


COURSES = {  # before the coordinator dies: was any told, did any join, was it written; an answer?
    1: (False, False, False, False),
    2: (True, False, False, False),
    3: (True, True, False, False),
    4: (True, True, True, False),
    5: (True, True, True, True),
}


@pytest.mark.parametrize("number", COURSES)
def test_each_moment_of_a_scenario_is_its_point_of_failure(number):
    """The five points differ in what has happened and in who was answered.

    Who joins has stopped consumption. An answer is on its way when its sender dies: its consumer
    is part of the generation that the dead one wrote.
    """
    scenario = shipped(number)
    assert [op.moment for op in scenario.ops if hasattr(op, "moment")] == [MOMENTS[number - 1]]
    cluster = coordinator09_simulation.CoordinatorSimulation(scenario.config.brokers)
    Player(scenario, cluster, None).run()
    (dies,) = (i for i, one in enumerate(cluster.logged) if one.text == "dies")
    begun = max(i for i, one in enumerate(cluster.logged[:dies]) if one.text == "rebalance")
    before, after = cluster.logged[begun:dies], cluster.logged[dies:]
    generations = {one.detail for one in before if one.text == "wrote generation"}
    parts = {one.detail for one in after if one.text == "Part of a group"}
    assert COURSES[number] == (
        any(one.text == "told IllegalGeneration" for one in before),
        any(one.text == "Stopped consumption" for one in before),
        bool(generations),
        bool(generations & parts),
    )


class Watched(today.TodaySimulation):
    """Notes in which state the group is, and when, as its coordinator is stopped."""

    stops = ()

    def stop_broker(self, broker_id):
        group = self.coordinator.describe_group("group1")
        self.stops = (*self.stops, (group.state, self.schedule.now_ms))
        super().stop_broker(broker_id)


@pytest.mark.parametrize("number", COURSES)
def test_each_moment_of_a_scenario_is_a_state_of_todays_group(number):
    """As docs/designs.md has it: it prepares, then all have joined, then it is stable."""
    scenario = shipped(number)
    cluster = Watched(scenario.config.brokers)
    (asked,) = (op.at for op in scenario.ops if hasattr(op, "moment"))
    Player(scenario, cluster, None).run()
    ((found, at_ms),) = cluster.stops
    states = {4: "CompletingRebalance", 5: "Stable"}
    assert found == states.get(number, "PreparingRebalance")
    assert at_ms > asked  # not what it was before the rebalance


@pytest.mark.parametrize("design", DESIGNS[1:])
def test_a_point_of_a_design_with_a_coordinator_lists_everything_in_order(design):
    """Groups, consumers and partitions by name and number, whatever came first."""
    topics, both = {"u": 1, "t": 11}, {"u": 1, "t": 1}
    events = [
        *({"op": "create_topic", "topic": name, "replicas": [[0]] * size}
          for name, size in topics.items()),
        *({"op": "start", "consumer": name, "group": group, "subscription": both}
          for name, group in (("b", "h"), ("a", "g"))),
        *({"op": "produce", "topic": topic, "partition": number, "count": 1, "at": 60_000}
          for topic, number in (("u", 0), ("t", 10), ("t", 9))),
        {"op": "settle", "point": 1, "at": 90_000},
        *({"op": "zk_cut", "consumer": name, "at": 90_000} for name in "ba"),
        *({"op": "start", "consumer": name, "group": group, "subscription": both, "at": 91_000}
          for name, group in (("d", "h"), ("c", "g"))),
        {"op": "settle", "point": 2, "at": 300_000},
    ]  # fmt: skip
    events = [{"at": 1000, **event} for event in events]
    first, second = run({"events": events}, design).points
    names = [f"t/{number}" for number in range(11)] + ["u/0"]
    for consumer in first["consumers"].values():
        assert list(consumer["next_offsets"]) == names
        assert list(consumer["consumed"]) == ["t/9", "t/10", "u/0"]
    assert list(second["consumers"]) == ["a", "b", "c", "d"]
    several = second["partitions_that_several_believe_theirs"]
    assert list(several) == [f"{group} {name}" for group in "gh" for name in names]
    assert {tuple(owners) for owners in several.values()} == {("a", "c"), ("b", "d")}
