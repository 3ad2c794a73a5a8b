"""Today's coordinator under the ops of a scenario: coterie's own, with scripted members.

``coordinator`` is the library's, with a count of requests; ``log`` is the log that brokers write
and load, ``leaders`` the leaders of its partitions; ``consumer`` is a fetching member of
``coterie.testing``; ``simulation`` has the clock, and schedules the next action of each of them.
"""

from coterie.designs.today.simulation import TodaySimulation, play

__all__ = ["TodaySimulation", "play"]
