"""Answers are those that are recorded: a sample of the logs that ``make answers`` asks."""

import pytest

from support.answers.asked_logs import sample
from support.answers.recorded import answers, differences, recorded


@pytest.mark.parametrize("name", sample())
def test_a_log_gives_the_recorded_answers(name):
    found, expected = answers(name), recorded()[name]
    assert found == expected, list(differences(name, expected, found))
