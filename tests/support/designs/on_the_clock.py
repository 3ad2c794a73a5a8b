"""Simulations that are watched while their time passes."""


def requests_at(simulation, *times_ms):
    """Run a simulation; return how many requests it had made by each of the times."""
    found = []
    for at_ms in times_ms:
        simulation.run_until(at_ms)
        found.append(simulation.costs.requests)
    return found
