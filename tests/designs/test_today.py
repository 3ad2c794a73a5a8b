"""Today's coordinator over several brokers: what one wrote to the log, the next one loads."""

import random

import pytest

from coterie.designs.today import TodaySimulation
from support.designs.group_clusters import GROUPS, check, settle, settled, shake


def members(cluster):
    return {
        name: (one.member.member_id, one.generation_id, one.places())
        for name, one in cluster.consumers.items()
    }


def test_the_next_broker_loads_the_group_and_nobody_rebalances():
    cluster = settled(TodaySimulation)
    before, rebalances = members(cluster), cluster.costs.rebalances
    dead = cluster.coordinator_of("group1")
    cluster.stop_broker(dead)
    assert cluster.coordinator.snapshot("group1") is None  # nothing but the log knows it
    assert cluster.coordinator_of("group1") not in (dead, None)
    settle(cluster)
    assert (members(cluster), cluster.costs.rebalances) == (before, rebalances)
    group = cluster.coordinator.snapshot("group1")
    assert {one.member_id for one in group.members} == {one[0] for one in before.values()}
    cluster.start_consumer("new", ["t"])
    settle(cluster)
    check(cluster)
    assert {one.generation_id for one in cluster.consumers.values()} == {
        max(generation for _, generation, _ in before.values()) + 1
    }


def test_a_broker_that_coordinates_nothing_is_not_missed():
    cluster = settled(TodaySimulation)
    other = next(one for one in cluster.broker_ids if one != cluster.coordinator_of("group1"))
    cluster.stop_broker(other)
    assert cluster.leaders.answers("group1")


def test_only_the_groups_of_the_broker_that_stopped_wait_for_a_load():
    cluster = settled(TodaySimulation, groups=GROUPS, brokers=range(50))
    assert len({cluster.coordinator_of(group) for group in GROUPS}) == 2
    cluster.stop_broker(cluster.coordinator_of("group2"))
    assert [cluster.leaders.answers(group) for group in GROUPS] == [True, False]
    settle(cluster)
    check(cluster, GROUPS)


def test_a_broker_that_stops_while_it_loads_is_followed_by_the_third():
    cluster = settled(TodaySimulation)
    for _ in range(2):
        cluster.stop_broker(cluster.coordinator_of("group1"))
        cluster.run_until(cluster.schedule.now_ms + 500)
        assert not cluster.leaders.answers("group1")
    before = members(cluster)
    settle(cluster)
    assert cluster.store.live == {cluster.coordinator_of("group1")}
    assert members(cluster) == before


def test_without_a_broker_consumers_go_on_fetching_and_the_first_one_back_knows_them():
    cluster = settled(TodaySimulation)
    for broker in cluster.broker_ids:
        cluster.stop_broker(broker)
    settle(cluster)
    assert cluster.coordinator_of("group1") is None
    cluster.produce("t", 0, 7)
    ranges = [cluster.ledgers["group1"].ranges_of(name).get(("t", 0)) for name in cluster.consumers]
    assert [[0, 6]] in ranges
    before = members(cluster)
    cluster.start_broker(2)
    settle(cluster)
    assert members(cluster) == before
    check(cluster)


def test_a_join_that_the_dead_broker_never_wrote_is_made_again():
    cluster = settled(TodaySimulation, 2)
    cluster.start_consumer("new", ["t"])
    cluster.run_until(cluster.schedule.now_ms + 100)
    assert not cluster.consumers["new"].member.stable
    cluster.stop_broker(cluster.coordinator_of("group1"))
    settle(cluster)
    check(cluster)
    assert cluster.consumers["new"].places()


def test_the_log_keeps_one_record_of_a_group_however_often_it_rebalances():
    cluster = settled(TodaySimulation, 5)
    for _ in range(3):
        cluster.start_consumer(f"more-{cluster.schedule.now_ms}", ["t"])
        settle(cluster)
    assert cluster.costs.rebalances > 3
    assert len(cluster.log) == 1


def test_consumers_that_start_without_a_broker_join_when_there_is_one():
    cluster = TodaySimulation((0, 1))
    cluster.set_topic("t", 2)
    for broker in (0, 1):
        cluster.stop_broker(broker)
    cluster.start_consumer("c", ["t"])
    settle(cluster)
    assert cluster.costs.requests == 0
    cluster.start_broker(1)
    settle(cluster)
    check(cluster)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_it_ends_in_one_assignment_when_all_is_well_again(seed):
    chance = random.Random(seed)
    cluster = settled(TodaySimulation, 2, groups=GROUPS)
    shake(cluster, chance, [6000, 45_000])
    settle(cluster, 3 * 300_000)  # metadata are looked at in between
    check(cluster, GROUPS)
