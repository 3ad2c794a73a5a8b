"""Requests on a simulated network: when they arrive, and what becomes of them under faults."""

import gc
import weakref
from types import SimpleNamespace

import pytest

from coterie import CoterieError, Error
from coterie.testing import Cluster, Consumer, Producer
from coterie.testing.process import Process

LATENCY_MS, TIMEOUT_MS, SLOW_MS = 7, 500, 100
OPS = {"op": "init_producer_id", "other": "add_partitions_to_txn"}


class Line:
    """A client of brokers that answer each request at once with its name."""

    def __init__(self):
        self.cluster = Cluster({"t": 1}, interval_ms=1, latency_ms=LATENCY_MS)
        self.schedule, self.network = self.cluster.schedule, self.cluster.network
        self.cluster.transactions = SimpleNamespace(**dict.fromkeys(OPS.values(), self._handle))
        self.arrived, self.answers = [], []
        self.connect()

    def connect(self):
        self.process = Process(self.schedule, "c")
        producer = Producer(self.cluster, {"client.id": "c"}, process=self.process)
        self.client = producer._network  # it handles responses as they come

    def _handle(self, name):
        self.arrived.append((name, self.schedule.now_ms))
        return name

    def send(self, name="op", to_coordinator=False, timeout_ms=TIMEOUT_MS):
        def take(response):
            self.answers.append((name, response, self.schedule.now_ms))

        send = self.client.send_to_coordinator if to_coordinator else self.client.send
        send(OPS.get(name, OPS["op"]), take, name, timeout_ms=timeout_ms)

    def at(self, ms):
        self.schedule.run_until(ms)
        return self


def test_a_request_takes_the_latency_to_the_broker_and_its_response_back():
    line = Line().at(1000)
    line.send()
    assert line.at(1006).arrived == []
    assert line.at(1013).arrived == [("op", 1007)]
    assert line.answers == []
    assert line.at(5000).answers == [("op", "op", 1014)]


def test_a_slow_client_waits_longer_for_each_way_until_it_is_as_before():
    line = Line()
    line.network.slow("c", SLOW_MS)
    line.send()
    line.at(1000)
    assert (line.arrived, line.answers) == ([("op", 107)], [("op", "op", 214)])
    line.network.slow("c", 0)
    line.send()
    assert line.at(2000).answers[1:] == [("op", "op", 1014)]


def test_a_client_sees_the_records_that_have_had_the_time_to_reach_it():
    cluster = Cluster({"t": 1}, interval_ms=1, latency_ms=LATENCY_MS)  # one in each ms, from 1 on
    consumer = Consumer(cluster, {"client.id": "c", "max.poll.records": 10_000})
    consumer.assign([("t", 0)])
    consumer.seek(("t", 0), 0)

    def last_ms(now_ms):
        cluster.schedule.run_until(now_ms)
        records = consumer.poll(0)
        return records[-1].timestamp if records else None

    assert last_ms(1000) == 1000 - LATENCY_MS
    cluster.network.slow("c", SLOW_MS)
    assert last_ms(1500) == 1500 - LATENCY_MS - SLOW_MS
    cluster.schedule.run_until(2000)
    cluster.network.cut("c")
    assert last_ms(3000) == 2000 - LATENCY_MS - SLOW_MS
    assert last_ms(3500) is None
    cluster.network.heal("c")
    assert last_ms(4000) == 4000 - LATENCY_MS - SLOW_MS


def test_a_lost_request_reaches_no_broker_and_breaks_the_connection():
    line = Line()
    line.network.lose_request("c", OPS["op"])
    for op in ("other", "op", "op"):
        line.send(op)
    line.at(1000)
    assert line.arrived == [("other", 7), ("op", 7)]
    assert line.answers == [("op", None, 7), ("other", "other", 14), ("op", "op", 14)]


def test_a_lost_response_breaks_the_connection_after_the_broker_has_acted():
    line = Line()
    line.network.lose_response("c", OPS["op"])
    for op in ("other", "op", "op"):
        line.send(op)
    line.at(1000)
    assert line.arrived == [("other", 7), ("op", 7), ("op", 7)]
    assert [answer for _, answer, _ in line.answers].count(None) == 1
    assert ("op", None, 14) in line.answers


def test_a_refused_request_is_answered_in_time_and_not_carried_out():
    line = Line()
    line.network.fail("c", OPS["op"], Error.NOT_COORDINATOR)
    for op in ("other", "op", "op"):
        line.send(op)
    line.at(1000)
    assert line.arrived == [("other", 7), ("op", 7)]
    assert ("op", Error.NOT_COORDINATOR, 14) in line.answers
    assert ("op", "op", 14) in line.answers


@pytest.mark.parametrize("fault", ["lose_request", "lose_response"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_fault_strikes_as_often_as_it_is_set_and_any_request_by_default(fault, times):
    line = Line()
    getattr(line.network, fault)("c", **({} if times == 1 else {"times": times}))
    for op in "abcd":
        line.send(op)
    line.at(1000)
    assert {op for op, answer, _ in line.answers if answer is None} == set("abcd"[:times])


def test_a_refusal_strikes_once_or_as_often_as_it_is_set():
    for times in (1, 2):
        line = Line()
        options = {} if times == 1 else {"times": times}
        line.network.fail("c", OPS["op"], Error.NOT_COORDINATOR, **options)
        for _ in range(3):
            line.send()
        line.at(1000)
        assert [answer for _, answer, _ in line.answers].count("op") == 3 - times


def test_faults_strike_the_client_that_they_name_until_they_are_ended():
    line = Line()
    line.network.lose_request("other")
    line.network.slow("other", SLOW_MS)
    line.network.cut("other")
    line.send()
    assert line.at(14).answers == [("op", "op", 14)]
    line.network.lose_request("c", times=100)
    line.network.end_faults("c")
    line.send()
    assert line.at(100).answers[1:] == [("op", "op", 28)]


def test_a_request_of_a_client_that_is_cut_off_goes_on_when_it_heals_or_times_out():
    line = Line()
    line.network.cut("c")
    line.send("early")
    line.at(200)
    line.send("late")
    line.at(499)
    assert line.answers == []
    line.at(600)
    assert (line.arrived, line.answers) == ([], [("early", None, TIMEOUT_MS)])
    line.network.heal("c")
    line.at(2000)
    assert line.arrived == [("late", 607)]
    assert line.answers[1:] == [("late", "late", 614)]


@pytest.mark.parametrize(
    ("cut_ms", "arrived_ms", "answered_ms"),
    [
        (3, 107, 114),  # on its way to the broker: it goes the whole way again
        (10, 7, 107),  # its response, too
    ],
)
def test_what_is_under_way_when_the_line_is_cut_waits_until_it_heals(
    cut_ms, arrived_ms, answered_ms
):
    line = Line()
    line.send()
    line.at(cut_ms).network.cut("c")
    line.at(100)
    assert line.answers == []
    line.network.heal("c")
    line.at(2000)
    assert line.arrived == [("op", arrived_ms)]
    assert line.answers == [("op", "op", answered_ms)]


def test_a_request_that_stalls_twice_arrives_once():
    line = Line()
    line.network.cut("c")
    line.send()
    line.at(100).network.heal("c")
    line.at(103).network.cut("c")  # it is on its way again
    line.at(200).network.heal("c")
    assert line.at(1000).arrived == [("op", 207)]


def test_what_is_under_way_when_the_line_is_cut_times_out_at_its_time():
    line = Line().at(50)
    line.send()
    line.at(53).network.cut("c")
    line.at(100).network.cut("c")  # it is cut already
    line.at(2000)
    assert line.answers == [("op", None, 50 + TIMEOUT_MS)]
    line.network.heal("c")
    assert line.at(3000).arrived == []


def test_a_response_that_comes_in_time_stops_the_timeout():
    line = Line()
    line.send()
    line.at(3).network.cut("c")
    line.network.heal("c")
    assert line.at(5000).answers == [("op", "op", 14)]


def test_a_disconnection_ends_what_is_under_way_at_the_coordinator_alone():
    line = Line()
    line.client.coordinator = 0
    line.send("any")
    line.send("coordinator", to_coordinator=True)
    line.at(2)
    line.client.forget_coordinator()
    line.at(1000)
    assert line.answers == [("coordinator", None, 2), ("any", "any", 14)]
    assert ("coordinator", 7) in line.arrived  # it has been sent


def test_a_dead_process_sends_and_hears_nothing():
    line = Line()
    line.network.cut("c")
    line.send("stalled")
    line.process.kill()
    line.send("dead")
    line.network.heal("c")
    line.at(1000)
    assert (line.arrived, line.answers) == ([], [])


def test_the_state_of_a_client_outlives_its_process():
    line = Line()
    line.network.cut("c")
    line.process.kill()
    line.connect()
    line.send()
    line.at(100).network.heal("c")
    assert line.at(1000).answers == [("op", "op", 114)]


def silent(line):
    """The requests that arrive at brokers, which respond to none of them."""
    requests = []
    line.cluster._handle = requests.append
    return requests


def test_a_request_belongs_to_the_connection_that_sent_it():
    line, other = Line(), Line()
    requests = silent(line)
    line.send()
    line.at(7)
    (request,) = requests
    for call in (
        lambda: other.client.answer(request, "wrong"),
        lambda: other.client.never(request),
        lambda: other.client.resend(request),
    ):
        with pytest.raises(CoterieError, match="another connection"):
            call()
    assert (request.response, request.done) == (None, False)
    line.client.answer(request, "right")
    assert line.at(14).answers == [("op", "right", 14)]
    assert (request.response, request.done) == ("right", True)


def test_a_request_that_has_ended_is_forgotten():
    """Answered, timed out, given up, or of a connection that is closed."""
    for how in ("answer", "never", "forget", "close"):
        line = Line()
        line.client.coordinator = 0
        requests = silent(line)

        def handler(_response):
            """One of its own for each request."""

        known = weakref.ref(handler)
        line.client.send_to_coordinator(OPS["op"], handler, timeout_ms=TIMEOUT_MS)
        del handler
        line.at(7)
        if how == "answer":
            line.client.answer(requests[0], "response")
        elif how == "never":
            line.client.never(requests[0])
        elif how == "forget":
            line.client.forget_coordinator()
            assert line.client.coordinator is None
        else:
            line.client.close()
        requests.clear()
        line.at(2 * TIMEOUT_MS)
        gc.collect()
        assert known() is None, how


def test_a_timeout_counts_from_the_sending_and_is_the_settings_unless_it_is_given():
    line = Line().at(50)
    requests = silent(line)
    line.client.send(OPS["op"], lambda response: line.answers.append(line.schedule.now_ms))
    line.send()  # with a timeout of its own
    line.at(61)
    for request in requests:
        line.client.never(request)
        line.client.never(request)  # it has its timer already
    line.at(49 + TIMEOUT_MS)
    assert line.answers == []
    line.at(50 + TIMEOUT_MS)
    assert line.answers == [("op", None, 50 + TIMEOUT_MS)]
    line.at(49 + 30_000)
    assert len(line.answers) == 1
    assert line.at(50 + 30_000).answers[1:] == [50 + 30_000]  # request.timeout.ms


def test_a_request_that_no_broker_answers_and_that_is_late_already_ends_at_once():
    line = Line()
    requests = silent(line)
    line.send(timeout_ms=5)
    line.at(7)
    line.client.never(requests[0])
    assert line.at(7).answers == [("op", None, 7)]
