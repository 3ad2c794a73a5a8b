"""Answers to a sample of the logs of ``make answers`` equal the recorded ones."""

import pytest

from support.answers.named_logs import sample
from support.answers.recorded import answers, differences, recorded


@pytest.mark.parametrize("name", sample())
def test_a_log_gives_the_recorded_answers(name):
    found, expected = answers(name), recorded()[name]
    assert found == expected, list(differences(name, expected, found))
