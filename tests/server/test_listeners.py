"""Listeners by Kafka's settings: names, protocols, and what is advertised for each."""

import os

import pytest

from coterie.errors import ArgumentError, ConfigError
from coterie.server import Broker
from coterie.server.listeners import chosen_listeners, listener_names
from coterie.server.net.listener import host_of
from coterie.server.options import Place
from support.server import sockets

MAP = "listener.security.protocol.map"
TWO = {
    "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0,CONTROLLER://:9093",
    "advertised.listeners": "EXTERNAL://localhost:19092,INTERNAL://kafka.test:29092",
    MAP: "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
}


def test_clients_of_a_listener_get_its_advertised_address():
    with Broker(TWO) as broker:
        assert len(set(broker.addresses)) == 2
        assert broker.bootstrap_servers == broker.addresses[0]
        for number, expected in enumerate([("kafka.test", 29092), ("localhost", 19092)]):
            client = sockets.connect(broker, number)
            (node,) = sockets.ask(client, "Metadata", 9, {"topics": []})["brokers"]
            body = {"coordinatorKeys": ["g"], "keyType": 0}
            (found,) = sockets.ask(client, "FindCoordinator", 4, body)["coordinators"]
            assert (node["host"], node["port"]) == expected
            assert (found["host"], found["port"]) == expected


def test_a_named_listener_has_its_protocol_and_its_own_limits():
    config = {
        MAP: "INSIDE:SASL_PLAINTEXT,OUTSIDE:PLAINTEXT",
        "listener.name.outside.max.connections": 0,
    }
    listen = ("INSIDE://127.0.0.1:0", "outside://127.0.0.1:0")
    with Broker(config, listen=listen, sasl_users={"u": "p"}) as broker:
        body = {"mechanism": "PLAIN"}
        inside = sockets.connect(broker)
        assert sockets.ask(inside, "SaslHandshake", 1, body)["errorCode"] == 0
        sockets.connect(broker, 1).closed(10)


def test_an_empty_host_is_every_address_and_advertised_by_the_name_of_the_machine():
    places, advertised = chosen_listeners({"listeners": "PLAINTEXT://:9092"}, ())
    assert places == (Place("plaintext", "0.0.0.0", 9092),)
    own_name = os.uname().nodename
    assert advertised == (Place("plaintext", own_name, 9092),)
    settings = {"listeners": "PLAINTEXT://h:1", "advertised.listeners": "PLAINTEXT://:9"}
    assert chosen_listeners(settings, ())[1] == (Place("plaintext", own_name, 9),)


def test_the_command_line_overrides_listeners_and_keeps_what_is_advertised():
    places, advertised = chosen_listeners(TWO, ["EXTERNAL://127.0.0.1:5"], ["a.test:6"])
    assert [place.port for place in places] == [5]
    assert advertised == (Place("plaintext", "a.test", 6),)


def test_a_listener_that_is_not_advertised_gives_its_own_address():
    settings = {"listeners": "PLAINTEXT://h:1,SSL://h:2", "advertised.listeners": "SSL://k:3"}
    _, advertised = chosen_listeners(settings, ())
    assert advertised == (None, Place("ssl", "k", 3))


def test_names_and_protocols_are_of_any_case_and_lists_may_have_blanks():
    settings = {
        "listeners": " inside://:1 , OUTSIDE://h:2,controller://:9093 ",
        "advertised.listeners": "outside://k:3, Controller://c:9093",
        MAP: "Inside:plaintext, OUTSIDE:Sasl_Ssl,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "Controller",
        "inter.broker.listener.name": "inside",
    }
    places, advertised = chosen_listeners(settings, ())
    assert places == (
        Place("plaintext", "0.0.0.0", 1, "INSIDE"), Place("sasl_ssl", "h", 2, "OUTSIDE"),
    )  # fmt: skip
    own_name = os.uname().nodename
    assert advertised == (
        Place("plaintext", own_name, 1, "INSIDE"), Place("sasl_ssl", "k", 3, "OUTSIDE"),
    )  # fmt: skip
    assert listener_names(settings) >= {"inside", "outside", "controller", "plaintext", "sasl_ssl"}


def test_without_any_listener_the_default_counts_and_nothing_is_advertised():
    assert chosen_listeners({}, (), default="h:5") == ((Place("plaintext", "h", 5),), ())
    places, advertised = chosen_listeners({"listeners": "PLAINTEXT://h:1"}, ["g:2"], default="h:5")
    assert (places, advertised) == ((Place("plaintext", "g", 2),), ())


@pytest.mark.parametrize("count", [0, 1, 3])
def test_each_listener_is_advertised_or_none(count):
    listens, advertises = ["ssl://a:1", "b:2"], [f"c:{number}" for number in range(count)]
    if count:
        with pytest.raises(ArgumentError, match="give one for each listener"):
            chosen_listeners({}, listens, advertises)
    else:
        assert chosen_listeners({}, listens, advertises)[1] == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listeners": "PLAINTEXT://h:1", MAP: ":PLAINTEXT"}, "NAME:PROTOCOL"),
        ({"listeners": "A://h:1"}, "A is no protocol"),
        ({"listeners": "PLAINTEXT//h:1"}, "listeners: an address is"),
        ({"listeners": "PLAINTEXT://h:1", MAP: "PLAINTEXT:TLS"}, "NAME:PROTOCOL"),
        ({"listeners": "PLAINTEXT://h:1", "advertised.listeners": "SSL://h:1"}, "listener SSL"),
        ({"listeners": "PLAINTEXT://h:1", "inter.broker.listener.name": "B"}, "listener B"),
        ({"listeners": "PLAINTEXT://h:1,plaintext://h:2"}, "a name twice"),
    ],
)
def test_listeners_that_do_not_fit_together_are_refused(settings, message):
    with pytest.raises((ArgumentError, ConfigError), match=message):
        chosen_listeners(settings, ())


@pytest.mark.parametrize(
    ("peername", "host"),
    [
        (("127.0.0.1", 1), "/127.0.0.1"),
        (("::1", 1, 0, 0), "/0:0:0:0:0:0:0:1"),
        (("fe80::1%eth0", 1, 0, 2), "/fe80:0:0:0:0:0:0:1"),
    ],
)
def test_the_host_of_a_peer_is_written_as_java_writes_it(peername, host):
    assert host_of(peername) == host
