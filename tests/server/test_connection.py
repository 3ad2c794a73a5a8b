"""A connection without a socket: frames in any pieces, answers in order, and the end."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import CoterieError
from coterie.server.api.lookup import handler_of
from coterie.server.api.table import SERVED
from support.server.asking import (
    ask,
    correlation_ids,
    framed,
    frames_of,
    heartbeat,
    joining,
    member,
    request,
)
from support.server.playing import Server

VERSIONS = request("ApiVersions", 0, {}, correlation_id=7)


@pytest.fixture
def server():
    return Server({"group.initial.rebalance.delay.ms": 0})


def test_every_row_of_the_table_has_its_function():
    assert not [row.name for row in SERVED.values() if handler_of(row.key) is None]


@given(cuts=st.lists(st.integers(0, 3 * len(VERSIONS)), max_size=12))
def test_where_the_bytes_are_cut_changes_no_answer(cuts):
    sent = b"".join(request("ApiVersions", 0, {}, correlation_id=n) for n in range(3))
    peer = Server().connect()
    bounds = [0, *sorted(cuts), len(sent)]
    for start, stop in pairwise(bounds):
        peer.send(sent[start:stop])
    assert correlation_ids(peer.take()) == [0, 1, 2]


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1, 104857601])
def test_a_frame_of_such_a_length_closes_before_its_bytes_come(server, size):
    peer = server.connect()
    peer.send(VERSIONS + struct.pack(">i", size))
    assert correlation_ids(peer.take()) == [7]
    assert peer.connection.closing


@pytest.mark.parametrize("api", ["ApiVersions", "Heartbeat"])  # one is answered by the core
def test_a_frame_has_at_most_socket_request_max_bytes(api):
    body = heartbeat("g", "m", 1) if api == "Heartbeat" else {}
    sent = request(api, 0, body)
    for most, answers in ((len(sent) - 4, 1), (len(sent) - 5, 0)):
        server = Server({"socket.request.max.bytes": most})
        peer = server.connect()
        peer.send(sent)
        assert len(frames_of(peer.take())) == answers
        assert peer.connection.closing is (answers == 0)


def test_a_frame_needs_the_four_bytes_of_a_key_and_a_version(server):
    for frame, reason in (
        (b"\0\x12\0", "a frame that is too short for a header"),
        (b"\0\x12\0\0", "ApiVersions 0 does not parse"),
    ):
        lines = Server()
        peer = lines.connect()
        peer.send(framed(frame))
        assert peer.connection.closing
        assert reason in lines.log_lines[0]


def test_a_wrong_frame_behind_one_that_waits_is_seen_once_that_is_answered(server):
    first, second = server.connect(), server.connect()
    member_id, _ = member(first, "g")
    second.send(request("JoinGroup", 3, joining("g")) + struct.pack(">i", -1))
    assert not second.take()
    assert not second.connection.closing
    ask(first, "LeaveGroup", 0, {"groupId": "g", "memberId": member_id})
    assert len(frames_of(second.take())) == 1
    assert second.connection.closing


def test_what_waits_holds_back_what_was_sent_behind_it_and_nothing_elsewhere(server):
    first, second = server.connect(), server.connect()
    member_id, generation = member(first, "g")
    second.send(request("JoinGroup", 3, joining("g"), correlation_id=1))
    second.send(request("ApiVersions", 0, {}, correlation_id=2))
    response = ask(first, "Heartbeat", 0, heartbeat("g", member_id, generation))
    assert response["errorCode"] == 27  # REBALANCE_IN_PROGRESS
    assert not second.take()
    first.send(request("JoinGroup", 3, joining("g", member_id)))
    assert correlation_ids(second.take()) == [1, 2]


def test_a_peer_that_does_not_read_has_no_more_requests_handled(server):
    peer = server.connect()
    peer.connection.write_paused = True
    peer.send(VERSIONS)
    assert not peer.take()
    peer.connection.write_paused = False
    peer.connection.go_on()
    assert correlation_ids(peer.take()) == [7]


@pytest.mark.parametrize(
    ("version", "tags", "answered"),
    [
        (99, b"\0", True),
        (99, b"", False),
        (99, b"\1", False),
        (99, b"\1\0\5", False),
        (-5, b"", True),
    ],
)
def test_an_unknown_version_of_api_versions_has_the_header_of_the_last(
    server, version, tags, answered
):
    """Below 0 it has that of the first: no tagged fields (ApiKeys.requestHeaderVersion)."""
    peer = server.connect()
    peer.send(framed(struct.pack(">hhih", 18, version, 7, -1) + tags))
    assert correlation_ids(peer.take()) == [7] * answered
    assert peer.connection.closing == (not answered)


def test_nothing_is_answered_after_the_end(server):
    peer = server.connect()
    peer.send(framed(b"\0\5\0\0\0\0\0\0") + VERSIONS)  # a key that no listener serves
    peer.send(VERSIONS)
    assert peer.connection.closing
    assert not peer.take()


def test_a_member_outlives_its_connection_until_its_session_ends(server):
    first, second = server.connect(), server.connect()
    member(first, "g")
    first.leave()
    server.run(29_000)
    described = ask(second, "DescribeGroups", 0, {"groups": ["g"]})["groups"][0]
    assert described["groupState"] == "Stable"
    server.run(1_001)
    described = ask(second, "DescribeGroups", 0, {"groups": ["g"]})["groups"][0]
    assert described["groupState"] == "Empty"


def test_a_join_over_a_second_connection_is_answered_there_alone(server):
    other, first, second = (server.connect() for _ in range(3))
    member_id, _ = member(other, "g")
    response = ask(first, "JoinGroup", 4, joining("g"))
    assert response["errorCode"] == 79  # MEMBER_ID_REQUIRED
    again = request("JoinGroup", 4, joining("g", response["memberId"]))
    first.send(again)
    second.send(again)
    other.send(request("JoinGroup", 3, joining("g", member_id)))
    assert len(frames_of(second.take())) == 1
    server.run(60_000)
    assert not first.take()
    assert not first.connection.closing


def test_a_handler_that_fails_closes_its_connection_and_says_so(server):
    peer, other = server.connect(), server.connect()

    def broken(*asked):
        raise RuntimeError("broken")

    server.cluster.groups.ask_row = broken
    peer.send(request("LeaveGroup", 0, {"groupId": "g", "memberId": "m"}))
    assert peer.connection.closing
    assert "LeaveGroup" in server.log_lines[0]
    assert 'raise RuntimeError("broken")' in server.log_lines[1]  # where, for each kind once
    server.connect().send(request("LeaveGroup", 0, {"groupId": "g", "memberId": "m"}))
    assert ["LeaveGroup" in line for line in server.log_lines] == [True, False, True]
    assert ask(other, "ApiVersions", 0, {})["errorCode"] == 0


def test_a_call_is_answered_once(server):
    peer = server.connect()
    calls = []
    server.dispatcher.observer = lambda call, handler: calls.append(call)
    peer.send(VERSIONS)
    calls[0].answer({})
    with pytest.raises(CoterieError, match="once"):
        calls[0].answer({})


def test_a_lost_connection_has_nothing_to_write(server):
    peer, calls = server.connect(), []
    peer.connection.write_paused = True
    peer.send(VERSIONS)
    peer.connection.on_output = lambda: calls.append("output")
    peer.leave()
    assert not calls


def test_what_is_answered_to_a_peer_that_is_gone_is_lost(server):
    peer = server.connect()
    peer.send(VERSIONS)
    calls = []
    server.dispatcher.observer = lambda call, handler: calls.append(call)
    peer.send(VERSIONS)
    peer.leave()
    calls[0].answer({})
    assert not peer.take()
