"""KafkaJS against the server. ``COTERIE_ALL_CLIENTS=1`` tries what takes it seconds too."""

from dataclasses import replace

import pytest
from builds import OTHERS, node, rows
from scenarios import SCENARIOS, play, play_killed

# It has no cooperative assignor and no instance ids; it divides by an assignor of its own, and
# deletes no offsets.
ROUND_ROBIN = [
    {**fact, "protocol": "RoundRobinAssigner"} if "protocol" in fact else fact
    for fact in SCENARIOS["admin"].lacking("left").facts
]
ROWS = rows("cooperative", "static", admin=replace(SCENARIOS["admin"], facts=ROUND_ROBIN))
SLOW = ("admin",)  # altering offsets is a fetch that waits for five seconds


@pytest.fixture(scope="module")
def client():
    return node("kafkajs", ROWS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=OTHERS) if name in SLOW else name for name in ROWS]
)
def test_kafkajs_sees_what_kafka_shows_it(client, name):
    play(client, name)


def test_the_session_of_a_kafkajs_member_that_was_killed_ends_by_the_clock(client):
    play_killed(client)
