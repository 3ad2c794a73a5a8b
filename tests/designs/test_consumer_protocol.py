"""The consumer protocol over several brokers: members keep what does not move, whoever fails."""

import random

import pytest

from coterie.designs import run
from coterie.designs.consumer_protocol import ConsumerProtocolSimulation
from coterie.errors import CoterieError
from support.designs.group_clusters import GROUPS, check, settle, settled, shake

SECOND = 1000


def owned(cluster):
    return {name: one.places() for name, one in cluster.consumers.items() if one.alive}


def test_a_consumer_that_comes_or_goes_moves_only_what_it_has_to_own():
    cluster = settled(ConsumerProtocolSimulation, 3, 6)
    before = owned(cluster)
    cluster.start_consumer("new", ["t"])
    settle(cluster)
    after = owned(cluster)
    assert [len(places) for places in after.values()] == [2, 2, 1, 1]
    assert all(set(after[name]) <= set(before[name]) for name in before)
    cluster.consumers["new"].close()
    settle(cluster)
    check(cluster)
    assert all(set(owned(cluster)[name]) >= set(after[name]) for name in before)


def test_a_partition_that_moves_has_no_owner_until_the_new_ones_next_heartbeat():
    cluster = settled(ConsumerProtocolSimulation, 1, 2)
    notes = []
    cluster.note = lambda at_ms, kind, consumer, *details: notes.append((at_ms, kind, consumer))
    began_ms = cluster.schedule.now_ms
    cluster.start_consumer("new", ["t"])
    settle(cluster)
    (given_up,) = [at_ms for at_ms, kind, _ in notes if kind == "gives_up"]
    (taken,) = [at_ms for at_ms, kind, _ in notes if kind == "owns"]
    assert began_ms <= given_up <= began_ms + 5010  # the next heartbeat of the old owner
    assert given_up < taken == began_ms + 5000 + 2 * 5  # two responses of 5 ms each


def test_the_next_broker_loads_the_group_and_nobody_moves():
    cluster = settled(ConsumerProtocolSimulation)
    before, rebalances = owned(cluster), cluster.costs.rebalances
    dead = cluster.coordinator_of("group1")
    cluster.stop_broker(dead)
    assert cluster.coordinator_of("group1") not in (dead, None)
    settle(cluster)
    assert (owned(cluster), cluster.costs.rebalances) == (before, rebalances)
    check(cluster)


def test_a_hand_over_that_the_dead_broker_began_is_ended_by_the_next_one():
    cluster = settled(ConsumerProtocolSimulation)
    cluster.start_consumer("new", ["t"])
    cluster.run_until(cluster.schedule.now_ms + 100)
    assert not cluster.consumers["new"].member.stable or not cluster.consumers["new"].places()
    cluster.stop_broker(cluster.coordinator_of("group1"))
    settle(cluster)
    check(cluster)
    assert cluster.consumers["new"].places()


def test_without_a_broker_consumers_go_on_fetching():
    cluster = settled(ConsumerProtocolSimulation)
    for broker in cluster.broker_ids:
        cluster.stop_broker(broker)
    before = owned(cluster)
    settle(cluster)
    cluster.produce("t", 0, 7)
    ranges = [cluster.ledgers["group1"].ranges_of(name).get(("t", 0)) for name in cluster.consumers]
    assert [[0, 6]] in ranges
    cluster.start_broker(2)
    settle(cluster)
    assert owned(cluster) == before


def test_a_consumer_that_is_cut_off_for_a_session_loses_its_partitions_and_comes_back():
    cluster = settled(ConsumerProtocolSimulation, 2)
    cluster.cut("group1-0")
    settle(cluster, 60 * SECOND)
    assert all(len(owners) == 2 for place, owners in cluster.ledgers["group1"].owners.items()
               if place in cluster.consumers["group1-0"].places())  # fmt: skip
    cluster.heal("group1-0")
    settle(cluster)
    check(cluster)


def test_a_response_that_a_cut_off_consumer_does_not_get_is_made_good_later():
    cluster = settled(ConsumerProtocolSimulation, 1, 2)
    cluster.start_consumer("new", ["t"])
    cluster.run_until(cluster.schedule.now_ms + 4)  # its response is under way
    cluster.cut("new")
    settle(cluster, 20 * SECOND)
    cluster.heal("new")
    settle(cluster)
    check(cluster)


def test_new_partitions_and_topics_that_come_again_have_owners_with_the_next_heartbeats():
    cluster = settled(ConsumerProtocolSimulation, 2, 2)
    cluster.set_topic("t", 6)
    settle(cluster, 20 * SECOND)
    check(cluster)
    cluster.set_topic("t", 0)
    settle(cluster, 20 * SECOND)
    assert owned(cluster) == {"group1-0": [], "group1-1": []}
    cluster.set_topic("t", 4)  # with a new id
    settle(cluster, 20 * SECOND)
    check(cluster)


@pytest.mark.parametrize("behaviour", ["4.1", "4.4"])
def test_a_session_timeout_is_one_of_the_group_and_longer_than_the_interval_of_heartbeats(
    behaviour,
):
    start = {"at": 1000, "op": "start", "subscription": {"t": 1}}
    events = [
        {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0], [0]]},
        *(start | {"consumer": name} for name in "ab"),
        {"at": 30_000, "op": "crash", "consumer": "a"},
        {"at": 90_000, "op": "settle", "point": 1},
    ]

    def unowned(timeout_ms):
        config = {"consumer": {"zookeeper.session.timeout.ms": timeout_ms}}
        scenario = {"config": config, "events": events}
        ran = run(scenario, "consumer-protocol", behaviour=behaviour)
        return ran.costs["unowned_seconds"]

    assert unowned(20_000) - unowned(10_000) == pytest.approx(10, abs=0.1)
    with pytest.raises(CoterieError, match="5000 must be below session_timeout_ms 5000"):
        unowned(5000)


@pytest.mark.parametrize(("behaviour", "unowned"), [("4.1", 0), ("4.2", 0), ("4.3", 5), ("4.4", 5)])
def test_since_4_3_a_member_goes_on_with_the_old_target_for_a_second(behaviour, unowned):
    start = {"op": "start", "subscription": {"t": 1}}
    events = [
        {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0], [0]]},
        start | {"at": 1000, "consumer": "a"},
        start | {"at": 10_600, "consumer": "b"},
        {"at": 10_800, "op": "close", "consumer": "b"},  # a hears of both at 11,000
        {"at": 40_000, "op": "settle", "point": 1},
    ]
    ran = run({"config": {}, "events": events}, "consumer-protocol", behaviour=behaviour)
    assert ran.costs["unowned_seconds"] == pytest.approx(unowned, abs=0.1)


@pytest.mark.parametrize("behaviour", ["3.9", "4", 4.4, None])
def test_another_behaviour_is_refused(behaviour):
    with pytest.raises(CoterieError, match="is none of 4"):
        run({"config": {}, "events": []}, "consumer-protocol", behaviour=behaviour)


@pytest.mark.parametrize(
    ("strategy", "assignor"),
    [({}, "uniform"), ({"range": 1}, "range"), ({"roundrobin": 1}, "uniform")],
)
def test_a_strategy_of_the_scenario_chooses_the_brokers_assignor(strategy, assignor):
    cluster = ConsumerProtocolSimulation((0,))
    cluster.set_topic("t", 2)
    cluster.start_consumer("c", ["t"], strategy=next(iter(strategy), None))
    settle(cluster)
    (group,) = cluster.coordinator.consumer_group_describe(["group1"]).groups
    assert group.assignor_name == assignor


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_it_ends_in_one_assignment_when_all_is_well_again(seed):
    chance = random.Random(seed)
    cluster = settled(ConsumerProtocolSimulation, 2, groups=GROUPS)
    shake(cluster, chance, [None, 6000])
    settle(cluster)
    check(cluster, GROUPS)


@pytest.mark.parametrize("seed", range(10))
def test_no_partition_has_two_owners_while_every_consumer_reaches_its_coordinator(seed):
    chance = random.Random(seed)
    cluster = settled(ConsumerProtocolSimulation, 3, 7)
    owners = cluster.ledgers["group1"].owners
    for number in range(40):
        what = chance.choice(["start", "close", "stop", "back", "grow"])
        if what == "start":
            cluster.start_consumer(f"n{number}", ["t"])
        elif what == "close" and len(owned(cluster)) > 2:
            cluster.consumers[chance.choice([*owned(cluster)])].close()
        elif what == "stop" and len(cluster.store.live) > 1:
            cluster.stop_broker(chance.choice(sorted(cluster.store.live)))
        elif what == "back":
            cluster.start_broker(chance.choice(cluster.broker_ids))
        elif what == "grow":
            cluster.set_topic("t", cluster.counts("t") + 1)
        for _ in range(chance.choice([1, 3, 20])):
            cluster.run_until(cluster.schedule.now_ms + chance.choice([2, 5, 700, 4000]))
            assert max(map(len, owners.values())) == 1
