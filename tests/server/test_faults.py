"""Faults on demand: which requests meet them, how, and how often; what was asked."""

import pytest
from asking import answer, ask, heartbeat, member, request
from playing import Server

from coterie.errors import ArgumentError
from coterie.server.faults import Watch


@pytest.fixture
def server():
    made = Server({"group.initial.rebalance.delay.ms": 0})
    made.watch = made.cluster.observer = Watch(made.cluster)
    return made


def beat(peer, who, **how):
    return ask(peer, "Heartbeat", 3, heartbeat("g", *who), **how)["errorCode"]


def test_an_error_meets_as_many_requests_as_it_is_told_and_counts_them(server):
    peer = server.connect()
    who = member(peer, "g")
    fault = server.watch.fail("Heartbeat", error="COORDINATOR_NOT_AVAILABLE", times=2)
    assert [beat(peer, who) for _ in range(3)] == [15, 15, 0]
    assert fault.count == 2


def test_a_fault_of_one_client_or_group_spares_the_others(server):
    peer = server.connect()
    who = member(peer, "g")
    server.watch.fail("heartbeat", error=27, client_id="other")
    elsewhere = server.watch.fail("HEARTBEAT", error=27, group_id="h")
    here = server.watch.fail(12, error=16, group_id="g", times=None)
    assert beat(peer, who) == 16
    assert beat(peer, who, client_id="other") == 27
    here.cancel()
    assert beat(peer, who) == 0
    assert (elsewhere.count, here.count) == (0, 1)


def test_a_delay_holds_the_answer_back_by_the_clock(server):
    peer = server.connect()
    who = member(peer, "g")
    server.watch.fail("Heartbeat", delay_ms=500)
    peer.send(request("Heartbeat", 3, heartbeat("g", *who)))
    server.run(499)
    assert not peer.take()
    server.run(1)
    assert answer(peer, "Heartbeat", 3)["errorCode"] == 0


def test_a_delayed_request_of_a_peer_that_left_is_forgotten(server):
    peer = server.connect()
    server.watch.fail("ApiVersions", delay_ms=500, error=35)
    peer.send(request("ApiVersions", 0, {}))
    peer.leave()
    server.run(1000)
    assert not peer.take()
    assert not server.told


def test_a_disconnect_closes_without_an_answer(server):
    peer = server.connect()
    server.watch.fail("ApiVersions", disconnect=True)
    peer.send(request("ApiVersions", 0, {}))
    assert peer.connection.closing
    assert not peer.take()
    assert ask(server.connect(), "ApiVersions", 0, {})["errorCode"] == 0


@pytest.mark.parametrize(
    ("api", "how", "told"),
    [
        ("Heartbeats", {"error": 27}, "Heartbeats"),
        ("Heartbeat", {}, "error, delay_ms or disconnect"),
        ("Heartbeat", {"error": "NO_SUCH"}, "NO_SUCH"),
        ("Heartbeat", {"error": 27, "times": -1}, "times"),
        ("Heartbeat", {"delay_ms": "x"}, "delay_ms"),
        ("Heartbeat", {"disconnect": 1}, "disconnect"),
        ("Heartbeat", {"error": 27, "client_id": 5}, "client_id"),
        ("Heartbeat", {"error": 27, "colour": 5}, "colour"),
        (999, {"error": 27}, "999"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_by_its_name(server, api, how, told):
    with pytest.raises(ArgumentError, match=told):
        server.watch.fail(api, **how)


def test_what_was_asked_is_kept_in_order_with_its_time(server):
    peer = server.connect()
    start_ms = server.cluster.now_ms
    ask(peer, "ApiVersions", 0, {}, client_id="me", correlation_id=9)
    server.run(50)
    ask(peer, "ListGroups", 4, {"statesFilter": ["Stable"]})
    first, second = server.watch.requests
    assert (first["api"], first["version"], first["client_id"]) == ("ApiVersions", 0, "me")
    assert (first["correlation_id"], first["at"] - start_ms) == (9, 0)
    assert (second["api"], second["at"] - start_ms) == ("ListGroups", 50)
    assert second["body"]["statesFilter"] == ["Stable"]
