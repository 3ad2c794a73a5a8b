"""One scenario under several designs, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.arguments import boolean, called, walked
from coterie.designs.costs import COSTS
from coterie.designs.run import DESIGNS, Run, known_design, run
from coterie.designs.scenario import Scenario, read_scenario


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a scenario cost under each design.

    Attributes
    ----------
    scenario : Scenario
        What was run.
    runs : dict
        :class:`~coterie.designs.Run` by design.
    """

    scenario: Scenario
    runs: Mapping[str, Run]

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.scenario.name

    @property
    def costs(self) -> dict[str, dict[str, float | None]]:
        """By design, each cost by name; None where a design has no such thing."""
        return {design: one.costs for design, one in self.runs.items()}

    def rows(self) -> list[list[str]]:
        """Return a row for each cost: its name, its value under each design, ``-`` for none."""
        return [
            [name, *(_shown(self.costs[design][name]) for design in self.runs)] for name in COSTS
        ]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


@called
def compare(
    scenario: Scenario | Mapping[str, Any],
    designs: Sequence[str] = DESIGNS,
    *,
    timeline: bool = True,
) -> Comparison:
    """Run a scenario under each design, and count what it cost.

    Parameters
    ----------
    scenario : Scenario or dict
        A scenario, or what a scenario's file holds.
    designs
        Which ones, in the order of the answer.
    timeline : bool
        Whether each run keeps its timeline.

    Raises
    ------
    ScenarioError, ArgumentError
        The scenario is wrong, there is no such design, or an argument is of a wrong type.
    """
    chosen = dict.fromkeys(map(known_design, walked(designs, "designs", "the names of designs")))
    boolean(timeline, "timeline")
    if not isinstance(scenario, Scenario):
        scenario = read_scenario(scenario)
    runs = {design: run(scenario, design, timeline=timeline) for design in chosen}
    return Comparison(scenario, runs)
