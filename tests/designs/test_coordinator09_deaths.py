"""The 0.9 design when its coordinator dies: at the document's five points, and anywhere."""

import itertools
import random

import pytest

from coterie.designs.coordinator09 import BOUNDARIES
from coterie.designs.coordinator09_simulation import POINTS
from support.designs.coordinator09_cases import TRIGGERS, Deaths, check, settle, settled, trigger


def told(cluster, *, since=0):
    """Consumers that got IllegalGeneration, by broker."""
    return [
        (one.source, one.detail)
        for one in cluster.logged[since:]
        if one.text == "told IllegalGeneration"
    ]


def entered(cluster, state, *, since=0):
    return [one.source for one in cluster.logged[since:] if one.text == state]


def died_at_point(point):
    """Play a topic that grows and a death; the cluster, two places in its log, and who is next."""
    cluster = settled(3, 1)
    begin, before = len(cluster.logged), generation(cluster)
    cluster.dies = deaths = Deaths(POINTS[point])
    trigger(cluster, "topic grows")
    settle(cluster)
    ((dead, _),) = deaths.died_at
    check(cluster)
    dies = next(i for i, one in enumerate(cluster.logged) if one.text == "dies")
    new = next(one.source for one in cluster.logged[dies:] if one.text == "Catch up")
    assert new != f"broker {dead}"
    assert generation(cluster) == before + (1 if point < 4 else 2)  # one more was written
    return cluster, begin, dies, new


def test_a_dead_broker_is_missed_when_its_session_has_ended():
    """The broker's zookeeper.session.timeout.ms, by default 6000; then a watch has to fire."""
    cluster, _, dies, _ = died_at_point(1)
    elected = next(one for one in cluster.logged[dies:] if one.text == "Catch up")
    assert elected.at_ms - cluster.logged[dies].at_ms == 6000 + cluster.settings.watch_ms


def generation(cluster):
    return cluster.store.groups["group1"].generation_id


IDS = {"c1-1", "c2-1", "c3-1"}
ALL = {"c1", "c2", "c3"}


def test_point_1_the_new_coordinator_sees_that_the_topic_has_changed():
    cluster, begin, dies, new = died_at_point(1)
    assert not told(cluster, since=begin)[: -len(IDS)]
    assert {*entered(cluster, "Rediscover coordinator", since=dies)} == ALL
    why = [one.detail for one in cluster.logged[dies:] if one.text == "rebalance"]
    assert why == ["topics changed"]
    assert {*told(cluster, since=dies)} == {(new, one) for one in IDS}


def test_point_2_who_was_told_rejoins_and_the_others_rediscover():
    cluster, begin, dies, new = died_at_point(2)
    (first,) = [one for _, one in told(cluster, since=begin) if _ != new]
    name = first.partition("-")[0]
    assert entered(cluster, "Stopped consumption", since=dies)[0] == name
    assert {*entered(cluster, "Rediscover coordinator", since=dies)} == ALL - {name}
    assert {*entered(cluster, "Stopped consumption", since=dies)} == ALL
    assert {who for who, _ in told(cluster, since=dies)} == {new}


def test_point_3_those_whose_join_is_lost_time_out_and_the_new_coordinator_rebalances():
    cluster, begin, dies, new = died_at_point(3)
    assert {one for _, one in told(cluster, since=begin)} == IDS
    assert entered(cluster, "Rediscover coordinator", since=dies)
    assert [one.source for one in cluster.logged[dies:] if one.text == "wrote generation"] == [new]


def test_point_4_heartbeats_with_the_old_generation_are_illegal_so_all_rejoin():
    cluster, _, dies, new = died_at_point(4)
    assert cluster.logged[dies - 1].text == "wrote generation"
    assert {*entered(cluster, "Rediscover coordinator", since=dies)} == ALL
    first = {one for who, one in told(cluster, since=dies) if who == new}
    assert first == IDS


def test_point_5_who_was_answered_goes_on_and_the_others_make_it_rebalance_again():
    cluster, _, dies, _ = died_at_point(5)
    after = cluster.logged[dies:]
    parts = [one for one in after if one.text == "Part of a group"]
    first = parts[0].detail
    answered = {one.source for one in parts if one.detail == first}
    assert len(answered) == 1
    rejoined = next(i for i, one in enumerate(after) if one.text == "rebalance")
    others = {one.detail for one in after[:rejoined] if one.text == "told IllegalGeneration"}
    assert others
    assert not others & {f"{one}-1" for one in answered}


class Course:
    """What was logged around a death at a point, where a group of some size had settled."""

    def __init__(self, point, what, consumers, topics):
        self.what = what
        self.cluster = cluster = settled(consumers, topics)
        begin, self.before = len(cluster.logged), generation(cluster)
        cluster.dies = deaths = Deaths(POINTS[point])
        trigger(cluster, what)
        settle(cluster)
        check(cluster)
        self.died = bool(deaths.died_at)
        logged = cluster.logged[begin:]
        dies = next((at for at, one in enumerate(logged) if one.text == "dies"), len(logged))
        self.until, self.after = logged[:dies], logged[dies:]
        self.old = {one for one in cluster.consumers if one != "new" and not self.gone(one)}
        self.ids = {f"{one}-1" for one in self.old}  # as the coordinator before knew them

    def gone(self, name):
        return not self.cluster.consumers[name].alive

    def told(self, log):
        return [one.detail for one in log if one.text == "told IllegalGeneration"]

    def entered(self, state):
        return {one.source for one in self.after if one.text == state} & self.old


def path_1(course):
    """No consumer got the error: all rediscover, and the new coordinator sends it to each."""
    assert course.told(course.until) == []
    assert course.entered("Rediscover coordinator") == course.old
    assert {*course.told(course.after)} >= course.ids


def path_2(course):
    """A consumer with the error rejoins, the others rediscover, and all are rebalanced."""
    (first,) = course.told(course.until)
    name = first.removesuffix("-1")
    assert course.entered("Rediscover coordinator") == course.old - {name}
    assert course.entered("Stopped consumption") == course.old
    assert {*course.told(course.after)} >= course.ids - {first}


def path_3(course):
    """No join is answered: all find the new coordinator, by a join or by a heartbeat."""
    assert not [one for one in course.until if one.text in ("wrote generation", "Part of a group")]
    stopped = {name.removesuffix("-1") for name in course.told(course.until)} & course.old
    lost = course.entered("Rediscover coordinator")  # no error yet, or a join to the dead
    assert course.old - stopped <= lost
    assert lost or not course.old
    assert course.entered("Part of a group") == course.old
    assert {*course.told(course.after)} >= {f"{one}-1" for one in course.old - stopped}
    assert [one.source for one in course.after if one.text == "rebalance"]


def path_4(course):
    """The generation is written, heartbeats have an older one, and all rejoin."""
    assert course.until[-1].text == "wrote generation"
    assert course.entered("Rediscover coordinator") == course.old
    assert {*course.told(course.after)} >= course.ids
    assert course.entered("Stopped consumption") == course.old
    assert generation(course.cluster) > course.before + bool(course.old)


def path_5(course):
    """Who was answered goes on; another that was not makes the new one rebalance again."""
    parts = [one for one in course.after if one.text == "Part of a group"]
    written = [one.detail for one in course.until if one.text == "wrote generation"]
    answered = {one.source for one in parts if [one.detail] == written}
    assert len(answered) == 1
    again = [at for at, one in enumerate(course.after) if one.text == "rebalance"]
    others = {name for name, one in course.cluster.consumers.items() if one.alive} - answered
    assert bool(again) == bool(others)
    if others:
        told = {*course.told(course.after[: again[0]])}
        without = {f"{one}-1" for one in others & course.old}
        if course.what == "consumer joins":  # its own join, or theirs, whichever comes first
            assert told <= without
        else:
            assert told == without
        for name in course.old:  # a consumer with an answer gets the error, too: it has to rejoin
            rejoins = next(
                at
                for at, one in enumerate(course.after)
                if (one.source, one.text) == (name, "Part of a group") and [one.detail] != written
            )
            assert f"{name}-1" in course.told(course.after[:rejoins])


PATHS = {1: path_1, 2: path_2, 3: path_3, 4: path_4, 5: path_5}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(("consumers", "topics"), [*itertools.product((1, 2, 3), (1, 2))])
def test_whatever_a_point_interrupts_the_path_is_the_documents(point, consumers, topics):
    """Each kind of rebalance; no broker dies at a point that is not reached (no members)."""
    died = 0
    for what in TRIGGERS:
        course = Course(point, what, consumers, topics)
        died += course.died
        if course.died:
            PATHS[point](course)
        else:
            assert (consumers, what) in {(1, "consumer crashes"), (1, "consumer closes")}
    assert died >= len(TRIGGERS) - 2


def test_while_it_rediscovers_a_consumer_keeps_fetching():
    cluster = settled(2, 1)
    cluster.dies = Deaths("received")
    seen = set()
    for at in range(100_000, 140_000, 50):
        cluster.run_until(at)
        for one in cluster.consumers.values():
            if one.state.value == "Rediscover coordinator":
                seen.add((one.name, one.fetching))
    assert seen == {("c1", True), ("c2", True)}


def test_requests_to_a_coordinator_that_catches_up_are_told_so():
    cluster = settled(1, 1)
    cluster.set_topic("z", 1)
    asked = []
    inner = cluster.to_consumer
    cluster.to_consumer = lambda *given: (asked.append(given[2]), inner(*given))
    cluster.start_consumer("z", ["z"], group_id="another")
    cluster.run_until(cluster.schedule.now_ms + 5000)
    names = [one.error.value for one in asked]
    assert "CoordinatorStartupNotComplete" in names


@pytest.mark.parametrize(("consumers", "topics"), [*itertools.product((1, 2, 3), (1, 2))])
def test_a_death_at_any_boundary_and_a_second_in_catch_up_end_in_one_assignment(consumers, topics):
    met = set()
    for what, second in itertools.product(TRIGGERS, ((), ("catching up",))):
        for boundary in itertools.count(1):
            cluster = settled(consumers, topics)
            cluster.dies = deaths = Deaths(boundary, *second)
            trigger(cluster, what)
            settle(cluster)
            if not deaths.died_at:
                break
            met.update(name for _, name in deaths.died_at)
            check(cluster)
    assert met == {*BOUNDARIES}


def two_deaths(what, consumers, topics, first, second):
    """Kill at the first number of a boundary, then the next coordinator; where both died."""
    cluster = settled(consumers, topics)
    cluster.dies = deaths = Deaths(first, second)
    trigger(cluster, what)
    settle(cluster)
    settle(cluster)
    check(cluster)
    return [boundary for _, boundary in deaths.died_at]


@pytest.mark.parametrize(
    ("consumers", "topics", "step"),
    [(1, 1, 3), (2, 1, 3), (3, 2, 10), pytest.param(3, 2, 3, marks=pytest.mark.slow)],
)
def test_the_next_coordinator_dies_too_at_any_boundary_and_it_ends_in_one_assignment(
    consumers, topics, step
):
    """Each ``step``-th boundary of the next one, from another on for each of the first one."""
    met = set()
    for what in TRIGGERS:
        for first in itertools.count(1):
            died = []
            for second in itertools.count(1 + first % step, step):
                died = two_deaths(what, consumers, topics, first, second)
                met.update(died[1:])
                if len(died) < 2:
                    break
            if not died:
                break
    assert met == {*BOUNDARIES}


@pytest.mark.parametrize(
    ("brokers", "consumers", "topics"), [*itertools.product((1, 2), (1, 2, 3), (1, 2))]
)
def test_with_fewer_brokers_those_that_died_come_back_and_it_ends_in_one_assignment(
    brokers, consumers, topics
):
    """With one broker, or two that die in turn, none can be elected until one is back."""
    met, alone = set(), 0
    for what, second in itertools.product(TRIGGERS, ((), ("catching up",))):
        for boundary in itertools.count(1):
            cluster = settled(consumers, topics, brokers)
            before = generation(cluster)
            cluster.dies = deaths = Deaths(boundary, *second)
            trigger(cluster, what)
            cluster.run_until(cluster.schedule.now_ms + 45_000)
            if not deaths.died_at:
                break
            for _ in range(2):  # the second may die as it catches up
                alone += not cluster.store.live
                for broker in cluster.broker_ids:
                    cluster.start_broker(broker)
                cluster.run_until(cluster.schedule.now_ms + 20_000)
            cluster.run_until(cluster.schedule.now_ms + 100_000)
            met.update(name for _, name in deaths.died_at)
            check(cluster)
            assert generation(cluster) >= before
    assert met == {*BOUNDARIES}
    assert alone


OPS = ("start", "close", "crash", "cut", "hold", "heal", "stop", "back", "grow", "die", "produce")


def happen(cluster, chance, what):
    """One random thing; where it makes no sense now, nothing."""
    living = [one.name for one in cluster.consumers.values() if one.alive]
    idle = sorted({"c1", "c2", "c3", "c4"} - {*living})
    name = chance.choice(living) if living else None
    if what == "start" and idle:
        topics = chance.choice([["a"], ["b"], ["a", "b"]])
        timeout = chance.choice([6000, 30_000])
        cluster.start_consumer(chance.choice(idle), topics, session_timeout_ms=timeout)
    elif what in ("close", "crash") and name:
        getattr(cluster.consumers[name], what)()
    elif what in ("cut", "hold") and name:
        getattr(cluster, what)(name)
    elif what == "heal":
        heal(cluster)
    elif what == "stop":
        cluster.stop_broker(chance.choice(cluster.broker_ids), session_ms=chance.choice([0, 6000]))
    elif what == "back":
        cluster.start_broker(chance.choice(cluster.broker_ids))
    elif what == "grow":
        topic = chance.choice("ab")
        cluster.set_topic(topic, cluster.store.topics[topic] + 1)
    elif what == "die":
        cluster.dies = Deaths(chance.choice([*BOUNDARIES, *range(1, 10)]))
    elif what == "produce":
        cluster.produce(chance.choice("ab"), 0, 3)


def heal(cluster):
    for name in cluster.consumers:
        cluster.heal(name)
        cluster.release(name)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_it_ends_in_one_assignment_when_all_is_well_again(seed):
    chance = random.Random(seed)
    cluster = settled(chance.randint(1, 3), 2)
    for _ in range(40):
        happen(cluster, chance, chance.choice(OPS))
        cluster.run_until(cluster.schedule.now_ms + chance.choice([0, 7, 50, 900, 8000, 40_000]))
    cluster.dies = None
    heal(cluster)
    for broker in cluster.broker_ids:
        cluster.start_broker(broker)
    settle(cluster)
    check(cluster)


def test_the_same_case_takes_the_same_course_each_time():
    logs = []
    for _ in range(2):
        cluster = settled(3, 2)
        cluster.dies = Deaths(9, "catching up")
        trigger(cluster, "consumer crashes")
        settle(cluster)
        logs.append((cluster.logged, cluster.costs))
    assert logs[0] == logs[1]


def test_a_join_that_waits_for_a_silent_member_is_answered_when_that_one_is_dead():
    cluster = settled(1, 1)
    cluster.hold("c1")
    begin = cluster.costs.rebalances
    cluster.start_consumer("c2", ["a"])
    cluster.run_until(cluster.schedule.now_ms + 60_000)
    assert cluster.costs.rebalances == begin + 1
    assert cluster.consumers["c2"].partitions == (("a", 0), ("a", 1))
    assert {*cluster.owners().values()} == {2}  # the silent one goes on fetching
    cluster.release("c1")
    settle(cluster)
    check(cluster)


def test_the_time_of_one_rebalance_does_not_end_the_wait_of_the_next():
    cluster = settled(2, 1)
    begin = cluster.costs.rebalances
    cluster.set_topic("a", 3)
    cluster.run_until(cluster.schedule.now_ms + 25_000)
    assert cluster.costs.rebalances == begin + 1
    cluster.hold("c1")
    cluster.set_topic("a", 4)
    cluster.run_until(cluster.schedule.now_ms + 10_000)  # 35 s after the first began to wait
    cluster.release("c1")
    settle(cluster)
    check(cluster)
    assert cluster.costs.rebalances == begin + 2
