"""franz-go and sarama against the server. ``COTERIE_ALL_CLIENTS=1`` tries sarama too."""

from dataclasses import replace

import pytest

from support.clients.builds import OTHERS, go
from support.clients.scenarios import (
    CLOCKED,
    CONSUMER_RELEASES,
    CONSUMER_SCENARIOS,
    CONSUMER_SETTINGS,
    RELEASES,
    SCENARIOS,
    play,
    play_clocked,
    play_killed,
)

SHORT_SESSION = {
    "group.consumer.min.session.timeout.ms": 3_000,
    "group.consumer.session.timeout.ms": 3_000,
}


@pytest.fixture(scope="module", params=["franz", pytest.param("sarama", marks=OTHERS)])
def client(request):
    return go(request.param)


@pytest.fixture(scope="module")
def consumers():
    """franz-go, whose members speak the consumer protocol; it resolves expressions itself.

    A static member of franz-go 1.22 leaves without its instance id, which is INVALID_REQUEST as in
    Kafka. So it comes back once its session has ended, and whether its group is reconciled when the
    program ends depends on its last heartbeat.
    """
    client = go("franz").of_the_consumer_protocol()
    return replace(
        client, rows=client.rows | {"static": replace(client.rows["static"], state=None)}
    )


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_client_in_go_sees_what_kafka_shows_it(client, name, kafka):
    play(client, name, kafka=kafka)


@pytest.mark.parametrize("kafka", CONSUMER_RELEASES)
@pytest.mark.parametrize("name", CONSUMER_SCENARIOS)
def test_a_member_of_a_consumer_group_in_go_sees_what_kafka_shows_it(consumers, name, kafka):
    play(consumers, name, CONSUMER_SETTINGS | SHORT_SESSION, kafka=kafka)


@pytest.mark.parametrize("kafka", CONSUMER_RELEASES)
@pytest.mark.parametrize("name", CLOCKED)
def test_a_member_of_a_consumer_group_in_go_follows_the_clock(consumers, name, kafka):
    play_clocked(consumers, name, kafka)


@pytest.mark.parametrize("kafka", CONSUMER_RELEASES)
def test_the_session_of_a_member_of_a_consumer_group_in_go_that_was_killed_ends_by_the_clock(
    consumers, kafka
):
    play_killed(consumers, settings=CONSUMER_SETTINGS, kafka=kafka)


def test_the_session_of_a_member_in_go_that_was_killed_ends_by_the_clock(client):
    play_killed(client)
