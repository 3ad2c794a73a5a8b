"""The parts of a play without a broker: a client in its thread, its consumer, and its cluster.

The client and the broker are stand-ins that write down what they are asked.
"""

from types import SimpleNamespace

import pytest

from coterie import ArgumentError, CoterieError, Error, OffsetAndMetadata
from coterie.histories import AddPartitions, Failover, History, RollingDeploy
from coterie.histories.client_thread import ClientThread, Handed
from coterie.histories.ledger import Ledger
from coterie.histories.play import Play
from coterie.histories.played_cluster import PlayedCluster, PlayedSchedule
from coterie.histories.played_consumer import PlayedConsumer
from coterie.schedule import Schedule
from coterie.testing import ConsumerRecord, KafkaError, TopicPartition, WakeupError
from coterie.testing.process import Process
from support.histories.mistakes import Application

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
WAIT_S = 60.0  # for what comes at once


# A thread


class Counter:
    """A client that calls back, and raises."""

    def __init__(self):
        self.closed = False

    def double(self, number):
        return 2 * number

    def calls(self, callback):
        callback(1, 2)
        return "after"

    def close(self):
        self.closed = True


def test_a_thread_answers_what_it_is_asked_in_order():
    thread = ClientThread(Counter, "one")
    assert thread.answer(WAIT_S) == (None, None)  # it is made
    thread.ask(lambda client: client.double(4))
    thread.ask(lambda client: client.missing)
    assert thread.answer(WAIT_S) == (8, None)
    value, error = thread.answer(WAIT_S)
    assert (value, type(error)) == (None, AttributeError)
    assert thread.answer(0) is None
    thread.abandon()
    thread.join(WAIT_S)


def test_a_client_that_cannot_be_made_is_the_first_answer():
    def fails():
        raise ValueError("no")

    thread = ClientThread(fails, "one")
    value, error = thread.answer(WAIT_S)
    assert (value, str(error)) == (None, "no")
    thread.join(WAIT_S)


def test_a_callback_is_handed_to_the_program_which_may_ask_meanwhile():
    thread = ClientThread(Counter, "one")
    thread.answer(WAIT_S)
    ran = []
    callback = thread.handing(lambda *args: ran.append(args))
    thread.ask(lambda client: client.calls(callback))
    handed = thread.answer(WAIT_S)
    assert isinstance(handed, Handed)
    handed.run(*handed.args)
    assert ran == [(1, 2)]
    thread.ask(lambda client: client.double(3))
    assert thread.answer(WAIT_S) == (6, None)
    thread.go_on()
    assert thread.answer(WAIT_S) == ("after", None)
    thread.abandon()
    thread.join(WAIT_S)


def test_an_abandoned_client_is_closed_and_hands_nothing_over():
    made = []
    thread = ClientThread(lambda: made.append(Counter()) or made[0], "one")
    thread.answer(WAIT_S)
    callback = thread.handing(lambda *args: made.append(args))
    thread.abandon()
    thread.join(WAIT_S)
    assert made[0].closed
    callback(1, 2)
    assert thread.answer(0) is None
    assert len(made) == 1


# A consumer


class Client:
    """A real client: gives the records and results that it is told to give."""

    def __init__(self, settings=None):
        self.settings, self.calls, self.batches, self.failure = settings, [], [], None
        self.places, self.listener = {}, None

    def _called(self, *call):
        self.calls.append(call)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def subscribe(self, topics, listener):
        self._called("subscribe", topics)
        self.listener = listener

    def poll(self, wait_ms):
        self._called("poll", wait_ms)
        batch = self.batches.pop(0) if self.batches else []
        if callable(batch):
            batch(self.listener)
            return []
        return batch

    def position(self, place):
        self._called("position", place)
        return self.places.get(place)

    def commit(self, offsets):
        self._called("commit", offsets)

    def commit_async(self, offsets, callback):
        self._called("commit_async", offsets)
        self.batches.insert(0, lambda _: callback(None))

    def seek(self, place, offset):
        self._called("seek", place, offset)

    def pause(self, places):
        self._called("pause", places)

    def close(self):
        self._called("close")


class Played:
    """A consumer with its client, in virtual time."""

    def __init__(self):
        self.schedule, self.notes, self.forgotten, self.join_count = Schedule(), [], [], 0
        self.client = Client()
        cluster = SimpleNamespace(
            on_note=lambda *note: self.notes.append(note), group_id="g",
            forget=self.forgotten.append, joins=lambda client_id: self.join_count,
        )  # fmt: skip
        process = Process(self.schedule, "member-0")
        self.schedule.call_later(10**9, lambda: None)
        self.consumer = PlayedConsumer(
            cluster, "member-0", "member-0.1", lambda: self.client, process
        )

    def taken(self):
        calls, self.client.calls = self.client.calls, []
        return calls

    def noted(self):
        notes, self.notes[:] = self.notes[:], []
        return [(at, kind, details) for at, member, kind, details in notes]


class Listener:
    def __init__(self, *raises):
        self.calls, self.raises = [], raises

    def _called(self, kind, places):
        self.calls.append((kind, places))
        if kind in self.raises:
            raise ValueError(kind)

    def on_partitions_assigned(self, places):
        self._called("assigned", places)

    def on_partitions_revoked(self, places):
        self._called("revoked", places)

    def on_partitions_lost(self, places):
        self._called("lost", places)


@pytest.fixture
def played():
    made = Played()
    yield made
    made.consumer.end()
    made.consumer.join(WAIT_S)


def record(number, offset):
    return ConsumerRecord("t", number, offset, 0, None, None)


def subscribed(played, listener=None, places=(FIRST, SECOND)):
    """A consumer that has got partitions, and reads the first of each."""
    listener = listener or Listener()
    played.consumer.subscribe(["t"], listener)
    played.client.batches = [
        lambda told: told.on_partitions_assigned(list(places)),
        [record(number, 4 + number) for _, number in places],
    ]
    played.consumer.poll(2000)
    return listener


def test_a_poll_asks_each_second_until_there_are_records_or_its_time_is_over(played):
    played.consumer.subscribe(["t"], Listener())
    assert played.consumer.subscription() == {"t"}
    played.taken()
    assert played.consumer.poll(2500) == []
    assert played.schedule.now_ms == 2500
    assert played.taken() == [("poll", 20)] * 4  # at 0, 1000, 2000, 2500
    assert played.consumer.poll(0) == []
    assert played.taken() == [("poll", 0)]
    played.client.batches = [[], [record(0, 4), record(1, 9), record(0, 5)]]
    assert [one.offset for one in played.consumer.poll(60_000)] == [4, 9, 5]
    assert played.schedule.now_ms == 3500
    assert played.consumer.positions() == {FIRST: 6, SECOND: 10}


def test_the_listener_is_called_by_the_program_and_decides_what_is_assigned(played):
    listener = subscribed(played)
    assert played.consumer.assignment() == {FIRST, SECOND}
    played.client.batches = [
        lambda told: told.on_partitions_revoked([FIRST]),
        lambda told: told.on_partitions_lost([SECOND]),
    ]
    played.consumer.poll(0)
    assert played.consumer.assignment() == {SECOND}
    played.consumer.poll(0)
    assert played.consumer.assignment() == set()
    assert listener.calls == [
        ("assigned", [FIRST, SECOND]), ("revoked", [FIRST]), ("lost", [SECOND]),
    ]  # fmt: skip
    assert [(kind, places) for _, kind, places in played.noted()] == listener.calls


def test_a_listener_without_on_partitions_lost_gets_them_as_revoked(played):
    calls = []
    old = SimpleNamespace(on_partitions_revoked=calls.append)
    subscribed(played, old)
    played.client.batches = [lambda told: told.on_partitions_lost([SECOND])]
    played.consumer.poll(0)
    assert calls == [[SECOND]]


def test_what_a_listener_raises_first_ends_the_poll_once(played):
    played.consumer.subscribe(["t"], Listener("assigned", "revoked"))
    played.client.batches = [
        lambda told: (told.on_partitions_revoked([FIRST]), told.on_partitions_assigned([FIRST]))
    ]
    with pytest.raises(KafkaError, match="'revoked'"):
        played.consumer.poll(0)
    assert played.consumer.poll(0) == []


def test_positions_that_are_unknown_are_looked_up_while_a_poll_waits(played):
    played.client.places = {FIRST: 7}
    subscribed(played, places=[FIRST])
    played.client.batches = [lambda told: told.on_partitions_assigned([SECOND])]
    played.taken()
    played.consumer.poll(1500)
    assert played.consumer.positions() == {FIRST: 5}
    played.client.places = {SECOND: 9}
    played.consumer.poll(1500)
    assert played.consumer.positions() == {FIRST: 5, SECOND: 9}
    assert ("position", FIRST) not in played.taken()


def test_wakeup_ends_the_poll_that_waits_or_the_next_one(played):
    played.schedule.call_later(300, played.consumer.wakeup)
    for _ in range(2):
        with pytest.raises(WakeupError):
            played.consumer.poll(60_000)
        assert played.schedule.now_ms == 300
        assert played.consumer.poll(0) == []
        played.consumer.wakeup()
    with pytest.raises(WakeupError):
        played.consumer.poll(0)


def test_commits_take_a_millisecond_and_are_noted_with_their_outcome(played):
    subscribed(played)
    played.noted()
    now_ms = played.schedule.now_ms
    offsets = {FIRST: OffsetAndMetadata(5), SECOND: OffsetAndMetadata(6)}
    played.consumer.commit()
    chosen = {FIRST: OffsetAndMetadata(7, 1, "m"), SECOND: OffsetAndMetadata(8)}
    played.consumer.commit({("t", 0): chosen[FIRST], ("t", 1): 8})
    played.client.failure = KafkaError("refused")
    with pytest.raises(KafkaError, match="refused"):
        played.consumer.commit()
    assert [call for call in played.taken() if call[0] == "commit"] == [
        ("commit", None), ("commit", chosen), ("commit", None),
    ]  # fmt: skip
    assert played.noted() == [
        (now_ms, "commit", offsets), (now_ms + 1, "committed", (offsets, None)),
        (now_ms + 1, "commit", chosen), (now_ms + 2, "committed", (chosen, None)),
        (now_ms + 2, "commit", offsets), (now_ms + 3, "committed", (offsets, "refused")),
    ]  # fmt: skip


def test_the_callback_of_an_asynchronous_commit_runs_in_a_later_poll(played):
    subscribed(played)
    played.noted()
    told = []
    played.consumer.commit_async({FIRST: 9}, lambda *outcome: told.append(outcome))
    played.consumer.commit_async()
    chosen = {FIRST: OffsetAndMetadata(9)}
    assert told == []
    played.consumer.poll(0)
    played.consumer.poll(0)
    assert told == [(chosen, None)]
    kinds = [kind for _, kind, _ in played.noted()]
    assert kinds == ["commit", "commit", "committed", "committed"]


def test_seeking_sets_the_position_and_other_methods_are_the_clients(played):
    subscribed(played)
    played.taken()
    played.consumer.seek(("t", 1), 40)
    played.consumer.pause([FIRST])
    assert played.taken() == [("seek", SECOND, 40), ("pause", [FIRST])]
    assert played.consumer.positions() == {FIRST: 5, SECOND: 40}
    assert played.consumer.group_metadata() == ("g", -1, "", None)
    assert not hasattr(played.consumer, "_own")


def test_each_join_of_the_client_is_noted_once(played):
    for count, noted in ((0, []), (2, [2]), (2, []), (3, [3])):
        played.join_count = count
        played.consumer.poll(0)
        assert [details for _, kind, details in played.noted() if kind == "join"] == noted


def test_close_closes_the_client_once_and_forgets_it(played):
    played.consumer.close()
    played.consumer.close()
    played.consumer.end()
    played.consumer.join(WAIT_S)
    assert played.forgotten == [played.consumer]
    assert played.client.calls[0] == ("close",)


# A cluster


class Broker:
    """Writes down what a play does to it, at the time of the play; its clock follows."""

    bootstrap_servers = "broker:9092"

    def __init__(self, groups=True):
        self.acts, self.groups, self.cancelled = [], groups, 0
        self.silent = []  # what is silent at each look
        self.now_ms = 0

    def _on_stage(self, act, *args):
        self.acts.append((act, *args))
        if act == "quicken":
            return self.groups
        if act == "silent":
            return self.silent.pop(0) if self.silent else []
        if act == "joins_of":
            return 0
        if act == "ask":  # for committed offsets: there are none
            return SimpleNamespace(partitions=())
        if act == "move":
            self.now_ms += args[0]
        return None

    def advance(self, ms):
        self.acts.append(("advance", ms))

    def fail(self, api, **fault):
        self.acts.append(("fail", api, fault))
        return SimpleNamespace(cancel=self._cancel)

    def _cancel(self):
        self.cancelled += 1

    def move_coordinator(self, group_id):
        self.acts.append(("move_coordinator", group_id))

    def take(self, *left_out):
        acts, self.acts = self.acts, []
        return [act for act in acts if act[0] not in left_out]


@pytest.fixture
def staged():
    schedule, broker = PlayedSchedule(), Broker()
    cluster = PlayedCluster(broker, {"t": 2}, {}, interval_ms=2000, schedule=schedule, group_id="g")
    yield SimpleNamespace(schedule=schedule, broker=broker, cluster=cluster)
    cluster.end()


def consumer(staged, name="member-0"):
    process = Process(staged.schedule, name)
    made = Client()
    make = lambda settings: made.__init__(settings) or made  # noqa: E731
    played = staged.cluster.make_consumer(make, name, {"group.id": "g"}, process)
    return played, made


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


def test_topics_change_at_the_broker_too_and_outputs_are_refused(staged):
    staged.broker.take()
    staged.cluster.add_partitions("t", 4)
    staged.cluster.delete_topic("t")
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


# A play


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


def test_an_event_that_leads_to_settings_that_the_client_refuses_is_skipped():
    deploy, more = RollingDeploy(5, protocol="consumer"), AddPartitions(5, topic="t")
    play = Play(History(1, {"t": 1}, 1, (deploy, more)), Application, Broker(groups=False), Client)
    assert isinstance(play.ledger, Ledger)
    for event in (deploy, more, RollingDeploy(5)):
        play.strike(event, None)
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
