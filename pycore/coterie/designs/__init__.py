"""Simulations of Kafka's designs of group coordination, old and new, in virtual time."""

from coterie.designs.checks import ScenarioError
from coterie.designs.compare import Comparison, compare
from coterie.designs.costs import COSTS
from coterie.designs.run import DESIGNS, Run, run
from coterie.designs.scenario import Scenario, read_scenario
from coterie.designs.timeline import Entry, Timeline
from coterie.designs.times import Times

__all__ = [
    "COSTS",
    "DESIGNS",
    "Comparison",
    "Entry",
    "Run",
    "Scenario",
    "ScenarioError",
    "Timeline",
    "Times",
    "compare",
    "read_scenario",
    "run",
]
