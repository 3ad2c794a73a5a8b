"""Today's coordinator under the ops of a scenario: coterie's own, with scripted members.

``coordinator`` is the library's, counted; ``log`` what its brokers write and load, ``leaders``
which broker leads which partition of it; ``consumer`` a member of ``coterie.testing`` that
fetches; ``cluster`` the clock that they live by, and when each of them next has something to do.
"""

from coterie.designs.today.simulation import TodaySimulation, play

__all__ = ["TodaySimulation", "play"]
