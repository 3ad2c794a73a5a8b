"""aiokafka against the server; it has no cooperative assignor and deletes no groups."""

import sys

import pytest

from support.clients import scenarios

pytest.importorskip("aiokafka", reason="aiokafka is not installed")

PROGRAM = scenarios.PROGRAMS / "aiokafka_program.py"
ROWS = {name: row for name, row in scenarios.SCENARIOS.items() if name != "cooperative"}
ROWS["admin"] = ROWS["admin"].lacking("refused", "offsets", "left", "after")
CLIENT = scenarios.Client([sys.executable, PROGRAM], ROWS)


@pytest.mark.parametrize("kafka", scenarios.RELEASES)
@pytest.mark.parametrize("name", CLIENT.rows)
def test_what_the_client_says_is_so(name, kafka):
    scenarios.play(CLIENT, name, kafka=kafka)


def test_a_killed_member_is_gone_when_its_session_is_over():
    scenarios.play_killed(CLIENT)
