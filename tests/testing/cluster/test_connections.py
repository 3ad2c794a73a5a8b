"""Requests on a simulated network: when they arrive, and what becomes of them under faults."""

from types import SimpleNamespace

import pytest

from coterie import Error
from coterie.schedule import Schedule
from coterie.testing.cluster.network import Connection, Network, Request
from coterie.testing.process import Process

LATENCY_MS, TIMEOUT_MS, SLOW_MS = 7, 500, 100


class Line:
    """A client of brokers that answer each request at once with its name."""

    def __init__(self, client="c"):
        self.schedule = Schedule()
        self.brokers = SimpleNamespace(
            schedule=self.schedule,
            latency_ms=LATENCY_MS,
            _handle=self._handle,
            _refusal=lambda request, error: (request.op, error),
        )
        self.network = self.brokers.network = Network(self.brokers)
        self.arrived, self.answers, self.changes = [], [], []
        self.silent = False
        self.connect(client)

    def connect(self, client):
        self.process = Process(self.schedule, client)
        changed = lambda: self.changes.append((client, self.schedule.now_ms))  # noqa: E731
        self.connection = Connection(self.brokers, client, self.process, changed)
        return self.connection

    def _handle(self, request):
        self.arrived.append((request.op, self.schedule.now_ms))
        if self.silent:
            request.connection.never(request)
        else:
            request.connection.answer(request, request.op)

    def send(self, op="op", node=None, timeout_ms=TIMEOUT_MS):
        take = lambda response: self.answers.append((op, response, self.schedule.now_ms))  # noqa: E731
        request = Request(self.connection, op, take, node, timeout_ms, (), {})
        self.connection.send(request)

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


def test_a_client_sees_what_has_had_the_time_to_reach_it():
    line = Line().at(1000)
    assert line.connection.sees_ms == 1000 - LATENCY_MS
    line.network.slow("c", SLOW_MS)
    assert line.connection.sees_ms == 1000 - LATENCY_MS - SLOW_MS
    line.network.cut("c")
    line.at(3000)
    assert line.connection.sees_ms == 1000 - LATENCY_MS - SLOW_MS
    line.network.heal("c")
    assert line.connection.sees_ms == 3000 - LATENCY_MS - SLOW_MS


def test_a_connection_is_perfect_while_nothing_can_go_wrong():
    line = Line()
    network = line.network
    assert line.connection.perfect
    for begin, end in (
        (lambda: network.cut("c"), lambda: network.heal("c")),
        (lambda: network.slow("c", 1), lambda: network.slow("c", 0)),
        (lambda: network.lose_request("c"), lambda: network.end_faults("c")),
        (lambda: network.lose_response("c"), lambda: network.end_faults("c")),
        (lambda: network.fail("c", "op", Error.UNKNOWN_SERVER_ERROR),
         lambda: network.end_faults("c")),
    ):  # fmt: skip
        begin()
        assert not line.connection.perfect
        end()
        assert line.connection.perfect


def test_a_lost_request_reaches_no_broker_and_breaks_the_connection():
    line = Line()
    line.network.lose_request("c", "op")
    for op in ("other", "op", "op"):
        line.send(op)
    line.at(1000)
    assert line.arrived == [("other", 7), ("op", 7)]
    assert line.answers == [("op", None, 7), ("other", "other", 14), ("op", "op", 14)]
    assert line.connection.perfect


def test_a_lost_response_breaks_the_connection_after_the_broker_has_acted():
    line = Line()
    line.network.lose_response("c", "op")
    for op in ("other", "op", "op"):
        line.send(op)
    line.at(1000)
    assert line.arrived == [("other", 7), ("op", 7), ("op", 7)]
    assert [answer for _, answer, _ in line.answers].count(None) == 1
    assert ("op", None, 14) in line.answers
    assert line.connection.perfect


def test_a_refused_request_is_answered_in_time_and_not_carried_out():
    line = Line()
    line.network.fail("c", "op", Error.NOT_COORDINATOR)
    for op in ("other", "op", "op"):
        line.send(op)
    line.at(1000)
    assert line.arrived == [("other", 7), ("op", 7)]
    assert ("op", ("op", Error.NOT_COORDINATOR), 14) in line.answers
    assert ("op", "op", 14) in line.answers


@pytest.mark.parametrize("fault", ["lose_request", "lose_response"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_fault_strikes_as_often_as_it_is_told_and_any_request_by_default(fault, times):
    line = Line()
    getattr(line.network, fault)("c", **({} if times == 1 else {"times": times}))
    for op in "abcd":
        line.send(op)
    line.at(1000)
    assert {op for op, answer, _ in line.answers if answer is None} == set("abcd"[:times])


def test_a_refusal_strikes_once_or_as_often_as_it_is_told():
    for times in (1, 2):
        line = Line()
        options = {} if times == 1 else {"times": times}
        line.network.fail("c", "op", Error.NOT_COORDINATOR, **options)
        for _ in range(3):
            line.send()
        line.at(1000)
        assert [answer for _, answer, _ in line.answers].count("op") == 3 - times


def test_faults_strike_the_client_that_they_name_and_end_when_told():
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
    assert line.changes == [("c", 600)]


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


def test_what_is_under_way_when_the_line_is_cut_times_out_at_its_time():
    line = Line().at(50)
    line.send()
    line.at(53).network.cut("c")
    line.at(100).network.cut("c")  # it is cut already
    assert line.connection.sees_ms == 53 - LATENCY_MS
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


def test_a_request_that_no_broker_answers_times_out():
    line = Line().at(20)
    line.silent = True
    line.send(timeout_ms=300)
    line.send("short", timeout_ms=3)  # over when it arrives
    assert line.at(5000).answers == [("short", None, 27), ("op", None, 320)]


def test_a_disconnection_ends_what_is_under_way_at_the_coordinator_alone():
    line = Line()
    line.send("any")
    line.send("coordinator", node=0)
    line.at(2)
    line.connection.disconnect()
    line.at(1000)
    assert line.answers == [("coordinator", None, 2), ("any", "any", 14)]
    assert ("coordinator", 7) in line.arrived  # it has been sent


def test_a_closed_connection_hears_nothing_and_the_broker_may_act():
    line = Line()
    line.send()
    line.at(2)
    line.connection.close()
    line.at(1000)
    assert (line.arrived, line.answers) == ([("op", 7)], [])
    line.network.cut("c")
    line.network.heal("c")
    assert line.changes == []


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
    line.connect("c")
    assert not line.connection.perfect
    line.send()
    line.at(100).network.heal("c")
    assert line.at(1000).answers == [("op", "op", 114)]
    assert line.changes == [("c", 100)]  # of the process that lives
