"""A broker made of what it does not take: one line says so, and nothing of the caller's is closed.

None is started here: what is made has no socket and no thread yet."""

import os
import ssl

import pytest

from coterie import ArgumentError, CoterieError
from coterie.errors import shown
from coterie.server import Broker
from coterie.server.net.tls import server_context
from coterie.server.services.users import read_users
from support.hostile import ARRAYS, OF_NUMPY_1, PLAIN, Walk, check

pytestmark = OF_NUMPY_1

VALUES = (*PLAIN, *ARRAYS)


def of_one_line(error):
    return "\n" not in str(error) and len(str(error)) < 400


def test_what_a_broker_does_not_take_it_refuses_with_an_error_of_ours():
    walk = Walk({}, VALUES)
    walk.call("Broker", Broker, (CoterieError,))
    check(walk)


WITHIN = {
    "users": lambda value: {"sasl_users": {"u": value}},
    "a password": lambda value: {"sasl_users": {"u": {"password": value}}},
    "a mechanism": lambda value: {"sasl_users": {"u": {"password": "p", "scram-sha-256": value}}},
    "a salt": lambda value: {
        "sasl_users": {"u": {"password": "p", "scram-sha-256": {"salt": value}}}
    },
    "iterations": lambda value: {
        "sasl_users": {"u": {"password": "p", "scram-sha-512": {"iterations": value}}}
    },
    "a certificate": lambda value: {"tls": {"cert": value, "key": value}},
    "a client CA": lambda value: {"tls": {"cert": "/", "key": "/", "client_ca": value}},
    "topics": lambda value: {"topics": [value]},
    "partitions": lambda value: {"topics": {"t": value}},
    "addresses": lambda value: {"listen": [value]},
    "a setting": lambda value: {"config": {"num.partitions": value}},
}


@pytest.mark.parametrize("within", WITHIN.values(), ids=WITHIN)
def test_what_a_mapping_for_a_broker_does_not_take_is_refused_with_an_error_of_ours(within):
    walk = Walk({}, VALUES)
    for value in VALUES:
        walk.run("Broker", (CoterieError,), lambda v=value: Broker(**within(v())))
    check(walk)


@pytest.mark.parametrize("key", [5, None, 10**5000, "\ud800", ("a",)], ids=shown)
def test_a_name_that_users_do_not_have_is_told_in_one_line(key):
    for users in (
        {key: "p"},
        {"u": {key: "p"}},
        {"u": {"password": "p", "scram-sha-256": {key: 5}}},
    ):
        with pytest.raises(ArgumentError) as refused:
            Broker(sasl_users=users)
        assert of_one_line(refused.value)


@pytest.fixture
def descriptor(tmp_path):
    """The number of a file that the caller has open."""
    path = tmp_path / "open"
    path.write_bytes(b"")
    path.chmod(0o600)
    number = os.open(path, os.O_RDONLY)
    yield number
    os.close(number)


TAKES_A_FILE = {
    "sasl_users": lambda file: Broker(sasl_users=file),
    "trace": lambda file: Broker(trace=file),
    "cert": lambda file: Broker(tls={"cert": file, "key": "k"}),
    "key": lambda file: Broker(tls={"cert": "c", "key": file}),
    "client_ca": lambda file: Broker(tls={"cert": "c", "key": "k", "client_ca": file}),
    "read_users": read_users,
    "server_context": lambda file: server_context(file, file),
}


@pytest.mark.parametrize("give", TAKES_A_FILE.values(), ids=TAKES_A_FILE)
def test_a_number_is_no_file_and_the_descriptor_of_that_number_stays_open(give, descriptor):
    for given in (descriptor, True, b"/", bytearray(b"/"), 1.5, "a\0b", "\ud800"):
        with pytest.raises(ArgumentError, match=r"path") as refused:
            give(given)
        assert of_one_line(refused.value)
    os.fstat(descriptor)


WRONG = {
    "clock": ({"clock": [1]}, "clock must be one of 'wall', 'virtual', 'auto', not [1]"),
    "no address": ({"listen": []}, "listen must name an address, but names none"),
    "listen": ({"listen": 5}, "listen must be addresses, not 5"),
    "topics": ({"topics": 5}, "topics must be {name: partitions}, not 5"),
    "topics of lists": ({"topics": [["t"]]}, "topics must be {name: partitions}, not of ['t']"),
    "a listener without its TLS": (
        {"listen": "ssl://127.0.0.1:0"},
        "a listener with TLS needs tls",
    ),
    "a lone surrogate": (
        {"sasl_users": {"u": "\ud800"}},
        "users.u.password must be text, but has a surrogate that stands alone: '\\ud800'",
    ),
    "trace": ({"trace": 1}, "trace must be the path of a file, not 1"),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_of_a_broker_is_named(given, message):
    with pytest.raises(ArgumentError) as refused:
        Broker(**given)
    assert str(refused.value) == message


def test_a_context_of_the_callers_own_serves_listeners_with_tls():
    assert Broker(listen="ssl://127.0.0.1:0", tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
