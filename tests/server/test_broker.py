"""Broker: a server in this process over real sockets, and what a test may do with it."""

import asyncio
import inspect
import json
import ssl
import sys

import pytest

from coterie import run_trace
from coterie.errors import ArgumentError, CoterieError
from coterie.server import Broker
from coterie.server.api.faults import Fault
from support.patience import HANG_S
from support.server import asking, playing, sockets

QUICK = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture
def broker():
    with Broker(QUICK, topics={"t": 2}, clock="virtual", seed=1) as made:
        yield made


def joined(connection, group="g", **fields):
    """Join alone and sync; the member's id."""
    told = sockets.ask(connection, "JoinGroup", 3, asking.joining(group, **fields))
    who = {"groupId": group, "generationId": told["generationId"], "memberId": told["memberId"]}
    assignments = [{"memberId": told["memberId"], "assignment": b"a"}]
    sockets.ask(connection, "SyncGroup", 2, {**who, "assignments": assignments})
    return told["memberId"]


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("name", ["pipelined-burst", "slow-frame", "two-members-rebalance"])
def test_a_conversation_over_sockets_goes_as_it_was_recorded(name, loop, monkeypatch):
    if loop == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    else:
        pytest.importorskip("uvloop")
    _, steps = playing.conversations()[name]
    with Broker(playing.BROKER) as broker:
        host, port = broker.bootstrap_servers.split(":")
        player = playing.play().Player(playing.schemas(), {"plain": (host, int(port))})
        player.served = True
        for step in steps:
            player.step(step)
        player.close()


def test_time_stands_until_it_is_advanced_and_then_sessions_end(broker):
    connection = sockets.connect(broker)
    joined(connection)
    assert broker.now_ms == 0
    assert broker.coordinator.snapshot("g").state == "Stable"
    broker.advance(29_999)
    assert broker.coordinator.snapshot("g").state == "Stable"
    broker.advance(1)
    assert broker.coordinator.snapshot("g").state == "Empty"
    assert broker.coordinator.snapshot("none") is None


def test_advance_returns_when_what_fell_due_is_on_its_way(broker):
    first, second = sockets.connect(broker), sockets.connect(broker)
    joined(first)
    second.send(asking.request("JoinGroup", 3, asking.joining("g")))
    while len(broker.requests()) < 3:  # the join has come
        pass
    broker.advance(30_000)
    assert len(second.frame(HANG_S)) > 4


def test_what_was_asked_is_a_trace_that_runs_to_the_same_answers(broker, tmp_path):
    connection = sockets.connect(broker)
    joined(connection)
    broker.advance(45_000)
    trace = broker.trace()
    lines = list(run_trace(trace))
    told = [(line["op"], line["error"]) for line in lines if line["event"] == "response"]
    assert told == [("join_group", "NONE"), ("sync_group", "NONE")]
    assert [line["to"] for line in lines if line["event"] == "transition"] == [
        "PreparingRebalance", "CompletingRebalance", "Stable", "PreparingRebalance", "Empty",
    ]  # fmt: skip


def test_the_trace_lies_in_its_file_after_the_end(tmp_path):
    file = tmp_path / "one.trace.jsonl"
    with Broker(QUICK, clock="virtual", trace=file) as broker:
        joined(sockets.connect(broker))
        broker.advance(45_000)
    lines = list(run_trace(file.read_text(encoding="utf-8").splitlines()))
    assert [line["op"] for line in lines if line["event"] == "response"] == [
        "join_group",
        "sync_group",
    ]
    assert [line["to"] for line in lines if line["event"] == "transition"][-1] == "Empty"


def test_faults_and_requests_are_there_for_a_test(broker):
    connection = sockets.connect(broker)
    fault = broker.fail("ListGroups", error="COORDINATOR_LOAD_IN_PROGRESS")
    assert sockets.ask(connection, "ListGroups", 0, {})["errorCode"] == 14
    assert sockets.ask(connection, "ListGroups", 0, {})["errorCode"] == 0
    assert fault.count == 1
    assert [each["api"] for each in broker.requests()] == ["ListGroups", "ListGroups"]


def test_a_fault_delays_the_responses_to_one_client_for_its_group(broker):
    """docs/testing-clients.md: the delay is of the broker's clock."""
    fault = broker.fail("Heartbeat", delay_ms=1500, times=None, client_id="slow", group_id="g")
    body = asking.heartbeat("g", "m", 1)
    for client_id, group in (("quick", "g"), ("slow", "h")):
        peer = sockets.connect(broker)
        beat = {**body, "groupId": group}
        assert sockets.ask(peer, "Heartbeat", 0, beat, client_id=client_id)["errorCode"] == 25
    slow = sockets.connect(broker)
    for number in range(2):
        slow.send(asking.request("Heartbeat", 0, body, client_id="slow"))
        while len(broker.requests()) < 3 + number:
            pass
        broker.advance(1499)
        slow.s.setblocking(False)
        with pytest.raises(BlockingIOError):
            slow.s.recv(1)
        slow.s.setblocking(True)
        broker.advance(1)
        assert len(slow.frame(HANG_S)) == 6
    assert (fault.count, fault.left) == (2, None)


def test_a_coordinator_moves_to_no_broker_that_is_unknown(broker):
    connection = sockets.connect(broker)
    joined(connection)
    events = len(broker.timeline)
    with pytest.raises(ArgumentError, match=r"node must be one of \[1\], not 2"):
        broker.move_coordinator("g", 2)
    assert len(broker.timeline) == events
    broker.move_coordinator("g", 1)
    assert len(broker.timeline) > events


def test_a_broker_that_is_killed_closes_at_once_and_comes_back_with_its_groups(broker):
    connection = sockets.connect(broker)
    member_id = joined(connection)
    address = broker.bootstrap_servers
    broker.kill(1)
    connection.closed(HANG_S)
    with pytest.raises(ConnectionRefusedError):
        sockets.connect(broker)
    broker.start(1)
    assert broker.bootstrap_servers == address
    assert [each.member_id for each in broker.coordinator.snapshot("g").members] == [member_id]
    beat = asking.heartbeat("g", member_id, 1)
    assert sockets.ask(sockets.connect(broker), "Heartbeat", 3, beat)["errorCode"] == 0


def test_a_coordinator_that_moves_tells_whoever_waits(broker):
    first, second = sockets.connect(broker), sockets.connect(broker)
    joined(first)
    second.send(asking.request("JoinGroup", 3, asking.joining("g")))
    while len(broker.requests()) < 3:
        pass
    broker.move_coordinator("g", 1)
    found = sockets.wire.decode_response(11, 3, second.frame(HANG_S)).body
    assert found["errorCode"] == 16  # NOT_COORDINATOR


def test_it_serves_inside_a_loop_too():
    async def ask():
        async with Broker(QUICK) as broker:
            return await asyncio.to_thread(
                lambda: sockets.ask(sockets.connect(broker), "ListGroups", 0, {})
            )

    assert asyncio.run(ask())["errorCode"] == 0


def test_a_wait_that_would_stop_an_event_loop_says_what_to_use():
    async def wait():
        async with Broker(QUICK) as broker:
            with pytest.raises(CoterieError, match="stop this event loop, and clients in it: use"):
                broker.wait_for("g", state="Dead")
            return await asyncio.to_thread(broker.wait_for, "g", state="Dead")

    assert asyncio.run(wait()) is None


def test_idle_connections_are_closed_by_the_wall_clock():
    with Broker({"connections.max.idle.ms": 20}, clock="virtual") as broker:
        sockets.connect(broker).closed(HANG_S)


def test_a_connection_too_many_is_closed_at_once():
    with Broker({"max.connections": 1}) as broker:
        first = sockets.connect(broker)
        assert sockets.ask(first, "ApiVersions", 0, {})["errorCode"] == 0
        sockets.connect(broker).closed(HANG_S)
        assert sockets.ask(first, "ApiVersions", 0, {})["errorCode"] == 0


def test_a_listener_has_a_limit_of_its_own_and_room_again_when_a_peer_is_gone():
    limit = {"listener.name.plaintext.max.connections": 1}
    listen = ("127.0.0.1:0", "sasl_plaintext://127.0.0.1:0", "sasl_plaintext://127.0.0.1:0")
    with Broker(limit, listen=listen, sasl_users={"u": "p"}) as broker:
        others = [sockets.connect(broker, number) for number in (1, 2)]
        for other in others:  # its peers are not counted
            assert sockets.ask(other, "ApiVersions", 0, {})["errorCode"] == 0
        first = sockets.connect(broker)
        assert sockets.ask(first, "ApiVersions", 0, {})["errorCode"] == 0
        sockets.connect(broker).closed(HANG_S)
        broker.kill(1)  # both are counted out, the one that was never counted too
        first.closed(HANG_S)
        broker.start(1)
        first = sockets.connect(broker)
        assert sockets.ask(first, "ApiVersions", 0, {})["errorCode"] == 0
        sockets.connect(broker).closed(HANG_S)


def test_a_peer_that_never_reads_is_held_and_the_others_are_not(broker):
    silent, other = sockets.connect(broker), sockets.connect(broker)
    silent.s.setblocking(False)
    burst = asking.request("ApiVersions", 0, {}) * 20_000
    sent, rounds = 0, 0
    while rounds < 5:  # of the server's loop, in which nothing more is taken
        try:
            sent, rounds = sent + silent.s.send(burst), 0
        except BlockingIOError:
            rounds += 1
        assert sockets.ask(other, "ApiVersions", 0, {})["errorCode"] == 0
        assert sent < 200 * len(burst)  # more than the buffers of a connection hold


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"brokers": 3}, "brokers"),
        ({"data": "folder"}, "data"),
        ({"clock": "sundial"}, "clock"),
        ({"config": {"no.such": 1}}, "no.such"),
        ({"config": 5}, "mapping"),
        ({"listen": "127.0.0.1"}, "HOST:PORT"),
        ({"listen": "0.0.0.0:0"}, "loopback"),
        (
            {"listen": "sasl_ssl://0.0.0.0:0", "tls": ssl.create_default_context()},
            "no machine's address",
        ),
        ({"listen": "quic://127.0.0.1:0"}, "quic"),
        ({"listen": "sasl_plaintext://127.0.0.1:0"}, "sasl_users"),
        ({"topics": {"a/b": 1}}, "a/b"),
        ({"topics": {"a": 0}}, "a must be"),
        ({"topics": {"a": 100_001}}, "a must be"),
        ({"topics": "orders"}, "orders"),
        ({"topics": {5: 1}}, "topics must be {name: partitions}, not of 5"),
        ({"topics": {("a",): 1}}, "topics must be {name: partitions}"),
        ({"topics": ["a", 5]}, "topics must be {name: partitions}, not of 5"),
        ({"listen": ()}, "listen must name an address"),
        ({"listen": "ssl://127.0.0.1:0"}, "a listener with TLS needs tls"),
        ({"tls": {"cert": "c.pem"}}, "tls must be"),
        ({"topics": {"__consumer_offsets": 3}}, "offsets.topic.num.partitions"),
        ({"topics": {"__transaction_state": 1}}, "transaction.state.log.num.partitions"),
        ({"seed": "x"}, "seed"),
        ({"tls": 5}, "tls"),
        ({"colour": 5}, "colour"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(how, told):
    with pytest.raises((ArgumentError, CoterieError), match=told):
        Broker(**how)


def test_a_topic_of_the_brokers_own_that_is_named_has_the_partitions_of_its_setting():
    with Broker({"offsets.topic.num.partitions": 7}, topics=["__consumer_offsets"]) as broker:
        told = sockets.ask(sockets.connect(broker), "Metadata", 9, {"topics": None})
        assert [len(topic["partitions"]) for topic in told["topics"]] == [7]


def test_what_needs_a_running_broker_says_so():
    broker = Broker()
    for ask in (lambda: broker.bootstrap_servers, broker.requests, lambda: broker.advance(1)):
        with pytest.raises(CoterieError, match="with Broker"):
            ask()
    with broker, pytest.raises(CoterieError, match="virtual"):
        broker.advance(1)


def test_an_address_that_is_taken_is_said():
    with Broker() as broker, pytest.raises(CoterieError, match="cannot be listened on"):
        Broker(listen=broker.bootstrap_servers).__enter__()


def test_a_trace_says_what_it_is_for(broker):
    head = json.loads(json.dumps(broker.trace()[0]))
    assert head["format"] == "coterie-trace"
    assert "doc" not in head  # which would say what is missing


def test_what_a_caller_leaves_out_is_as_documented():
    """docs/testing-clients.md, docs/server.md; nothing waits for the 10 seconds here."""

    def defaults(function):
        found = inspect.signature(function).parameters.values()
        return {each.name: each.default for each in found if each.default is not each.empty}

    assert defaults(Broker.wait_for) == {"state": None, "members": None, "timeout_s": 10}
    once = {"error": None, "delay_ms": 0, "disconnect": False, "times": 1, "client_id": None,
            "group_id": None}  # fmt: skip
    assert defaults(Broker.fail) == defaults(Fault.__init__) == once
    chosen = {"brokers": 1, "clock": "wall", "kafka": "3.9", "seed": None, "listen": "127.0.0.1:0"}
    assert defaults(Broker.__init__).items() >= chosen.items()
