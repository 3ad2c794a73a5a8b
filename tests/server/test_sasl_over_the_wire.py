"""SASL on a connection: when it answers, when it closes, and what it never reads."""

import struct

import pytest

from support.server import asking, playing

ALICE, WRONG = b"\0alice\0alice-secret", b"\0alice\0wrong"
SESSIONS = {**playing.BROKER, "connections.max.reauth.ms": 3000}
DELAY_S = 0.1  # connection.failed.authentication.delay.ms


def connect(config=playing.BROKER):
    return playing.Server(config).connect("sasl")


def shake(peer, mechanism="PLAIN", version=1):
    return asking.ask(peer, "SaslHandshake", version, {"mechanism": mechanism})


def enter(peer, token=ALICE):
    return asking.ask(peer, "SaslAuthenticate", 2, {"authBytes": token})


def bare(token):
    return struct.pack(">i", len(token)) + token


def test_a_refusal_comes_after_the_delay_and_what_was_sent_behind_it_is_not_read():
    peer = connect()
    shake(peer)
    peer.send(asking.request("SaslAuthenticate", 1, {"authBytes": WRONG}))
    peer.send(asking.request("SaslAuthenticate", 1, {"authBytes": ALICE}))
    peer.silent(DELAY_S * 0.99)
    peer.server.run(DELAY_S * 1000)
    assert asking.answer(peer, "SaslAuthenticate", 1)["errorCode"] == 58
    peer.closed(0)


@pytest.mark.parametrize("ms", [0, 5000])
def test_the_delay_is_a_setting(ms):
    peer = connect({**playing.BROKER, "connection.failed.authentication.delay.ms": ms})
    shake(peer)
    peer.send(asking.request("SaslAuthenticate", 1, {"authBytes": WRONG}))
    if ms:
        peer.silent(ms / 1000 * 0.99)
    peer.server.run(max(ms, 1))
    assert peer.whole()


@pytest.mark.parametrize(
    ("api", "body", "code"),
    [
        ("Metadata", {"topics": []}, None),
        ("Heartbeat", {"groupId": "g", "generationId": 1, "memberId": "m"}, 34),
        ("FindCoordinator", {"key": "g"}, 34),
        ("SaslHandshake", {"mechanism": "PLAIN"}, 34),
        ("ApiVersions", {}, 34),
    ],
)
def test_another_request_between_tokens_is_answered_in_its_own_form(api, body, code):
    peer = connect()
    shake(peer)
    peer.send(asking.request(api, 1, body))
    response = asking.wire.decode_response(asking.KEY[api], 1, peer.frame(1)).body
    assert response.get("errorCode") == code  # Metadata has none in version 1
    peer.closed(1)


def test_a_request_that_does_not_parse_between_tokens_closes():
    peer = connect()
    shake(peer)
    peer.send(asking.framed(struct.pack(">hhih", 12, 0, 1, -1)))
    peer.closed(1)


def test_bare_tokens_of_scram_lead_in():
    peer = connect()
    shake(peer, "SCRAM-SHA-256", 0)
    peer.send(bare(b"n,,n=alice,r=abc"))
    first = peer.frame(0).decode()
    final, verdict = playing.play().scram("SCRAM-SHA-256", "alice-secret", "n=alice,r=abc", first)
    peer.send(bare(final.encode()))
    assert peer.frame(0).decode() == verdict
    assert peer.connection.principal == "User:alice"
    assert asking.ask(peer, "ListGroups", 0, {})["errorCode"] == 0


def test_a_wrong_bare_token_closes_without_an_answer():
    peer = connect()
    shake(peer, "PLAIN", 0)
    peer.send(bare(WRONG))
    peer.silent(DELAY_S * 0.99)
    peer.closed(1)


def test_another_mechanism_is_closed_at_its_token():
    peer = connect(SESSIONS)
    shake(peer)
    assert enter(peer)["sessionLifetimeMs"] == 3000
    assert shake(peer, "SCRAM-SHA-256")["errorCode"] == 0
    peer.send(asking.request("SaslAuthenticate", 1, {"authBytes": b"n,,n=alice,r=abc"}))
    peer.closed(1)


def test_another_user_is_told_and_closed():
    peer = connect(SESSIONS)
    shake(peer)
    enter(peer)
    shake(peer)
    peer.send(asking.request("SaslAuthenticate", 2, {"authBytes": b"\0bob\0bob-secret"}))
    assert asking.wire.decode_response(36, 2, peer.frame(1)).body["errorCode"] == 58
    peer.closed(1)


def test_a_session_lasts_its_time_by_the_wall():
    peer = connect(SESSIONS)
    shake(peer)
    enter(peer)
    peer.server.cluster.move(peer.server.cluster.now_ms + 10**6)  # the clock is another time
    assert asking.ask(peer, "ListGroups", 0, {})["errorCode"] == 0
    peer.server.cluster.waits.advance(peer.server.cluster.waits.now_ms + 3001)
    peer.send(asking.request("ListGroups", 0, {}))
    peer.closed(0)


@pytest.mark.parametrize(("size", "is_read"), [(524288, True), (524289, False)])
def test_before_authentication_frames_have_a_limit_of_their_own(size, is_read):
    peer = connect({**playing.BROKER, "socket.request.max.bytes": 1000})
    frame = asking.request("SaslHandshake", 1, {"mechanism": "PLAIN"})[4:]
    peer.send(asking.framed(frame + bytes(size - len(frame))))
    if is_read:
        assert asking.answer(peer, "SaslHandshake", 1)["errorCode"] == 0
    else:
        peer.closed(0)


def test_after_authentication_the_limit_is_that_of_the_server():
    peer = connect({**playing.BROKER, "socket.request.max.bytes": 1000})
    shake(peer)
    enter(peer)
    peer.send(struct.pack(">i", 1001))
    peer.closed(0)


def test_the_log_says_whether_a_peer_has_yet_to_authenticate_or_again():
    fresh, later = connect(), connect(SESSIONS)
    fresh.send(asking.request("ListGroups", 0, {}))
    fresh.server.run(100)
    (line,) = fresh.server.log_lines
    assert "ListGroups 0 before its peer authenticated; " in line
    shake(later)
    enter(later)
    shake(later, "SCRAM-SHA-256")
    later.send(asking.request("SaslAuthenticate", 1, {"authBytes": b"n,,n=alice,r=abc"}))
    (line,) = later.server.log_lines
    assert "SaslAuthenticate 1 of a peer that has to authenticate again, by its first " in line
