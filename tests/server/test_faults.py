"""Faults on demand: which requests they affect, how, and how often; the request log."""

import re

import pytest

from coterie import wire
from coterie.errors import ArgumentError
from coterie.server.api.faults import Watch
from coterie.server.api.table import SERVED
from support.server.asking import KEY, answer, ask, heartbeat, member, request
from support.server.playing import Server
from support.server.writing import batch


@pytest.fixture
def server():
    made = Server({"group.initial.rebalance.delay.ms": 0})
    made.watch = made.dispatcher.observer = Watch(made.cluster)
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


def about(api, version, *groups):
    """A request of a version that is about groups; one alone where there is room for no more."""
    if api == "OffsetFetch" and version >= 8:
        return {"groups": [{"groupId": each} for each in groups]}
    if api == "FindCoordinator":
        return {"coordinatorKeys": list(groups)} if version >= 4 else {"key": groups[-1]}
    lists = {
        "DescribeGroups": "groups", "DeleteGroups": "groupsNames",
        "ConsumerGroupDescribe": "groupIds",
    }  # fmt: skip
    return {lists[api]: list(groups)} if api in lists else {"groupId": groups[-1]}


def names_a_group(api):
    """Whether the wire's table has a field for it; a group is one kind of FindCoordinator's key."""
    blank = wire.encode_request(KEY[api], SERVED[KEY[api]].last, {})
    fields = wire.decode_request(blank, fill=True).body
    return api == "FindCoordinator" or any(
        re.fullmatch("group(s|Id|Ids|sNames)", field) for field in fields
    )


@pytest.mark.parametrize("row", SERVED.values(), ids=lambda row: row.name)
def test_a_group_meets_each_api_that_names_one_and_is_refused_with_the_others(server, row):
    if not names_a_group(row.name):
        with pytest.raises(ArgumentError, match="names no group"):
            server.watch.fail(row.name, disconnect=True, group_id="g")
        return
    fault = server.watch.fail(row.name, disconnect=True, group_id="g", times=None)
    for number, version in enumerate(range(row.first, row.last + 1)):
        server.connect().send(request(row.name, version, about(row.name, version, "h")))
        assert fault.count == number
        peer = server.connect()
        peer.send(request(row.name, version, about(row.name, version, "h", "g")))
        assert fault.count == number + 1
        assert peer.connection.closing


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_a_transactional_id_is_no_group(server, version):
    fault = server.watch.fail("FindCoordinator", error=15, group_id="g")
    keys = {**about("FindCoordinator", version, "g"), "keyType": 1}
    ask(server.connect(), "FindCoordinator", version, keys)
    assert fault.count == 0


def producing(acks):
    parts = [{"index": 0, "records": batch(b"v")}]
    return {"acks": acks, "topicData": [{"name": "t", "partitionData": parts}]}


def test_an_error_of_a_produce_that_wants_no_answer_closes(server):
    log = server.cluster.topics.create("t", 1).partitions[0]
    peer = server.connect()
    server.watch.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=3)
    response = ask(peer, "Produce", 9, producing(1))["responses"][0]["partitionResponses"]
    assert [each["errorCode"] for each in response] == [6]
    peer.send(request("Produce", 9, producing(0)))
    assert peer.connection.closing
    assert not peer.take()
    assert log.log_end_offset == 0
    assert "wants no acks and failed with NOT_LEADER_OR_FOLLOWER" in server.log_lines[0]


def test_an_error_of_sasl_is_told_after_its_delay_and_closes(server):
    password = {"authBytes": b"\0alice\0alice-secret"}
    for api in ("SaslHandshake", "SaslAuthenticate"):
        peer = server.connect("sasl")
        fault = server.watch.fail(api, error="SASL_AUTHENTICATION_FAILED")
        if api == "SaslAuthenticate":
            ask(peer, "SaslHandshake", 1, {"mechanism": "PLAIN"})
            peer.send(request("SaslAuthenticate", 2, password))
        else:
            peer.send(request("SaslHandshake", 1, {"mechanism": "PLAIN"}))
        server.run(99)
        assert not peer.take()
        server.run(1)
        assert answer(peer, api, SERVED[KEY[api]].last)["errorCode"] == 58
        assert peer.connection.closing
        assert fault.count == 1


def test_an_error_of_sasl_where_nobody_has_to_authenticate_leaves_the_connection(server):
    peer = server.connect()
    server.watch.fail("SaslAuthenticate", error=58)
    assert ask(peer, "SaslAuthenticate", 2, {})["errorCode"] == 58
    assert ask(peer, "ApiVersions", 0, {})["errorCode"] == 0


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
    assert not server.log_lines


def test_a_fault_without_end_ends_when_it_is_cancelled(server):
    peer = server.connect()
    fault = server.watch.fail("ListGroups", error=15, times=None)

    def asked():
        return ask(peer, "ListGroups", 4, {})["errorCode"]

    assert [asked() for _ in range(3)] == [15, 15, 15]
    assert (fault.count, fault.left) == (3, None)
    fault.cancel()
    assert asked() == 0
    assert (fault.count, fault.left) == (3, 0)


def test_a_fault_that_is_cancelled_while_a_request_is_counted_ends(server):
    """Another thread may do so between any two steps: here while it looks for the client."""

    class Cancels(str):
        def __ne__(self, other):
            fault.cancel()
            return False

    fault = server.watch.fail("ListGroups", error=15, times=1, client_id=Cancels("tests"))
    response = [ask(server.connect(), "ListGroups", 4, {})["errorCode"] for _ in range(3)]
    assert response == [15, 0, 0]


def test_faults_are_known_by_their_ids_a_thousand_of_those_that_are_over(server):
    endless = server.watch.fail("Heartbeat", error=15, times=None)
    over = [server.watch.fail("Heartbeat", error=15, times=0) for _ in range(1002)]
    assert [endless.id, *(each.id for each in over)] == list(range(1, 1004))
    assert server.watch.fault(1) is endless
    assert [server.watch.fault(number) for number in (2, 3)] == [None, None]
    assert server.watch.fault(4) is over[2]


def test_a_disconnect_closes_without_an_answer(server):
    peer = server.connect()
    server.watch.fail("ApiVersions", disconnect=True)
    peer.send(request("ApiVersions", 0, {}))
    assert peer.connection.closing
    assert not peer.take()
    assert ask(server.connect(), "ApiVersions", 0, {})["errorCode"] == 0


@pytest.mark.parametrize(
    ("api", "how", "expected"),
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
        ("Fetch", {"disconnect": True, "group_id": "g"}, "Fetch, which names no group; these do"),
        ("ListGroups", {"error": 15, "group_id": "g"}, "names no group"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_by_its_name(server, api, how, expected):
    with pytest.raises(ArgumentError, match=expected):
        server.watch.fail(api, **how)


@pytest.mark.parametrize("field", ["delay_ms", "times"])
def test_a_delay_and_a_number_of_requests_are_int32_from_0_on(server, field):
    for value in (0, 2**31 - 1):
        fault = server.watch.fail("Heartbeat", **{"error": 27, field: value})
        assert (fault.left if field == "times" else fault.delay_ms) == value
    for value in (-1, 2**31):
        with pytest.raises(ArgumentError, match=f"{field} must be from 0 to {2**31 - 1}"):
            server.watch.fail("Heartbeat", **{"error": 27, field: value})


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


def test_the_log_of_requests_names_who_sent_each_and_to_which_broker(server):
    server.node.id = 7
    peer = server.connect("sasl")
    peer.connection.client_host = "/10.0.0.9"
    ask(peer, "SaslHandshake", 1, {"mechanism": "PLAIN"})
    ask(peer, "SaslAuthenticate", 2, {"authBytes": b"\0alice\0alice-secret"})
    ask(peer, "ListGroups", 4, {})
    *_, row = server.watch.requests
    who = (row["client_host"], row["principal"], row["client_id"], row["node"])
    assert who == ("/10.0.0.9", "User:alice", "tests", 7)


def test_the_oldest_fault_that_fits_meets_a_request_alone(server):
    peer = server.connect()
    faults = [server.watch.fail("ListGroups", error=error) for error in (15, 16)]
    counts = []
    for error in (15, 16, 0):
        assert ask(peer, "ListGroups", 4, {})["errorCode"] == error
        counts.append([fault.count for fault in faults])
    assert counts == [[1, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("how", [{"error": 15}, {"disconnect": True}])
def test_a_delay_comes_before_an_error_or_the_end(server, how):
    peer = server.connect()
    server.watch.fail("list_groups", delay_ms=500, **how)
    peer.send(request("ListGroups", 4, {}))
    server.run(499)
    assert not peer.take()
    assert not peer.connection.closing
    server.run(1)
    assert peer.connection.closing is ("disconnect" in how)
    if "error" in how:
        assert answer(peer, "ListGroups", 4)["errorCode"] == 15
