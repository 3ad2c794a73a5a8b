"""Today's design and the consumer protocol on the clock: heartbeats, commits, loads, metadata."""

import pytest

from coterie.designs import today as of_leaders
from coterie.designs.consumer_protocol import ConsumerProtocolSimulation
from coterie.designs.today import TodaySimulation
from support.designs.on_the_clock import requests_at
from support.limited import limited

CLUSTERS = [TodaySimulation, ConsumerProtocolSimulation]
DELIVERY_MS, LOAD_MS, COMMIT_MS = 5, 1_000, 5_000
HEARTBEAT_MS = {TodaySimulation: 3_000, ConsumerProtocolSimulation: 5_000}
SESSION_MS = 45_000


def cluster(kind, brokers=(0, 1, 2), partitions=2):
    notes = []
    made = kind(brokers, note=lambda *note: notes.append(note), schedule=limited())
    made.notes = notes
    made.set_topic("t", partitions)
    return made


def noted(made, kind):
    return [note for note in made.notes if note[1] == kind]


@pytest.mark.parametrize("kind", CLUSTERS)
def test_offsets_are_committed_every_five_seconds_if_they_have_changed(kind):
    made = cluster(kind)
    made.run_until(2_200)
    made.start_consumer("c", ["t"])
    for at_ms in (8_000, 13_000, 30_000):
        made.run_until(at_ms)
        made.produce("t", 1, 3)
    made.run_until(40_000)
    times = [2_200 + COMMIT_MS * number for number in (1, 2, 3, 6)]
    assert [note for note in noted(made, "committed") if note[4] == 1] == [
        (at_ms, "committed", "c", "t", 1, offset)
        for at_ms, offset in zip(times, (0, 3, 6, 9), strict=True)
    ]


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_settled_member_sends_a_heartbeat_at_each_interval_and_each_commit_is_a_request(kind):
    made = cluster(kind)
    made.start_consumer("c", ["t"])
    (begin,) = requests_at(made, 60_000)
    (end,) = requests_at(made, 120_000)
    assert end - begin == 60_000 // HEARTBEAT_MS[kind] + 60_000 // COMMIT_MS


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_silent_member_has_no_partitions_after_its_session(kind):
    """Its session begins with its last heartbeat; the other one takes over."""
    made = cluster(kind)
    for name in "ab":
        made.start_consumer(name, ["t"])
    made.run_until(100_000)
    made.consumers["a"].crash()
    made.notes.clear()
    made.run_until(200_000)
    (began,) = {note[0] for note in noted(made, "rebalance_began")}
    assert 100_000 + SESSION_MS - HEARTBEAT_MS[kind] <= began <= 100_000 + SESSION_MS
    ((at_ms, consumer),) = {(note[0], note[2]) for note in noted(made, "owns")}
    assert consumer == "b"
    assert began <= at_ms <= began + HEARTBEAT_MS[kind] + 2 * DELIVERY_MS


@pytest.mark.parametrize("kind", CLUSTERS)
def test_the_next_broker_answers_once_it_has_loaded_the_log(kind):
    made = cluster(kind)
    made.start_consumer("c", ["t"])
    made.run_until(60_000)
    made.stop_broker(made.coordinator_of("group1"))
    for at_ms, answers in ((60_000 + LOAD_MS - 1, False), (60_000 + LOAD_MS, True)):
        made.run_until(at_ms)
        assert made.leaders.answers("group1") == answers
    (before,) = requests_at(made, 60_000 + LOAD_MS + DELIVERY_MS - 1)
    (after,) = requests_at(made, 60_000 + LOAD_MS + DELIVERY_MS)
    assert after - before == 1  # the member is woken


@pytest.mark.parametrize("kind", CLUSTERS)
def test_who_comes_back_acts_at_once_and_an_action_of_before_is_none(kind):
    made = cluster(kind)
    made.start_consumer("c", ["t"])
    made.run_until(60_100)
    for times in (1, 2):
        made.cut("c")
        (before,) = requests_at(made, times * 70_300)
        for _ in range(times):
            made.heal("c")
        back = times * 70_300 + DELIVERY_MS
        assert requests_at(made, back - 1, back) == [before, before + 1]
        made.run_until(120_000)


def test_a_leader_of_today_sees_new_partitions_when_it_looks_at_its_metadata():
    made = cluster(TodaySimulation)
    made.run_until(1_700)
    made.start_consumer("a", ["t"])
    made.run_until(9_000)
    made.start_consumer("b", ["t"])
    made.run_until(50_000)
    made.notes.clear()
    made.set_topic("t", 4)
    made.run_until(1_700 + 299_999)
    assert noted(made, "rebalance_began") == []
    made.run_until(1_700 + 300_000)
    assert noted(made, "rebalance_began") == [(301_700, "rebalance_began", "", "group1")]
    made.run_until(400_000)
    assert sorted(place for one in made.consumers.values() for place in one.places()) == [
        ("t", number) for number in range(4)
    ]
    made.notes.clear()
    made.run_until(900_000)  # nothing has changed since
    assert noted(made, "rebalance_began") == []


def test_groups_are_coordinated_by_the_leaders_of_50_partitions():
    assert of_leaders.PARTITIONS == 50  # offsets.topic.num.partitions


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_member_without_partitions_has_a_session_and_leaves_as_others_do(kind):
    made = cluster(kind, partitions=1)
    for name in "abc":
        made.start_consumer(name, ["t"])
        made.run_until(made.schedule.now_ms + 60_000)
    rebalances, took_part = made.costs.rebalances, made.costs.took_part
    idle = next(one for one in made.consumers.values() if not one.places())
    idle.close()
    assert not idle.alive
    assert idle.in_group == "Down"
    made.run_until(made.schedule.now_ms + 60_000)
    assert made.costs.rebalances == rebalances + 1
    moved = {TodaySimulation: 2, ConsumerProtocolSimulation: 0}[kind]  # all join, or nobody moves
    assert made.costs.took_part == took_part + moved


def test_a_consumer_that_each_of_two_epochs_moves_takes_part_in_both():
    made = cluster(ConsumerProtocolSimulation)
    for name in "ab":
        made.start_consumer(name, ["t"])
        made.run_until(made.schedule.now_ms + 60_000)
    assert (made.costs.rebalances, made.costs.took_part) == (2, 3)


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_simulation_stores_no_history_of_a_member(kind):
    made = cluster(kind)
    made.start_consumer("c", ["t"])
    made.run_until(60_000)
    assert made.consumers["c"].member.events == []


def test_a_consumer_of_the_protocol_that_never_joined_does_not_leave():
    made = cluster(ConsumerProtocolSimulation)
    for broker in range(3):
        made.stop_broker(broker)
    made.start_consumer("c", ["t"])
    made.consumers["c"].close()
    made.start_broker(0)
    made.run_until(60_000)
    assert (made.costs.requests, made.costs.rebalances) == (0, 0)


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_crash_commits_nothing_and_a_close_commits(kind):
    committed = {}
    for end in ("crash", "close"):
        made = cluster(kind)
        made.start_consumer("c", ["t"])
        made.run_until(61_000)
        made.produce("t", 1, 2)
        getattr(made.consumers["c"], end)()
        committed[end] = made.ledgers["group1"].committed[("t", 1)]
        assert made.ledgers["group1"].owned_by("c") == {}
    assert committed == {"crash": 0, "close": 2}


@pytest.mark.parametrize("kind", CLUSTERS)
def test_who_is_cut_off_commits_nothing(kind):
    made = cluster(kind)
    made.start_consumer("c", ["t"])
    made.run_until(60_100)
    made.cut("c")
    made.produce("t", 1, 3)
    before, after = requests_at(made, 60_200, 100_000)
    assert before == after
    ledger = made.ledgers["group1"]
    assert (ledger.owned_by("c")["t", 1], ledger.committed["t", 1]) == (3, 0)
