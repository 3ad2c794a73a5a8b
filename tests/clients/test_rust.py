"""rdkafka, Rust's librdkafka, against the server: with ``COTERIE_ALL_CLIENTS=1``.

Its first build compiles librdkafka, which takes minutes.
"""

import pytest

from support.clients.builds import OTHERS, rows, rust
from support.clients.scenarios import RELEASES, SCENARIOS, play, play_killed

pytestmark = OTHERS
ROWS = rows(admin=SCENARIOS["admin"].lacking("left"))  # it deletes no offsets


@pytest.fixture(scope="module")
def client():
    return rust("rdkafka", ROWS)


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize("name", ROWS)
def test_rdkafka_sees_what_kafka_shows_it(client, name, kafka):
    play(client, name, kafka=kafka)


def test_the_session_of_an_rdkafka_member_that_was_killed_ends_by_the_clock(client):
    play_killed(client)
