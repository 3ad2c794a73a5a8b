"""Kafka's own Java clients against the server: consumer, producer, admin and Streams.

One source for both versions. 4.1.1 is tried in each run; ``COTERIE_ALL_CLIENTS=1`` tries all.
"""

import pytest
from java_clients import VERSIONS, java
from scenarios import SCENARIOS, SETTINGS, TOPIC, Client, play, play_killed

from coterie.server import Broker

COUNTED = [
    {"counts": {"to": 2, "be": 2, "or": 1, "not": 1}},
    {"counts": {"to": 4, "be": 3, "or": 1, "not": 1, "is": 1, "do": 1}},  # from the changelog
    {"internal": ["changelog", "repartition"]},
]


@pytest.fixture(scope="module", params=VERSIONS)
def client(request):
    """The programs with a version of Kafka's jars."""
    return Client(java(request.param, "Scenarios"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_java_client_sees_what_kafka_shows_it(client, name):
    play(client, name)


def test_the_session_of_a_java_member_that_was_killed_ends_by_the_clock(client):
    play_killed(client)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_streams_counts_and_goes_on_from_its_changelog(client, guarantee):
    """Its members never leave: the application that follows waits until their sessions end."""
    with (
        Broker(SETTINGS, topics={TOPIC: 3}, clock="virtual") as broker,
        client.start(broker, "streams", guarantee) as program,
    ):
        told = [program.fact()]
        broker.advance(45000)
        assert [*told, *program.facts()] == COUNTED
