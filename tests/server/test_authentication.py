"""The authentication of a connection: what it may do when. Times are those of a list."""

import base64

import pytest

from coterie.server.config import server_config
from coterie.server.ids import Ids
from coterie.server.services.authentication import MECHANISMS, Mechanisms
from coterie.server.services.sasl_refusals import Refused
from coterie.server.services.users import users_of
from coterie.values import Error
from support.server import playing

METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE = 3, 17, 18, 36
USERS = users_of({"alice": "alice-secret", "bob": "bob-secret"})
ALICE, BOB, WRONG = b"\0alice\0alice-secret", b"\0bob\0bob-secret", b"\0alice\0wrong"
ALL_MS = {"connections.max.reauth.ms": 3000}


class Clocked:
    """An authentication with its time."""

    def __init__(self, config=None, listener="sasl_plaintext"):
        self.now_ms = 1000
        settings = server_config(config)
        mechanisms = Mechanisms(USERS, settings, listener, ids=Ids(1), now_ms=lambda: self.now_ms)
        self.own = mechanisms.authentication()

    def begin(self, mechanism="PLAIN", version=1):
        assert self.own.admits(HANDSHAKE)
        return self.own.handshake(mechanism, version)

    def authenticate(self, token):
        assert self.own.admits(AUTHENTICATE)
        assert not self.own.misplaced(AUTHENTICATE)
        return self.own.authenticate(token)


def authenticated(config=None, listener="sasl_plaintext"):
    it = Clocked(config, listener)
    it.begin()
    assert it.authenticate(ALICE).error is Error.NONE
    return it


def test_versions_then_handshake_then_tokens_then_anything():
    it = Clocked()
    assert it.own.admits(VERSIONS)
    it.own.api_versions_answered()
    assert it.begin() is Error.NONE
    assert it.own.principal is None
    assert it.authenticate(ALICE) == (Error.NONE, "", b"", 0)
    assert it.own.principal == "User:alice"
    assert it.own.admits(METADATA)
    assert it.own.admits(VERSIONS)


def test_versions_that_were_refused_may_be_asked_again():
    it = Clocked()
    assert it.own.admits(VERSIONS)
    assert it.own.admits(VERSIONS)


def test_versions_twice_close_at_once():
    it = Clocked()
    it.own.api_versions_answered()
    assert not it.own.admits(VERSIONS)
    assert not it.own.delayed


@pytest.mark.parametrize("key", [METADATA, AUTHENTICATE, 999])
@pytest.mark.parametrize("expected", [False, True])
def test_anything_else_before_the_handshake_closes_after_the_delay(key, expected):
    it = Clocked()
    if expected:
        it.own.api_versions_answered()
    assert not it.own.admits(key)
    assert it.own.delayed


@pytest.mark.parametrize("key", [METADATA, VERSIONS, HANDSHAKE])
def test_between_tokens_any_other_request_is_answered_and_is_the_end(key):
    it = Clocked()
    it.begin()
    assert it.own.admits(key)
    assert it.own.misplaced(key)
    assert it.own.failed
    assert it.own.delayed
    assert not it.own.admits(AUTHENTICATE)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "plain", "SCRAM-SHA-1", "OAUTHBEARER"])
def test_an_unknown_mechanism_is_the_end(mechanism):
    it = Clocked()
    assert it.begin(mechanism) is Error.UNSUPPORTED_SASL_MECHANISM
    assert it.own.failed
    assert it.own.delayed


def test_frames_are_limited_until_it_is_complete():
    it = Clocked()
    assert it.own.max_frame_bytes == 524288  # sasl.server.max.receive.size
    it.begin()
    assert it.own.max_frame_bytes == 524288
    it.authenticate(ALICE)
    assert it.own.max_frame_bytes is None


def test_after_handshake_0_tokens_are_bare():
    it = Clocked()
    it.begin(version=0)
    assert it.own.bare
    assert it.own.token(ALICE) == b""
    assert not it.own.bare
    assert it.own.principal == "User:alice"


@pytest.mark.parametrize(
    ("mechanism", "token", "delayed"),
    [("PLAIN", WRONG, True), ("SCRAM-SHA-256", b"n,,n=nobody,r=abc", False)],
)  # the one is Kafka's own exception, the other Java's, which closes the connection at once
def test_a_bare_token_that_is_wrong_closes_without_an_answer(mechanism, token, delayed):
    it = Clocked()
    it.begin(mechanism, 0)
    refused = it.own.token(token)
    assert isinstance(refused, Refused)
    assert refused.delayed is delayed
    assert it.own.failed


def test_without_a_lifetime_a_second_handshake_is_out_of_place():
    it = authenticated()
    assert it.begin() is Error.ILLEGAL_SASL_STATE
    assert it.own.principal == "User:alice"
    assert it.own.admits(METADATA)


def test_a_session_that_is_over_closes_at_the_next_request():
    it = authenticated(ALL_MS)
    it.now_ms += 3000
    assert it.own.admits(METADATA)
    it.now_ms += 1
    assert not it.own.admits(METADATA)
    assert not it.own.delayed


def test_only_the_last_answer_tells_the_lifetime():
    it = Clocked(ALL_MS)
    it.begin("SCRAM-SHA-512")
    first = it.authenticate(b"n,,n=alice,r=abc")
    assert first.lifetime_ms == 0
    bare, response = "n=alice,r=abc", first.token.decode()
    final, verdict = playing.play().scram("SCRAM-SHA-512", "alice-secret", bare, response)
    assert it.authenticate(final.encode()) == (Error.NONE, "", verdict.encode(), 3000)


def test_authenticating_again_renews_the_session_even_when_it_was_over():
    it = authenticated(ALL_MS)
    it.now_ms += 4000
    assert it.begin() is Error.NONE
    assert it.authenticate(ALICE).lifetime_ms == 3000
    it.now_ms += 3000
    assert it.own.admits(METADATA)


def test_one_second_has_to_pass_between_authentications():
    it = authenticated(ALL_MS)
    it.begin()
    it.authenticate(ALICE)
    for _ in range(2):  # since the last one, not the first
        it.now_ms += 999
        assert it.begin() is Error.ILLEGAL_SASL_STATE
        it.now_ms += 1
        assert it.begin() is Error.NONE
        it.authenticate(ALICE)


@pytest.mark.parametrize("versions", [(0, 1), (1, 0)])
def test_each_handshake_says_whether_its_tokens_are_bare(versions):
    it = Clocked(ALL_MS)
    for version in versions:
        it.now_ms += 1000
        assert it.begin(version=version) is Error.NONE
        assert it.own.bare is (version == 0)
        assert it.own.token(ALICE) == b""


def test_another_mechanism_is_greeted_and_then_closed():
    it = authenticated(ALL_MS)
    assert it.begin("SCRAM-SHA-256") is Error.NONE
    assert not it.own.admits(AUTHENTICATE)
    assert it.own.delayed


def test_another_user_is_refused_by_name():
    it = authenticated(ALL_MS)
    it.begin()
    answer = it.authenticate(BOB)
    assert answer.error is Error.SASL_AUTHENTICATION_FAILED
    message = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert answer.message == message
    assert it.own.failed


def test_a_failure_while_authenticating_again_says_so():
    it = Clocked(ALL_MS)
    it.begin("SCRAM-SHA-256")
    first = it.authenticate(b"n,,n=alice,r=abc").token.decode()
    final, _ = playing.play().scram("SCRAM-SHA-256", "alice-secret", "n=alice,r=abc", first)
    it.authenticate(final.encode())
    it.begin("SCRAM-SHA-256")
    answer = it.authenticate(b"n,,n=nobody,r=abc")
    assert answer.message == (
        "Authentication failed during re-authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (0, 0, 0)),
        (ALL_MS, (3000, 3000, 3000)),
        ({**ALL_MS, "listener.name.sasl_plaintext.connections.max.reauth.ms": 5}, (5, 5, 5)),
        (
            {
                **ALL_MS,
                "listener.name.sasl_ssl.connections.max.reauth.ms": 5,
                "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": 7,
            },
            (3000, 7, 3000),
        ),
    ],
)
def test_the_most_particular_name_says_the_lifetime(config, expected):
    settings = server_config(config)
    mechanisms = Mechanisms(USERS, settings, "sasl_plaintext", ids=Ids(1), now_ms=int)
    assert mechanisms.lifetimes_ms == dict(zip(MECHANISMS, expected, strict=True))


def test_with_a_seed_nonces_and_salts_repeat():
    def first(seed):
        users = users_of({"alice": "alice-secret"})
        mechanisms = Mechanisms(
            users, server_config(None), "sasl_plaintext", ids=Ids(seed), now_ms=int
        )
        return [mechanisms.exchange("SCRAM-SHA-256").respond(b"n,,n=alice,r=abc") for _ in range(2)]

    one, two = first(7)
    assert one != two
    assert [one, two] == first(7)
    assert first(8) != first(7)
    assert len(base64.b64decode(dict(p.split(b"=", 1) for p in one.split(b","))[b"s"])) >= 16


def test_a_wrong_token_is_answered_after_the_delay():
    it = Clocked()
    it.begin()
    assert it.authenticate(WRONG).error is Error.SASL_AUTHENTICATION_FAILED
    assert (it.own.failed, it.own.delayed) == (True, True)


def test_a_refusal_from_outside_fails_as_a_wrong_token_unless_it_is_complete():
    it = Clocked()
    it.begin()
    it.own.refuse()
    assert (it.own.failed, it.own.delayed) == (True, True)
    complete = authenticated()
    complete.own.refuse()
    assert not complete.own.failed
    assert complete.own.admits(METADATA)
