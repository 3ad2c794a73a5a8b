"""Each failed login is one line in the log with peer, mechanism, user and reason."""

import pytest

from coterie.server.rate_limited_log import EVERY_MS
from support.server.asking import answer, ask, authenticate, request, scram
from support.server.playing import Server

LINE = "/127.0.0.1: authentication failed"


@pytest.fixture
def server():
    return Server({})


def plain(server, token):
    peer = server.connect("sasl")
    ask(peer, "SaslHandshake", 1, {"mechanism": "PLAIN"})
    return authenticate(server, peer, token)["errorCode"]


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"\0alice\0wrong", "for user 'alice' with PLAIN: wrong password"),
        (b"\0eve\0x", "for user 'eve' with PLAIN: no such user, or none with a password"),
        (b"\0a\r\nb\0x", r"for user 'a\r\nb' with PLAIN: no such user, or none with a password"),
        (b"alice", "with PLAIN: Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_a_failed_plain_login_is_logged_with_its_cause_and_without_the_password(
    server, token, reason
):
    assert plain(server, token) == 58
    assert server.log_lines == [f"{LINE} {reason}"]


@pytest.mark.parametrize(
    ("user", "reason"),
    [("alice", "wrong password"), ("eve", "no such user, or none with a SCRAM credential")],
)
def test_a_failed_scram_login_is_logged_with_its_cause(server, user, reason):
    assert scram(server, user, "wrong") == 58
    assert server.log_lines == [f"{LINE} for user '{user}' with SCRAM-SHA-256: {reason}"]


def test_an_unknown_mechanism_is_logged_escaped(server):
    peer = server.connect("sasl")
    peer.send(request("SaslHandshake", 1, {"mechanism": "GSS\nAPI"}))
    server.run(100)
    assert answer(peer, "SaslHandshake", 1)["errorCode"] == 33
    assert server.log_lines == [rf"{LINE} with 'GSS\nAPI': the mechanism is not supported"]


def test_more_failed_logins_within_ten_seconds_are_only_counted(server):
    for _ in range(5):
        plain(server, b"\0alice\0wrong")
    assert len(server.log_lines) == 1
    server.run(EVERY_MS)
    assert len(server.log_lines) == 2
    assert server.log_lines[1].startswith("4 more like that in 10 s, the last: /127.0.0.1: auth")


def test_a_successful_login_is_not_logged(server):
    assert plain(server, b"\0alice\0alice-secret") == 0
    assert scram(server, "alice", "alice-secret") == 0
    assert server.log_lines == []
