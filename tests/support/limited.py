"""A virtual clock for tests, which no simulation runs on without an end."""

from coterie.schedule import Schedule

MOST_STEPS = 1_000_000  # far more than a test takes; seconds of a loop in which no time passes


def limited():
    """A clock that stops after so many steps."""
    return Schedule(MOST_STEPS)
