"""confluent-kafka, which is librdkafka, against the server."""

import sys

import pytest

from support.clients import scenarios

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

PROGRAM = scenarios.PROGRAMS / "confluent_program.py"
# Its admin client deletes no single offsets of a group.
ROWS = {**scenarios.SCENARIOS, "admin": scenarios.SCENARIOS["admin"].lacking("left")}
CLIENT = scenarios.Client([sys.executable, PROGRAM], ROWS)


@pytest.mark.parametrize("name", CLIENT.rows)
def test_what_the_client_says_is_so(name):
    scenarios.play(CLIENT, name)


def test_a_killed_member_is_gone_when_its_session_is_over():
    scenarios.play_killed(CLIENT)
