"""A virtual clock for tests, which no simulation runs on without an end."""

from coterie.base.schedule import Schedule

MOST_STEPS = 100_000  # far more than a test takes


def limited():
    """A clock that stops after so many steps."""
    return Schedule(MOST_STEPS)
