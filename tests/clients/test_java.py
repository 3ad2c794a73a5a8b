"""Kafka's own Java clients against the server: consumer, producer, admin and Streams.

One source for both versions. 4.1.1 is tried in each run; ``COTERIE_ALL_CLIENTS=1`` tries all.
"""

import os

import pytest
from java_clients import java
from scenarios import SCENARIOS, Client, Scenario, play, play_killed

ALL = bool(os.environ.get("COTERIE_ALL_CLIENTS"))
OTHERS = pytest.mark.skipif(not ALL, reason="needs COTERIE_ALL_CLIENTS=1")
VERSIONS = ["4.1.1", pytest.param("3.9.1", marks=OTHERS)]
COUNTED = [
    {"counts": {"to": 2, "be": 2, "or": 1, "not": 1}},
    {"counts": {"to": 4, "be": 3, "or": 1, "not": 1, "is": 1, "do": 1}},  # from the changelog
    {"internal": ["changelog", "repartition"]},
]
STREAMS = {
    f"streams {guarantee}": Scenario("streams", COUNTED, (guarantee,))
    for guarantee in ("at_least_once", "exactly_once_v2")
}


@pytest.fixture(scope="module", params=VERSIONS)
def client(request):
    """The programs with a version of Kafka's jars."""
    return Client(java(request.param, "Scenarios"), {**SCENARIOS, **STREAMS})


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_java_client_sees_what_kafka_shows_it(client, name):
    play(client, name)


def test_the_session_of_a_java_member_that_was_killed_ends_by_the_clock(client):
    play_killed(client)


@pytest.mark.parametrize("name", STREAMS)
def test_streams_counts_and_goes_on_from_its_changelog(client, name):
    play(client, name)
