"""SCRAM users described and altered by requests, as ScramImage and ScramControlManager of 3.9."""

import hashlib

import pytest

from coterie.server.api.faults import Watch
from support.server.asking import ask, scram
from support.server.playing import USERS, Server

SHA_256, SHA_512 = 1, 2
UNSUPPORTED_MECHANISM, NOT_FOUND, DUPLICATE, UNACCEPTABLE = 33, 91, 92, 93
TWICE = "A user credential cannot be altered twice in the same request"


@pytest.fixture
def server():
    return Server({})


@pytest.fixture
def peer(server):
    return server.connect()


def describe(peer, *names):
    users = [{"name": name} for name in names] or None
    found = ask(peer, "DescribeUserScramCredentials", 0, {"users": users})
    assert (found["errorCode"], found["errorMessage"]) == (0, "")
    return {
        row["user"]: row["errorCode"]
        or {each["mechanism"]: each["iterations"] for each in row["credentialInfos"]}
        for row in found["results"]
    }


def alter(peer, *, deletions=(), upsertions=()):
    body = {"deletions": list(deletions), "upsertions": list(upsertions)}
    found = ask(peer, "AlterUserScramCredentials", 0, body)
    return {row["user"]: (row["errorCode"], row["errorMessage"]) for row in found["results"]}


def deletion(name, mechanism=SHA_256):
    return {"name": name, "mechanism": mechanism}


def upsertion(name, password="new", mechanism=SHA_256, iterations=4096):
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", max(iterations, 1))
    return {"name": name, "mechanism": mechanism, "iterations": iterations, "salt": b"salt",
            "saltedPassword": salted}  # fmt: skip


def test_all_users_are_described_when_none_is_named(peer):
    both = {SHA_256: 4096, SHA_512: 4096}
    assert describe(peer) == dict.fromkeys(USERS, both)


def test_a_user_named_twice_and_an_unknown_one_get_an_error_each(peer):
    found = describe(peer, "alice", "bob", "bob", "eve")
    assert found == {"alice": {SHA_256: 4096, SHA_512: 4096}, "bob": DUPLICATE, "eve": NOT_FOUND}


def test_a_new_user_can_log_in_and_is_described(server, peer):
    assert scram(server, "carol", "new") == 58
    assert alter(peer, upsertions=[upsertion("carol", iterations=8192)]) == {"carol": (0, None)}
    assert describe(peer, "carol") == {"carol": {SHA_256: 8192}}
    assert scram(server, "carol", "new") == 0


def test_a_new_password_replaces_the_old_one(server, peer):
    assert scram(server, "alice", "alice-secret") == 0
    alter(peer, upsertions=[upsertion("alice")])
    assert scram(server, "alice", "new") == 0
    assert scram(server, "alice", "alice-secret") == 58


def test_a_deleted_credential_lets_nobody_in_and_the_other_mechanism_stays(server, peer):
    assert alter(peer, deletions=[deletion("alice")]) == {"alice": (0, None)}
    assert describe(peer, "alice") == {"alice": {SHA_512: 4096}}
    assert scram(server, "alice", "alice-secret") == 58
    assert alter(peer, deletions=[deletion("alice")])["alice"][0] == NOT_FOUND


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (upsertion("carol", iterations=4095), (UNACCEPTABLE, "Too few iterations")),
        (upsertion("carol", iterations=16385), (UNACCEPTABLE, "Too many iterations")),
        (upsertion(""), (UNACCEPTABLE, "Username must not be empty")),
        (upsertion("carol", mechanism=3), (UNSUPPORTED_MECHANISM, "Unknown SCRAM mechanism")),
    ],
)
def test_a_wrong_change_is_refused_and_the_others_are_made(peer, change, error):
    found = alter(peer, upsertions=[change, upsertion("dave")])
    assert found == {change["name"]: error, "dave": (0, None)}
    assert describe(peer).keys() == {*USERS, "dave"}


def test_a_user_altered_twice_in_a_request_stays_as_it_was(server, peer):
    found = alter(peer, deletions=[deletion("alice")], upsertions=[upsertion("alice")])
    assert found == {"alice": (DUPLICATE, TWICE)}
    assert scram(server, "alice", "alice-secret") == 0


def test_the_salted_password_is_not_in_the_list_of_requests():
    server = Server({})
    watch = server.dispatcher.observer = Watch(server.cluster)
    alter(server.connect(), upsertions=[upsertion("carol")])
    assert watch.requests[-1]["body"] == {}


def test_all_users_are_described_in_the_order_of_their_names(peer):
    alter(peer, upsertions=[upsertion("dave"), upsertion("aaron")])
    assert list(describe(peer)) == ["aaron", *sorted(USERS), "dave"]
