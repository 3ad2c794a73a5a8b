"""Today's coordinator under the ops of a scenario: coterie's own, with scripted members.

``cluster`` has what the classic and the consumer protocol share: the clock, brokers, and the next
action of each; ``coordinator`` is the library's, with a count of requests; ``log`` is the log that
brokers write and load, ``leaders`` the leaders of its partitions; ``member`` is a fetching member
of ``coterie.testing``. ``consumer`` and ``simulation`` are those of the classic protocol.
"""

from coterie.designs.today.simulation import TodaySimulation, play

__all__ = ["TodaySimulation", "play"]
