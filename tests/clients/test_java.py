"""Kafka's own Java clients against the server: consumer, producer, admin and Streams.

One source for all versions. The newest is tried in each run; ``COTERIE_ALL_CLIENTS=1`` tries all.
"""

import os
import ssl
from dataclasses import replace

import pytest
import trustme

from coterie.server import Broker
from support.clients.java_clients import NEWEST, OTHERS, VERSIONS, java
from support.clients.scenarios import (
    CLOCKED,
    CONSUMER_RELEASES,
    CONSUMER_SCENARIOS,
    CONSUMER_SETTINGS,
    RELEASES,
    SCENARIOS,
    SETTINGS,
    TOPIC,
    Client,
    play,
    play_clocked,
    play_killed,
)

COUNTED = [
    {"counts": {"to": 2, "be": 2, "or": 1, "not": 1}},
    {"counts": {"to": 4, "be": 3, "or": 1, "not": 1, "is": 1, "do": 1}},  # from the changelog
    {"internal": ["changelog", "repartition"]},
]
MECHANISMS = [
    "SCRAM-SHA-512",
    *(pytest.param(each, marks=OTHERS) for each in ("SCRAM-SHA-256", "PLAIN")),
]


@pytest.fixture(scope="module", params=VERSIONS)
def client(request):
    """The programs with a version of Kafka's jars."""
    return Client(java(request.param, "Scenarios"))


@pytest.fixture(scope="module")
def consumers():
    """The programs with the newest jars, whose members speak the consumer protocol."""
    return Client(java(NEWEST, "Scenarios")).of_the_consumer_protocol()


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_java_client_sees_what_kafka_shows_it(client, name, kafka):
    play(client, name, kafka=kafka)


@pytest.mark.parametrize("kafka", CONSUMER_RELEASES)
@pytest.mark.parametrize("name", CONSUMER_SCENARIOS)
def test_a_java_member_of_a_consumer_group_sees_what_kafka_shows_it(consumers, name, kafka):
    play(consumers, name, CONSUMER_SETTINGS, kafka=kafka)


@pytest.mark.parametrize("kafka", CONSUMER_RELEASES)
@pytest.mark.parametrize("name", CLOCKED)
def test_a_java_member_of_a_consumer_group_follows_the_clock(consumers, name, kafka):
    play_clocked(consumers, name, kafka)


@pytest.mark.parametrize("kafka", CONSUMER_RELEASES)
def test_the_session_of_a_java_member_of_a_consumer_group_that_was_killed_ends_by_the_clock(
    consumers, kafka
):
    play_killed(consumers, settings=CONSUMER_SETTINGS, kafka=kafka)


def test_the_session_of_a_java_member_that_was_killed_ends_by_the_clock(client):
    play_killed(client)


@pytest.mark.parametrize("name", ["share_group", "streams_group"])
def test_a_group_that_the_server_does_not_have_is_refused_to_its_java_member(name):
    client = Client(java(NEWEST, "Scenarios"))
    with (
        Broker(SETTINGS, topics={TOPIC: 1}, kafka="4.4") as broker,
        client.start(broker, name) as program,
    ):
        assert program.facts() == [{"refused": "UnsupportedVersionException"}]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_streams_counts_and_goes_on_from_its_changelog(client, guarantee):
    """Its members never leave: the application that follows waits until their sessions end."""
    with (
        Broker(SETTINGS, topics={TOPIC: 3}, clock="virtual") as broker,
        client.start(broker, "streams", guarantee) as program,
    ):
        facts = [program.fact()]
        broker.advance(45000)
        assert [*facts, *program.facts()] == COUNTED


def test_a_producer_is_fenced_by_the_next_one_of_its_transactional_id(client):
    with (
        Broker(SETTINGS, topics={TOPIC: 1}) as broker,
        client.start(broker, "fence") as program,
    ):
        assert program.facts() == [
            {"first": "PRODUCER_FENCED"},
            {"second": "NONE"},
            {"read": ["second"]},
        ]


def test_a_transaction_of_a_java_producer_times_out_by_the_clock(client):
    with (
        Broker(SETTINGS, topics={TOPIC: 1}, clock="virtual") as broker,
        client.start(broker, "time-out") as program,
    ):
        assert program.fact() == {"open": True}
        broker.advance(70_000)  # the time of the transaction, and of the search for late ones
        assert program.facts() == [{"commit": "PRODUCER_FENCED"}, {"read": []}]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_java_member_comes_in_over_tls_with_a_password(client, mechanism, tmp_path):
    authority, listen = trustme.CA(), "sasl_ssl://127.0.0.1:0"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    security = [
        "security.protocol=SASL_SSL",
        f"sasl.mechanism={mechanism}",
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        'username="alice" password="alice-secret";',
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={tmp_path / 'ca.pem'}",
    ]
    secured = replace(client, environment={**os.environ, "SECURITY": "\n".join(security)})
    how = {"listen": listen, "sasl_users": {"alice": "alice-secret"}, "tls": context}
    with (
        Broker(SETTINGS, topics={TOPIC: 3}, **how) as broker,
        secured.start(broker, "join") as program,
    ):
        assert program.facts() == [{"assigned": [0, 1, 2]}]
        assert {each["principal"] for each in broker.requests() if each["api"] == "JoinGroup"} == {
            "User:alice"
        }
