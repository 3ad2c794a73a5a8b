"""The cluster of a play moves a broker with its history; a play goes through a history.

The client and the broker are stand-ins.
"""

from types import SimpleNamespace

import pytest

from coterie import ArgumentError, CoterieError, Error
from coterie.histories import AddPartitions, Crash, Failover, History, Pause, RollingDeploy
from coterie.histories.ledger import Ledger
from coterie.histories.play import Play
from coterie.histories.played_cluster import PlayedCluster, PlayedSchedule
from coterie.testing.process import Process
from support.histories.mistakes import Application
from support.histories.played import FIRST, Broker, Client, record
from support.patience import HANG_S


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A client may take long to answer and to end: the machine may be busy."""
    monkeypatch.setattr("coterie.histories.played_consumer.PATIENCE_S", HANG_S)
    monkeypatch.setattr("coterie.histories.played_cluster.END_S", HANG_S)


@pytest.fixture
def staged():
    schedule, broker = PlayedSchedule(), Broker()
    cluster = PlayedCluster(broker, {"t": 2}, {}, interval_ms=2000, schedule=schedule, group_id="g")
    yield SimpleNamespace(schedule=schedule, broker=broker, cluster=cluster)
    cluster.end()


def consumer(staged, name="member-0"):
    """A member's consumer, and its client."""
    made = []

    def make(settings):
        made.append(Client(settings))
        return made[0]

    process = Process(staged.schedule, name)
    played = staged.cluster.make_consumer(make, name, {"group.id": "g"}, process)
    return played, made[0]


def test_a_cluster_creates_its_topics_and_needs_a_clock_that_it_can_move(staged):
    assert staged.broker.take() == [
        ("create_topic", "t", 2), ("advance", 0), ("quicken", "g"),
    ]  # fmt: skip
    assert staged.cluster.has_consumer_groups is True


def test_the_brokers_clock_follows_in_steps_of_a_heartbeat_with_the_records_up_to_each(staged):
    staged.broker.take()
    staged.schedule.run_until(4100)
    moves = staged.broker.take("silent")
    assert [act for act, *_ in moves] == ["move"] * len(moves)
    assert sum(ms for _, ms, _ in moves) == 4100
    assert max(ms for _, ms, _ in moves) <= 3000
    came, now_ms = [], 0
    for _, ms, found in moves:
        before_ms, now_ms = now_ms, now_ms + ms
        rows = [(number, row) for _, number, rows in found for row in rows]
        assert all(before_ms < at_ms <= now_ms for _, (at_ms, *_) in rows)
        came += sorted(rows, key=lambda row: row[1])
    assert came == [
        (0, (1000, b"t-0-0", b"t-0-0")), (1, (2000, b"t-1-0", b"t-1-0")),
        (0, (3000, b"t-0-1", b"t-0-1")), (1, (4000, b"t-1-1", b"t-1-1")),
    ]  # fmt: skip


def test_the_clock_waits_for_heartbeats_and_excuses_those_that_do_not_come(staged, monkeypatch):
    monkeypatch.setattr("coterie.histories.played_cluster.time.sleep", lambda seconds: None)
    consumer(staged)
    staged.broker.take()
    staged.broker.silent = [["member-0.1"], ["member-0.1"], []]
    staged.schedule.run_until(100)
    assert staged.broker.take() == [("silent", ["member-0.1"], 3000)] * 3 + [("move", 100, [])]
    staged.broker.silent = [["member-0.1"]] * 1000
    staged.schedule.run_until(200)
    acts = staged.broker.take()
    assert acts[-2:] == [("excuse", ["member-0.1"]), ("move", 100, [])]
    assert len(acts) == 500 + 2


def test_each_client_of_a_member_has_a_name_of_its_own_and_a_dead_one_is_cut_off(staged):
    first, client = consumer(staged)
    assert client.settings == {
        "group.id": "g", "bootstrap.servers": "broker:9092", "client.id": "member-0.1",
    }  # fmt: skip
    other, _ = consumer(staged, "member-1")
    assert staged.cluster.clients_of("member-0") == [first]
    staged.broker.take()
    first.end()
    assert staged.broker.take() == [("cut", "member-0.1")]
    again, client = consumer(staged)
    assert client.settings["client.id"] == "member-0.3"
    assert staged.cluster.clients_of("member-0") == [again]
    assert staged.cluster.clients_of("member-1") == [other]
    assert staged.cluster.joins("member-0.3") == 0
    assert staged.broker.take() == [("joins_of", "member-0.3")]


def test_faults_of_a_member_are_those_of_its_clients(staged):
    consumer(staged)
    consumer(staged, "member-1")
    network, broker = staged.cluster.network, staged.broker
    broker.take()
    network.lose_request("member-0", "join_group")
    network.lose_response("member-1", None)
    network.fail("member-0", "offset_commit", Error.NOT_COORDINATOR)
    assert broker.take() == [
        ("lose", "member-0.1", "join_group", False), ("lose", "member-1.2", None, True),
        ("fail", "offsetcommit", {"error": "NOT_COORDINATOR", "client_id": "member-0.1"}),
    ]  # fmt: skip
    network.end_faults("member-0")
    assert broker.take() == [("lose_nothing", "member-0.1")]
    assert broker.cancelled == 1
    network.end_faults("member-0")
    assert broker.cancelled == 1


def test_a_member_that_is_cut_off_stays_so_when_it_starts_again(staged):
    network, broker = staged.cluster.network, staged.broker
    broker.take()
    network.cut("member-0")  # while it is down
    assert broker.take() == []
    consumer(staged)
    assert broker.take() == [("cut", "member-0.1")]
    network.heal("member-0")
    assert broker.take() == [("heal", "member-0.1")]
    consumer(staged)
    assert broker.take() == []


def test_topics_change_in_the_cluster_and_at_the_broker_and_outputs_are_refused(staged):
    staged.broker.take()
    staged.cluster.add_partitions("t", 4)
    assert len(staged.cluster.topics["t"].logs) == 4
    staged.cluster.delete_topic("t")
    assert "t" not in staged.cluster.topics
    acts = staged.broker.take("ask")
    assert acts == [("add_partitions", "t", 4), ("delete_topic", "t")]
    with pytest.raises(CoterieError, match="a play has no producer for 'bills'"):
        staged.cluster.create_topic("bills", 1)


def test_a_fail_over_loads_for_its_time(staged):
    staged.broker.take()
    staged.cluster.fail_over(700)
    acts = staged.broker.take()
    assert acts[0] == ("move_coordinator", "g")
    apis = ["JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
            "ConsumerGroupHeartbeat"]  # fmt: skip
    fault = {"error": "COORDINATOR_LOAD_IN_PROGRESS", "times": None, "group_id": "g"}
    assert acts[1:] == [("fail", api, fault) for api in apis]
    staged.schedule.run_until(699)
    assert staged.broker.cancelled == 0
    staged.schedule.run_until(700)
    assert staged.broker.cancelled == len(apis)
    staged.cluster.fail_over()
    staged.schedule.run_until(799)
    assert staged.broker.cancelled == len(apis)
    staged.schedule.run_until(800)
    assert staged.broker.cancelled == 2 * len(apis)


def test_the_end_of_a_play_closes_and_cuts_off_the_clients_that_still_live(staged):
    clients = [consumer(staged, f"member-{number}")[1] for number in range(2)]
    staged.broker.take()
    staged.cluster.end()
    assert [client.calls for client in clients] == [[("close",)]] * 2
    assert staged.broker.take() == [("cut", "member-0.1"), ("cut", "member-1.2")]


def test_a_play_needs_a_broker_and_a_client_that_takes_the_settings():
    history = History(1, {"t": 1}, 1)
    with pytest.raises(ArgumentError, match=r"broker must be a coterie\.server\.Broker"):
        history.play(object(), Client, Application)
    with pytest.raises(ArgumentError, match="client"):
        history.play(Broker(), 5, Application)

    class Refusing(Client):
        @staticmethod
        def refuses(settings):
            return "too old" if settings.get("group.protocol") == "consumer" else None

    consumers = History(1, {"t": 1}, 1, settings={"group.protocol": "consumer"})
    with pytest.raises(CoterieError, match="cannot play this history: too old"):
        consumers.play(Broker(), Refusing, Application)
    with pytest.raises(CoterieError, match=r"no consumer groups; give it kafka=\"4\.1\""):
        consumers.play(Broker(groups=False), Client, Application)


def test_what_is_shown_after_a_play_is_of_its_application():
    class Idle(Client):
        pass

    class Made(Application):
        count = 0

        def __init__(self, consumer, store):
            super().__init__(consumer, store)
            Made.count += 1

    history = History(1, {"t": 1}, 1, records_per_minute=0)
    history.run(Application)
    history.play(Broker(), Idle, Made)
    for again in (history.trace, lambda: history.play(Broker(), Idle)):
        before = Made.count
        again()
        assert Made.count > before


def test_an_event_that_leads_to_settings_that_the_client_refuses_is_skipped():
    deploy, more = RollingDeploy(5, protocol="consumer"), AddPartitions(5, topic="t")
    play = Play(History(1, {"t": 1}, 1, (deploy, more)), Application, Broker(groups=False), Client)
    assert isinstance(play.ledger, Ledger)
    play.schedule.run_until(7000)
    for event in (deploy, more, RollingDeploy(5)):
        play.strike(event, None)
    assert {at_ms for at_ms, *_ in play.ledger.notes} == {7000}
    notes = [(kind, details) for _, _, kind, details in play.ledger.notes]
    assert notes == [
        ("skipped", f'{deploy!r}: the broker has no consumer groups; give it kafka="4.1"'),
        ("event", more), ("event", RollingDeploy(5)),
    ]  # fmt: skip


def test_a_play_goes_through_a_history_with_its_clients():
    made, broker = [], Broker()

    class Reads(Client):
        """It is assigned everything, and reads each record once it has come."""

        def __init__(self, settings):
            super().__init__(settings)
            made.append(self)
            self.offset = 0
            self.batches = [lambda told: told.on_partitions_assigned([FIRST])]
            self.places = {FIRST: 0}

        def poll(self, wait_ms):
            if self.batches:
                return super().poll(wait_ms)
            rows = [row for act, *args in broker.acts if act == "move"
                    for _, _, found in args[1] for row in found]  # fmt: skip
            found = [record(0, n) for n in range(self.offset, len(rows))]
            self.offset = len(rows)
            return found

    outcome = History(1, {"t": 1}, 1, (Failover(30_000),), processing_ms=0).play(
        broker, Reads, Application
    )
    works = outcome._ledger.works["t", 0]
    assert [work.offset for work in works] == [0, 1, 2, 3, 4, 5]
    assert [work.start_ms // 10_000 for work in works] == [1, 2, 3, 4, 5, 6]
    assert not outcome.stuck
    assert not outcome.repeated
    assert len(made) == 1
    assert made[0].calls[-1] == ("close",)
    assert ("move_coordinator", "group") in broker.acts
    assert outcome.commits[-1].offsets == {FIRST: 6}


def test_a_broker_gets_nothing_from_a_member_that_is_paused_or_has_crashed():
    made, broker = [], Broker()

    class Idle(Client):
        """It is assigned everything, and there are no records."""

        def __init__(self, settings):
            super().__init__(settings)
            made.append(self)
            self.polls_ms, self.places = [], {FIRST: 0}
            self.batches = [lambda listener: listener.on_partitions_assigned([FIRST])]

        def poll(self, wait_ms):
            self.polls_ms.append(broker.now_ms)
            return super().poll(wait_ms)

    events = Pause(10_500, pause_ms=5_000), Crash(30_500, down_ms=2_000)
    outcome = History(1, {"t": 1}, 1, events, records_per_minute=0).play(broker, Idle, Application)
    assert not outcome.stuck
    now_ms, seen = 0, []
    for act, *args in broker.acts:
        now_ms += args[0] if act == "move" else 0
        seen += [(now_ms, act, *args)] if act in ("cut", "heal") else []
    assert seen[:3] == [
        (10_500, "cut", "member-0.1"), (15_500, "heal", "member-0.1"),
        (30_500, "cut", "member-0.1"),
    ]  # fmt: skip
    first, second = made
    assert [at for at in first.polls_ms if at <= 10_500]
    assert [at for at in first.polls_ms if 10_500 < at < 15_500 or at > 30_500] == []
    assert [at for at in first.polls_ms if at > 15_500]
    assert second.polls_ms[0] == 32_500
    assert [one.calls[-1] for one in made] == [("close",)] * 2
