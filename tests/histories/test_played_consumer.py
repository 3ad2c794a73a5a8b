"""A play's client in its thread, and the consumer that an application sees of it.

The client is a stand-in.
"""

import threading
from queue import Empty
from types import SimpleNamespace

import pytest

from coterie import OffsetAndMetadata
from coterie.base.schedule import Schedule
from coterie.histories.client_thread import ClientThread, Handed
from coterie.histories.played_consumer import PlayedConsumer
from coterie.testing import KafkaError, WakeupError
from coterie.testing.process import Process
from support.histories.played import FIRST, SECOND, Client, record
from support.patience import HANG_S as WAIT_S  # for what comes at once

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


def test_a_thread_answers_requests_in_order():
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


def test_an_answer_is_waited_for_in_seconds(monkeypatch):
    thread, waits = ClientThread(Counter, "one"), []
    thread.answer(WAIT_S)

    def get(timeout):
        waits.append(timeout)
        raise Empty

    monkeypatch.setattr(thread, "_answers", SimpleNamespace(get=get))
    assert thread.answer(2.5) is None
    assert waits == [2.5]
    thread.abandon()
    thread.join(WAIT_S)


def test_a_thread_that_wakes_up_finds_itself_abandoned(monkeypatch):
    thread, seen = ClientThread(Counter, "one"), []
    thread.answer(WAIT_S)
    wake = thread._questions.put

    def put(question):
        seen.append((question, thread._abandoned))
        wake(question)

    monkeypatch.setattr(thread, "_questions", SimpleNamespace(put=put))
    thread.abandon()
    thread.join(WAIT_S)
    assert seen == [(None, True)]


def test_a_client_that_never_ends_keeps_no_process():
    thread = ClientThread(Counter, "of member-7")
    (started,) = (one for one in threading.enumerate() if one.name == "of member-7")
    assert started.daemon
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
def played(monkeypatch):
    monkeypatch.setattr("coterie.histories.played_consumer.PATIENCE_S", WAIT_S)
    made = Played()
    yield made
    made.consumer.end()
    made.consumer.join(WAIT_S)


def subscribed(played, listener=None, places=(FIRST, SECOND)):
    """A consumer that has got partitions, and reads the first of each."""
    listener = listener or Listener()
    played.consumer.subscribe(["t"], listener)
    played.client.batches = [
        lambda listener: listener.on_partitions_assigned(list(places)),
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


def test_a_subscription_that_the_client_refuses_changes_nothing(played):
    assert played.consumer.subscription() == set()
    listener = subscribed(played)
    played.client.failure = KafkaError("refused")
    with pytest.raises(KafkaError, match="refused"):
        played.consumer.subscribe(["u"], Listener())
    assert played.consumer.subscription() == {"t"}
    played.client.batches = [lambda listener: listener.on_partitions_lost([SECOND])]
    played.consumer.poll(0)
    assert listener.calls[-1] == ("lost", [SECOND])


def test_the_listener_is_called_by_the_program_and_decides_what_is_assigned(played):
    listener = subscribed(played)
    assert played.consumer.assignment() == {FIRST, SECOND}
    played.client.batches = [
        lambda listener: listener.on_partitions_revoked([FIRST]),
        lambda listener: listener.on_partitions_lost([SECOND]),
    ]
    played.consumer.poll(0)
    assert played.consumer.assignment() == {SECOND}
    played.consumer.poll(0)
    assert played.consumer.assignment() == set()
    assert listener.calls == [
        ("assigned", [FIRST, SECOND]), ("revoked", [FIRST]), ("lost", [SECOND]),
    ]  # fmt: skip
    assert [(kind, places) for _, kind, places in played.noted()] == listener.calls


def test_a_listener_finds_what_it_gets_and_still_has_what_it_gives_up(played):
    seen = []

    class Looks:
        def on_partitions_assigned(self, places):
            seen.append(("assigned", played.consumer.assignment()))
            played.consumer.seek(SECOND, 9)

        def on_partitions_revoked(self, places):
            seen.append(("revoked", played.consumer.positions()))

        def on_partitions_lost(self, places):
            seen.append(("lost", played.consumer.positions()))

    played.consumer.subscribe(["t"], Looks())
    played.client.batches = [
        lambda listener: listener.on_partitions_assigned([FIRST, SECOND]),
        [record(0, 4)],
        lambda listener: listener.on_partitions_revoked([FIRST]),
        lambda listener: listener.on_partitions_lost([SECOND]),
    ]
    for _ in range(4):
        played.consumer.poll(0)
    assert seen == [
        ("assigned", {FIRST, SECOND}), ("revoked", {FIRST: 5, SECOND: 9}), ("lost", {SECOND: 9}),
    ]  # fmt: skip


def test_a_listener_without_on_partitions_lost_gets_them_as_revoked(played):
    calls = []
    old = SimpleNamespace(on_partitions_revoked=calls.append)
    subscribed(played, old)
    played.client.batches = [lambda listener: listener.on_partitions_lost([SECOND])]
    played.consumer.poll(0)
    assert calls == [[SECOND]]


def test_what_a_listener_raises_first_ends_the_poll_once(played):
    played.consumer.subscribe(["t"], Listener("assigned", "revoked"))
    played.client.batches = [
        lambda listener: (
            listener.on_partitions_revoked([FIRST]),
            listener.on_partitions_assigned([FIRST]),
        )
    ]
    with pytest.raises(KafkaError, match="'revoked'"):
        played.consumer.poll(0)
    assert played.consumer.poll(0) == []


def test_positions_that_are_unknown_are_looked_up_while_a_poll_waits(played):
    played.client.places = {FIRST: 7}
    subscribed(played, places=[FIRST])
    played.client.batches = [lambda listener: listener.on_partitions_assigned([SECOND])]
    played.taken()
    played.consumer.poll(1500)
    assert played.consumer.positions() == {FIRST: 5}
    played.client.places = {SECOND: 9}
    played.consumer.poll(1500)
    assert played.consumer.positions() == {FIRST: 5, SECOND: 9}
    assert ("position", FIRST) not in played.taken()


def test_a_call_that_takes_long_takes_whole_seconds_of_virtual_time(played, monkeypatch):
    monkeypatch.setattr("coterie.histories.played_consumer.PATIENCE_S", 0.001)
    done = threading.Event()
    played.client.position = lambda place: done.wait(WAIT_S) and 7
    played.schedule.call_later(2500, done.set)
    assert played.consumer.position(FIRST) == 7
    assert played.schedule.now_ms >= 3000
    assert played.schedule.now_ms % 1000 == 0


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
    outcomes = []
    played.consumer.commit_async({FIRST: 9}, lambda *outcome: outcomes.append(outcome))
    played.consumer.commit_async()
    chosen = {FIRST: OffsetAndMetadata(9)}
    assert outcomes == []
    played.consumer.poll(0)
    played.consumer.poll(0)
    assert outcomes == [(chosen, None)]
    kinds = [kind for _, kind, _ in played.noted()]
    assert kinds == ["commit", "commit", "committed", "committed"]


def test_seeking_sets_the_position_and_other_methods_are_the_clients(played):
    subscribed(played)
    played.taken()
    played.consumer.seek(("t", 1), 40)
    played.consumer.pause([FIRST])
    assert played.taken() == [("seek", SECOND, 40), ("pause", [FIRST])]
    assert played.consumer.positions() == {FIRST: 5, SECOND: 40}
    played.client.failure = KafkaError("refused")
    with pytest.raises(KafkaError, match="refused"):
        played.consumer.seek(SECOND, 50)
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
