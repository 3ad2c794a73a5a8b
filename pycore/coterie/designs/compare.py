"""One scenario under several designs, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.base.arguments import boolean, called, walked
from coterie.designs.consumer_protocol import BEHAVIOUR
from coterie.designs.costs import COSTS
from coterie.designs.run import DESIGNS, Run, known_design, run
from coterie.designs.scenario import Scenario, read_scenario


@dataclass(frozen=True, slots=True)
class Comparison:
    """The costs of a scenario under each design.

    Attributes
    ----------
    scenario : Scenario
        The scenario.
    runs : dict
        :class:`~coterie.designs.Run` by design.
    """

    scenario: Scenario
    runs: Mapping[str, Run]

    @property
    def name(self) -> str:
        return self.scenario.name

    @property
    def costs(self) -> dict[str, dict[str, float | None]]:
        """The value of each cost (by name) under each design; None: a design does not have it."""
        return {design: run.costs for design, run in self.runs.items()}

    def rows(self) -> list[list[str]]:
        """Return a row for each cost: its name, and its value under each design as text."""
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
    behaviour: str = BEHAVIOUR,
) -> Comparison:
    """Run a scenario under each design and sum its costs.

    Parameters
    ----------
    scenario : Scenario or dict
        A scenario, or the content of its JSON file.
    designs
        Names of designs, in the order of the result.
    timeline : bool
        Whether the runs have timelines.
    behaviour
        ``coterie.behaviour`` of the coordinator of ``consumer-protocol``.

    Raises
    ------
    ScenarioError, ArgumentError
        The scenario is wrong, there is no such design, or an argument has a wrong type.

    Examples
    --------
    >>> topic = {"at": 0, "op": "create_topic", "topic": "orders", "replicas": [[0], [0]]}
    >>> start = {"at": 1000, "op": "start", "consumer": "c1", "subscription": {"orders": 1}}
    >>> settle = {"at": 91000, "op": "settle", "point": 1}
    >>> scenario = {"format": "coterie-zk08", "events": [topic, start, settle]}
    >>> compare(scenario, ["zookeeper-0.8", "today"]).rows()[0]
    ['rebalances', '1', '1']
    """
    chosen = dict.fromkeys(map(known_design, walked(designs, "designs", "the names of designs")))
    boolean(timeline, "timeline")
    if not isinstance(scenario, Scenario):
        scenario = read_scenario(scenario)
    runs = {
        design: run(scenario, design, timeline=timeline, behaviour=behaviour) for design in chosen
    }
    return Comparison(scenario, runs)
