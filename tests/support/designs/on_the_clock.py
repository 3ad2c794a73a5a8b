"""Simulations that are watched while their time passes."""

from coterie.schedule import Schedule

MOST_STEPS = 300_000  # far more than a test takes; a second of a loop in which no time passes


def limited():
    """A clock that stops a simulation which goes on without an end."""
    return Schedule(MOST_STEPS)


def requests_at(simulation, *times_ms):
    """Run a simulation; return how many requests it had made by each of the times."""
    found = []
    for at_ms in times_ms:
        simulation.run_until(at_ms)
        found.append(simulation.costs.requests)
    return found
