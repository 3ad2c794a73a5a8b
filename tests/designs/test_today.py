"""Today's coordinator over several brokers: what one wrote to the log, the next one loads."""

import random

import pytest

from coterie.designs.today import TodaySimulation

GROUPS = ("group1", "group2")
SETTLED_MS = 200_000


def settled(consumers=3, partitions=6, groups=GROUPS[:1], brokers=(0, 1, 2)):
    """A cluster whose groups have settled."""
    cluster = TodaySimulation(brokers)
    cluster.set_topic("t", partitions)
    for group in groups:
        for number in range(consumers):
            cluster.start_consumer(f"{group}-{number}", ["t"], group_id=group)
    settle(cluster)
    return cluster


def settle(cluster):
    cluster.run_until(cluster.schedule.now_ms + SETTLED_MS)


def check(cluster, groups=GROUPS[:1]):
    """One assignment for each group, complete and without two owners."""
    for group in groups:
        living = [one for one in cluster.consumers.values() if one.group_id == group and one.alive]
        held = [place for one in living for place in one.places()]
        wanted = {(t, n) for one in living for t in one.topics for n in range(cluster.counts(t))}
        assert sorted(held) == sorted(wanted)
        assert all(one.member.stable for one in living)
        owners = cluster.ledgers[group].owners
        assert {place: len(owners[place]) for place in wanted} == dict.fromkeys(wanted, 1)


def members(cluster):
    return {
        name: (one.member.member_id, one.generation_id, one.places())
        for name, one in cluster.consumers.items()
    }


def test_the_next_broker_loads_the_group_and_nobody_rebalances():
    cluster = settled()
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
    cluster = settled()
    other = next(one for one in cluster.broker_ids if one != cluster.coordinator_of("group1"))
    cluster.stop_broker(other)
    assert cluster.leaders.answers("group1")


def test_only_the_groups_of_the_broker_that_stopped_wait_for_a_load():
    cluster = settled(groups=GROUPS, brokers=range(50))
    assert len({cluster.coordinator_of(group) for group in GROUPS}) == 2
    cluster.stop_broker(cluster.coordinator_of("group2"))
    assert [cluster.leaders.answers(group) for group in GROUPS] == [True, False]
    settle(cluster)
    check(cluster, GROUPS)


def test_a_broker_that_stops_while_it_loads_is_followed_by_the_third():
    cluster = settled()
    for _ in range(2):
        cluster.stop_broker(cluster.coordinator_of("group1"))
        cluster.run_until(cluster.schedule.now_ms + 500)
        assert not cluster.leaders.answers("group1")
    before = members(cluster)
    settle(cluster)
    assert cluster.store.live == {cluster.coordinator_of("group1")}
    assert members(cluster) == before


def test_without_a_broker_consumers_go_on_fetching_and_the_first_one_back_knows_them():
    cluster = settled()
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
    cluster = settled(2)
    cluster.start_consumer("new", ["t"])
    cluster.run_until(cluster.schedule.now_ms + 100)
    assert not cluster.consumers["new"].member.stable
    cluster.stop_broker(cluster.coordinator_of("group1"))
    settle(cluster)
    check(cluster)
    assert cluster.consumers["new"].places()


def test_the_log_keeps_one_record_of_a_group_however_often_it_rebalances():
    cluster = settled(5)
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


def happen(cluster, chance, number):
    """One random thing."""
    living = [name for name, one in cluster.consumers.items() if one.alive]
    what = chance.choice(["start", "close", "crash", "cut", "heal", "stop", "back", "grow"])
    if what == "start":
        timeout = chance.choice([6000, 45_000])
        cluster.start_consumer(
            f"n{number}", ["t"], group_id=chance.choice(GROUPS), session_timeout_ms=timeout
        )
    elif what in ("close", "crash") and len(living) > 2:
        getattr(cluster.consumers[chance.choice(living)], what)()
    elif what in ("cut", "heal"):
        getattr(cluster, what)(chance.choice(living))
    elif what in ("stop", "back"):
        do = cluster.stop_broker if what == "stop" else cluster.start_broker
        do(chance.choice(cluster.broker_ids))
    elif what == "grow":
        cluster.set_topic("t", cluster.counts("t") + 1)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_it_ends_in_one_assignment_when_all_is_well_again(seed):
    chance = random.Random(seed)
    cluster = settled(2, groups=GROUPS)
    for number in range(30):
        happen(cluster, chance, number)
        cluster.run_until(cluster.schedule.now_ms + chance.choice([0, 7, 900, 8000, 60_000]))
    for broker in cluster.broker_ids:
        cluster.start_broker(broker)
    for name in cluster.consumers:
        cluster.heal(name)
    cluster.run_until(cluster.schedule.now_ms + 3 * 300_000)  # metadata are looked at in between
    check(cluster, GROUPS)
