"""Each classic mistake is found and shrunk; its corrected version passes."""

import pytest
from hypothesis import given, settings

from coterie.testing import histories, random_history
from support.histories.mistakes import CATALOGUE

SMALL = {"topics": {"orders": 3}, "minutes": 4}
ENTRIES = pytest.mark.parametrize("name", CATALOGUE)


def drawn(seed, entry):
    return random_history(seed, **SMALL, **entry.options)


def check_corrected(name, seeds):
    entry = CATALOGUE[name]
    for seed in seeds:
        history = drawn(seed, entry)
        outcome = history.run(entry.corrected)
        assert not entry.found(outcome), f"seed {seed}: {history!r}"
        assert not outcome.stuck, f"seed {seed}: {history!r}"


@ENTRIES
def test_a_mistake_is_found_within_1000_histories_and_shrunk_to_at_most_12_events(name):
    entry, failing = CATALOGUE[name], []

    @settings(max_examples=1000, derandomize=True, database=None)
    @given(histories(**SMALL, **entry.options))
    def finds(history):
        items = entry.found(history.run(entry.mistaken))
        if items:
            failing.append(history)
        assert not items

    with pytest.raises(AssertionError):
        finds()
    assert len(failing[-1].events) <= 12


@ENTRIES
def test_the_corrected_version_passes_200_histories(name):
    check_corrected(name, range(200))


@pytest.mark.slow
@ENTRIES
def test_the_corrected_version_passes_10_000_histories(name):
    check_corrected(name, range(200, 10_000))
