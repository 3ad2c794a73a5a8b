"""kafka-python against the server."""

import sys
from dataclasses import replace

import pytest

from support.clients import scenarios

pytest.importorskip("kafka", reason="kafka-python is not installed")

PROGRAM = scenarios.PROGRAMS / "kafka_python_program.py"
# A poll that ends while it joins makes it join again, so its groups have more generations.
ROWS = {**scenarios.SCENARIOS, "static": replace(scenarios.SCENARIOS["static"], generation=None)}
CLIENT = scenarios.Client([sys.executable, PROGRAM], ROWS)


@pytest.mark.parametrize("kafka", scenarios.RELEASES)
@pytest.mark.parametrize("name", CLIENT.rows)
def test_what_the_client_says_is_so(name, kafka):
    scenarios.play(CLIENT, name, kafka=kafka)


def test_a_killed_member_is_gone_when_its_session_is_over():
    scenarios.play_killed(CLIENT)
