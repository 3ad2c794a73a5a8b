"""One scenario under several designs, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.designs.costs import COSTS, costs
from coterie.designs.run import DESIGNS, Run, run
from coterie.designs.scenario import Scenario, read_scenario


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a scenario cost under each design.

    Attributes
    ----------
    name : str
        The scenario's.
    runs : dict
        :class:`~coterie.designs.Run` by design.
    costs : dict
        By design, each cost by name; None where a design has no such thing.
    """

    name: str
    runs: Mapping[str, Run]
    costs: Mapping[str, Mapping[str, float | None]]

    def rows(self) -> list[list[str]]:
        """Return a row for each cost: its name, its value under each design, ``-`` for none."""
        return [
            [name, *(_shown(self.costs[design][name]) for design in self.costs)] for name in COSTS
        ]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def compare(scenario: Scenario | Mapping[str, Any], designs: Sequence[str] = DESIGNS) -> Comparison:
    """Run a scenario under each design, and count what it cost.

    Parameters
    ----------
    scenario : Scenario or dict
        A scenario, or what a scenario's file holds.
    designs
        Which ones, in the order of the answer.

    Raises
    ------
    ScenarioError, ArgumentError
        The scenario is wrong, or there is no such design.
    """
    if not isinstance(scenario, Scenario):
        scenario = read_scenario(scenario)
    runs = {design: run(scenario, design) for design in dict.fromkeys(designs)}
    found = {design: costs(scenario, one.timeline, one.costs) for design, one in runs.items()}
    return Comparison(scenario.name, runs, found)
