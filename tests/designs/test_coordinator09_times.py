"""The 0.9 design on the clock: each message, wait and timeout takes the time of the settings."""

import pytest

from coterie.designs.coordinator09 import CoordinatorSettings
from coterie.designs.coordinator09_simulation import CoordinatorSimulation
from support.designs.on_the_clock import requests_at
from support.limited import limited

TIMES = {
    "delivery_ms": 7, "watch_ms": 30, "catch_up_ms": 2_000, "retry_ms": 300,
    "request_timeout_ms": 2_500, "broker_session_ms": 6_400,
    "session_timeout_ms": 9_000, "heartbeat_frequency": 4, "auto_commit_ms": 0,
}  # fmt: skip
ATTEMPT_MS = 4 * 7 + 300  # the search and the join, there and back, and a pause
CAUGHT_UP_MS = 7 + 30 + 2_000  # a search elects; the watch fires, and the broker reads the group
JOINED_MS = 7 * ATTEMPT_MS + 3 * 7  # the first join that arrives later: the eighth
PART_MS = JOINED_MS + 7
HEARTBEAT_MS = 9_000 // 4


def cluster(brokers=(0,), **times):
    notes = []
    made = CoordinatorSimulation(
        brokers,
        CoordinatorSettings(**TIMES | times),
        note=lambda *note: notes.append(note),
        schedule=limited(),
    )
    made.notes = notes
    made.set_topic("t", 2)
    return made


def logged(made, text):
    """When something was logged, from whom, and its detail."""
    return [(one.at_ms, one.source, one.detail) for one in made.logged if one.text == text]


def test_a_consumer_joins_as_soon_as_the_coordinator_has_caught_up():
    made = cluster()
    made.start_consumer("c", ["t"])
    made.run_until(PART_MS)
    broker = "broker 0"
    assert logged(made, "Catch up") == [(37, broker, "group1")]
    assert [at for at, _, _ in logged(made, "Ready")] == [CAUGHT_UP_MS]
    assert logged(made, "Prepare for rebalance") == [(JOINED_MS, broker, "group1")]
    assert logged(made, "wrote generation") == [(JOINED_MS, broker, "1")]
    assert logged(made, "Part of a group") == [(PART_MS, "c", "1")]
    assert made.notes == [
        (JOINED_MS, "rebalance_began", "", "group1", "a consumer joins"),
        (JOINED_MS, "rebalance_ended", "", "group1", 1),
        *((PART_MS, "owns", "c", "t", number) for number in range(2)),
    ]
    assert (made.costs.rebalances, made.costs.took_part) == (1, 1)


def test_each_message_is_a_request_and_heartbeats_come_some_times_in_a_session():
    made = cluster()
    made.start_consumer("c", ["t"])
    third = PART_MS + 2 * HEARTBEAT_MS
    times = (0, 13, 14, ATTEMPT_MS - 1, ATTEMPT_MS, PART_MS - 1, PART_MS, third - 1, third)
    assert requests_at(made, *times) == [1, 1, 2, 2, 3, 16, 17, 18, 19]
    (ready, _, _), shown = logged(made, "Ready")[0], logged(made, "Ready")[-1]
    assert (ready, shown[0]) == (CAUGHT_UP_MS, PART_MS + 7)  # the first heartbeat arrives


def test_a_consumer_that_is_cut_off_is_dead_after_its_session_and_looks_for_a_coordinator():
    """Its session begins with its last heartbeat, and for itself with the last response."""
    made = cluster()
    made.start_consumer("c", ["t"])
    last = PART_MS + 2 * HEARTBEAT_MS
    made.run_until(last + 14)
    made.cut("c")
    made.run_until(60_000)
    assert logged(made, "is dead") == [(last + 7 + 9_000, "broker 0", "c-1")]
    assert logged(made, "Rediscover coordinator") == [(last + 14 + 9_000, "c", "1")]


def test_a_search_that_a_broker_never_answers_is_sent_to_the_next_one_after_a_time():
    made = cluster((0, 1))
    dying = ["received"]
    made.dies = lambda broker, boundary, group: boundary in dying and bool(dying.pop())
    made.start_consumer("c", ["t"])
    assert requests_at(made, 7, 2_499, 2_500) == [1, 1, 2]
    assert [made.is_up(broker) for broker in (0, 1)] == [False, True]


def test_brokers_are_asked_for_the_coordinator_one_after_the_other():
    made, brokers = cluster((0, 1, 2)), []

    def dies(broker, boundary, group):
        brokers.append(broker)
        return True

    made.dies = dies
    made.start_consumer("c", ["t"])
    made.run_until(2 * 2_500 + 7)
    assert brokers == [0, 1, 2]


def test_partitions_are_owned_in_the_order_of_topics_and_numbers():
    """The assignor has topics in the order of Java's HashMap: p, a."""
    made = cluster()
    for topic in "ap":
        made.set_topic(topic, 2)
    made.start_consumer("c", ["a", "p"])
    made.run_until(PART_MS)
    expected = [(topic, number) for topic in "ap" for number in range(2)]
    assert [note[3:] for note in made.notes if note[1] == "owns"] == expected


@pytest.mark.parametrize(("times", "patience_ms"), [({}, 5_000), ({"join_patience_ms": 900}, 900)])
def test_a_join_that_is_never_answered_is_waited_for_longer_than_a_session(times, patience_ms):
    """Five seconds longer by default: JOIN_GROUP_TIMEOUT_LAPSE of AbstractCoordinator.java."""
    made = cluster(**times)
    dying = ["joined"]
    made.dies = lambda broker, boundary, group: boundary in dying and bool(dying.pop())
    made.start_consumer("c", ["t"])
    sent = JOINED_MS - 7
    repeated = sent + 9_000 + patience_ms
    assert requests_at(made, sent, repeated - 1, repeated) == [16, 16, 17]


def test_a_join_that_is_repeated_because_its_answer_was_lost_gets_the_same_share():
    """The coordinator knows the connection; nothing has changed, so there is no rebalance."""
    made = cluster()
    made.start_consumer("a", ["t"])
    made.run_until(50_000)
    made.hold("a")  # it hears of no rebalance: the join of the other one takes a whole session
    made.start_consumer("b", ["t"])
    joined_ms = 50_000 + 3 * 7 + 9_000
    made.run_until(joined_ms)
    made.cut("b")
    made.run_until(joined_ms + 7)
    made.heal("b")
    repeated_ms = 50_000 + 2 * 7 + 14_000  # a session and join_patience_ms after the first one
    made.run_until(repeated_ms + 4 * 7)
    assert logged(made, "wrote generation")[1:] == [(joined_ms, "broker 0", "2")]
    assert logged(made, "Part of a group")[1:] == [(repeated_ms + 4 * 7, "b", "2")]
    b = made.consumers["b"]
    assert (b.id, b.partitions) == ("b-1", (("t", 0), ("t", 1)))


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_refused_connection_is_known_after_a_delivery_or_two_and_tried_again(is_cut):
    """A consumer that is cut off sends nothing; otherwise the request finds no broker."""
    made = cluster()
    made.stop_broker(0)
    made.start_consumer("c", ["t"])
    if is_cut:
        made.run_until(300)  # in the pause
        made.cut("c")
        made.run_until(314)
        again = 314 + 7 + 300
        assert requests_at(made, again - 1, again) == [2, 3]
    else:
        assert requests_at(made, 313, 314, 627, 628) == [1, 2, 2, 3]


@pytest.mark.parametrize("sessions", [(9_000, 20_500), (20_500, 9_000)])
def test_a_rebalance_waits_for_the_longest_session_of_a_member(sessions):
    """One is silent, but for heartbeats that keep its session alive at the coordinator."""
    made = cluster()
    for name, timeout_ms in zip("ab", sessions, strict=True):
        made.start_consumer(name, ["t"], session_timeout_ms=timeout_ms)
    made.run_until(50_000)
    silent = "ab"[sessions.index(20_500)]
    made.hold(silent)
    made.set_topic("t", 3)
    made.run_until(100_000)
    prepared = [at for at, _, why in logged(made, "rebalance") if why == "topics changed"]
    assert prepared == [50_030]
    written = [at for at, _, _ in logged(made, "wrote generation") if at > 50_000]
    assert written[0] == 50_030 + 20_500


def test_a_rebalance_in_preparation_waits_for_nobody_who_leaves_and_reads_topics_at_its_end():
    made = cluster()
    for name in "ab":
        made.start_consumer(name, ["t"])
    made.run_until(50_000)
    made.hold("b")  # it hears of no rebalance
    made.set_topic("t", 3)
    made.run_until(54_000)
    made.set_topic("t", 4)
    made.run_until(55_500)
    made.consumers["b"].close()
    made.run_until(80_000)
    assert [at for at, _, _ in logged(made, "rebalance") if at > 50_000] == [50_030]
    assert [at for at, _, _ in logged(made, "wrote generation") if at > 50_000] == [55_507]
    assert made.consumers["a"].partitions == tuple(("t", number) for number in range(4))


def test_a_consumer_that_was_removed_joins_as_a_new_one_when_it_hears_of_it():
    made = cluster()
    made.start_consumer("c", ["t"])
    made.run_until(20_000)
    made.cut("c")
    made.run_until(60_000)
    made.heal("c")
    made.run_until(70_000)
    ((stopped_ms, _, _),) = logged(made, "Stopped consumption")
    assert logged(made, "Part of a group")[1:] == [(stopped_ms + 2 * 7, "c", "3")]
    assert made.consumers["c"].id == "c-2"


def test_a_consumer_whose_join_comes_after_its_removal_joins_as_a_new_one():
    """The coordinator dies after it has informed it; cut off meanwhile, it misses its session."""
    made = cluster((0, 1))
    made.start_consumer("c", ["t"])
    made.run_until(20_000)
    dying = ["told"]
    made.dies = lambda broker, boundary, group: boundary in dying and bool(dying.pop())
    made.set_topic("t", 3)
    consumer = made.consumers["c"]
    while consumer.in_group != "Stopped consumption":
        made.run_until(made.schedule.now_ms + 1)
    made.cut("c")
    made.run_until(60_000)
    assert consumer.id == "c-1"
    made.heal("c")
    made.run_until(70_000)
    assert (consumer.in_group, consumer.id) == ("Part of a group", "c-2")
    assert consumer.partitions == tuple(("t", number) for number in range(3))


def test_a_new_coordinator_gives_each_member_a_session_since_it_has_caught_up():
    made = cluster((0, 1))
    made.start_consumer("c", ["t"])
    made.run_until(20_000)
    former = made.coordinator_of("group1")
    made.cut("c")
    made.stop_broker(former)
    made.run_until(60_000)
    dead_ms = 20_000 + 30 + 2_000 + 9_000  # the watch, the catch-up, the session
    assert logged(made, "is dead") == [(dead_ms, f"broker {1 - former}", "c-1")]


def test_timers_of_an_earlier_life_of_a_broker_are_ignored():
    made = cluster()
    made.start_consumer("c", ["t"])
    made.run_until(20_000)
    made.stop_broker(0)
    made.start_broker(0)
    made.run_until(60_000)
    assert made.consumers["c"].in_group == "Part of a group"
    assert logged(made, "is dead") == []
    assert len(logged(made, "wrote generation")) == 1


def test_a_consumer_that_was_refused_for_good_asks_for_nothing_more():
    made = cluster()
    made.start_consumer("c", ["t"], strategy="nobody's")
    before, after = requests_at(made, 10_000, 100_000)
    assert before == after == 16  # the join that the others begin with as well


def test_who_looks_for_a_coordinator_commits_nothing():
    made = cluster(auto_commit_ms=3_100)
    made.start_consumer("c", ["t"])
    made.run_until(20_000)
    made.hold("c")
    made.run_until(40_000)
    assert made.consumers["c"].in_group == "Rediscover coordinator"
    made.produce("t", 0, 3)
    made.notes.clear()
    made.run_until(60_000)
    assert [note for note in made.notes if note[1] == "committed"] == []


def test_offsets_are_committed_at_each_interval_since_the_start():
    made = cluster(auto_commit_ms=3_100)
    made.start_consumer("c", ["t"])
    for at_ms in (4_000, 6_300, 15_000):
        made.run_until(at_ms)
        made.produce("t", 1, 2)
    made.run_until(20_000)
    assert [note for note in made.notes if note[1] == "committed"] == [
        (3_100, "committed", "c", "t", 0, 0),
        (3_100, "committed", "c", "t", 1, 0),
        (6_200, "committed", "c", "t", 1, 2),
        (9_300, "committed", "c", "t", 1, 4),
        (15_500, "committed", "c", "t", 1, 6),
    ]
    heartbeats = (20_000 - PART_MS) // HEARTBEAT_MS + 1
    assert made.costs.requests == 16 + heartbeats + 20_000 // 3_100


def test_a_crash_commits_nothing_and_a_close_commits_and_leaves():
    committed = {}
    for end in ("crash", "close"):
        made = cluster()
        made.start_consumer("c", ["t"])
        made.run_until(5_000)
        made.produce("t", 1, 2)
        getattr(made.consumers["c"], end)()
        committed[end] = dict(made.ledgers["group1"].committed)
        made.run_until(5_007)
        assert [at for at, *_ in logged(made, "left")] == ([] if end == "crash" else [5_007])
    assert committed == {"crash": {}, "close": {("t", 0): 0, ("t", 1): 2}}


def test_a_broker_stops_at_once_or_is_missed_after_its_session():
    """Stopped by a scenario, its node goes at once; where it dies, with its session."""
    for session_ms in (0, 3_000):
        made = cluster((0, 1))
        made.start_consumer("c", ["t"])
        made.run_until(20_000)
        made.stop_broker(made.coordinator_of("group1"), session_ms=session_ms)
        made.run_until(40_000)
        assert [at for at, *_ in logged(made, "Catch up")] == [37, 20_000 + session_ms + 30]


def test_times_that_a_scenario_does_not_give_are_those_of_kafka():
    """session.timeout.ms and auto.commit.interval.ms of 2015, a broker's session in ZooKeeper."""
    settings = CoordinatorSettings()
    assert (settings.session_timeout_ms, settings.auto_commit_ms) == (30_000, 60_000)
    assert (settings.broker_session_ms, settings.heartbeat_frequency) == (6_000, 3)
    made = CoordinatorSimulation((0,))
    made.set_topic("t", 1)
    made.produce("t", 0, 2)
    made.start_consumer("c", ["t"])
    made.run_until(20_000)
    assert made.consumers["c"].session_timeout_ms == 30_000
    assert made.ledgers["group1"].ranges_of("c") == {("t", 0): [[0, 1]]}  # from the start
    assert [one.text for one in made.logged[:1]] == ["Start up & discover coordinator"]


def test_who_stops_to_join_again_commits_first():
    made = cluster()
    made.start_consumer("c", ["t"])
    made.run_until(50_000)
    made.produce("t", 1, 2)
    made.notes.clear()
    made.set_topic("t", 3)
    made.run_until(60_000)
    (at_ms,) = {note[0] for note in made.notes if note[1] == "gives_up"}
    assert [note[1:] for note in made.notes if note[0] == at_ms] == [
        *(("committed", "c", "t", 0, 0), ("gives_up", "c", "t", 0)),
        *(("committed", "c", "t", 1, 2), ("gives_up", "c", "t", 1)),
    ]
    assert 50_030 < at_ms <= 50_030 + HEARTBEAT_MS + 2 * 7


def test_who_closes_before_it_has_an_id_has_nothing_to_leave():
    made = cluster()
    made.start_consumer("c", ["t"])
    made.run_until(JOINED_MS - 1)  # its join is on the way
    before = made.costs.requests
    made.consumers["c"].close()
    made.run_until(60_000)
    assert made.costs.requests == before
