"""The consumer protocol (KIP-848) under the ops of a scenario: coterie's coordinator of 4.1.

``consumer`` is a fetching member of ``coterie.testing``; ``simulation`` delivers its responses.
Clock, brokers and log are those of ``today``.
"""

from coterie.designs.consumer_protocol.simulation import ConsumerProtocolSimulation, play

__all__ = ["ConsumerProtocolSimulation", "play"]
