"""confluent-kafka, which is librdkafka, against the server."""

import sys

import pytest

from support.clients import scenarios

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

PROGRAM = scenarios.PROGRAMS / "confluent_program.py"
# Its admin client deletes no single offsets of a group.
ROWS = {**scenarios.SCENARIOS, "admin": scenarios.SCENARIOS["admin"].lacking("left")}
CLIENT = scenarios.Client([sys.executable, PROGRAM], ROWS)


CONSUMER = CLIENT.of_the_consumer_protocol()


@pytest.mark.parametrize("kafka", scenarios.RELEASES)
@pytest.mark.parametrize("name", CLIENT.rows)
def test_what_the_client_says_is_so(name, kafka):
    scenarios.play(CLIENT, name, kafka=kafka)


def test_a_killed_member_is_gone_when_its_session_is_over():
    scenarios.play_killed(CLIENT)


@pytest.mark.parametrize("kafka", scenarios.CONSUMER_RELEASES)
@pytest.mark.parametrize("name", CONSUMER.rows)
def test_what_a_member_of_a_consumer_group_says_is_so(name, kafka):
    scenarios.play(CONSUMER, name, scenarios.CONSUMER_SETTINGS, kafka=kafka)


@pytest.mark.parametrize("kafka", scenarios.CONSUMER_RELEASES)
@pytest.mark.parametrize("name", scenarios.CLOCKED)
def test_what_a_member_of_a_consumer_group_says_when_the_clock_moves_is_so(name, kafka):
    scenarios.play_clocked(CONSUMER, name, kafka)


@pytest.mark.parametrize("kafka", scenarios.CONSUMER_RELEASES)
def test_a_killed_member_of_a_consumer_group_is_gone_when_its_session_is_over(kafka):
    scenarios.play_killed(CONSUMER, settings=scenarios.CONSUMER_SETTINGS, kafka=kafka)
