"""Each classic mistake is found and shrunk; its corrected version passes."""

import pytest
from hypothesis import Phase, given, settings

from coterie.testing import histories, random_history
from support.histories.mistakes import CATALOGUE

SMALL = {"topics": {"orders": 3}, "minutes": 4}
ENTRIES = pytest.mark.parametrize("name", CATALOGUE)


def check_corrected(name, seeds):
    entry = CATALOGUE[name]
    for seed in seeds:
        history = random_history(seed, **SMALL, **entry.options)
        outcome = history.run(entry.corrected)
        assert not entry.found(outcome), f"seed {seed}: {history!r}"
        assert not outcome.stuck, f"seed {seed}: {history!r}"


def failing_history(name, *phases):
    """The last history that failed, of at most 1,000 and what they were shrunk to."""
    entry, failing = CATALOGUE[name], []

    @settings(max_examples=1000, derandomize=True, database=None, phases=phases)
    @given(histories(**SMALL, **entry.options))
    def finds(history):
        items = entry.found(history.run(entry.mistaken))
        if items:
            failing.append(history)
        assert not items

    with pytest.raises(AssertionError):
        finds()
    return failing[-1]


@ENTRIES
def test_a_mistake_is_found_within_1000_histories(name):
    assert failing_history(name, Phase.generate).events


@pytest.mark.slow
@ENTRIES
def test_its_history_is_shrunk_to_at_most_12_events(name):
    assert len(failing_history(name, Phase.generate, Phase.shrink).events) <= 12


@ENTRIES
def test_the_corrected_version_passes_20_histories(name):
    check_corrected(name, range(20))


@pytest.mark.slow
@ENTRIES
def test_the_corrected_version_passes_10_000_histories(name):
    check_corrected(name, range(20, 10_000))
