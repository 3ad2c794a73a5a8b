"""franz-go and sarama against the server. ``COTERIE_ALL_CLIENTS=1`` tries sarama too."""

import pytest

from support.clients.builds import OTHERS, go
from support.clients.scenarios import SCENARIOS, play, play_killed


@pytest.fixture(scope="module", params=["franz", pytest.param("sarama", marks=OTHERS)])
def client(request):
    return go(request.param)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_client_in_go_sees_what_kafka_shows_it(client, name):
    play(client, name)


def test_the_session_of_a_member_in_go_that_was_killed_ends_by_the_clock(client):
    play_killed(client)
