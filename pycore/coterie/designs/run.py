"""Run a scenario under one of the designs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.base.arguments import boolean, called
from coterie.base.schedule import Schedule, TooManySteps
from coterie.coordinator.config import REPLAYING
from coterie.designs import consumer_protocol, today
from coterie.designs.bounds import refusal, step_limit
from coterie.designs.consumer08_simulation import ZooKeeperSimulation
from coterie.designs.coordinator09_simulation import play
from coterie.designs.costs import Accounts
from coterie.designs.scenario import Scenario, read_scenario
from coterie.designs.timeline import Timeline
from coterie.designs.times import Times
from coterie.errors import ArgumentError, shown

ZOOKEEPER, COORDINATOR = "zookeeper-0.8", "coordinator-0.9"
TODAY, CONSUMER_PROTOCOL = "today", "consumer-protocol"
DESIGNS = (ZOOKEEPER, COORDINATOR, TODAY, CONSUMER_PROTOCOL)
PLAYS = {COORDINATOR: play, TODAY: today.play}


def known_design(design: Any) -> str:
    """Check the name of a design."""
    if not isinstance(design, str) or design not in DESIGNS:
        raise ArgumentError(f"design: {shown(design)} is none of {', '.join(DESIGNS)}")
    return design


def known_behaviour(behaviour: Any) -> str:
    """Check the behaviour of a coordinator of the consumer protocol."""
    if not isinstance(behaviour, str) or behaviour not in REPLAYING:
        raise ArgumentError(f"behaviour: {shown(behaviour)} is none of {', '.join(REPLAYING)}")
    return behaviour


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a run.

    Attributes
    ----------
    points : list of dict
        The state at each ``settle``, in the form of the golden files.
    timeline : Timeline
        The entries (:class:`Entry`) in order; empty with ``timeline=False``.
    costs : dict
        Costs by the names of ``COSTS``; None if the design has no such cost.
    counted : dict
        Counts of the design itself, such as refused messages; under ``zookeeper-0.8`` also failed
        rebalances, tries and conflicts.
    """

    points: list[dict[str, Any]]
    timeline: Timeline
    costs: dict[str, float | None]
    counted: dict[str, int]


@called
def run(
    scenario: Scenario | Mapping[str, Any],
    design: str = ZOOKEEPER,
    *,
    times: Times | None = None,
    timeline: bool = True,
    behaviour: str = consumer_protocol.BEHAVIOUR,
) -> Run:
    """Run a scenario under a design.

    Parameters
    ----------
    scenario : Scenario or dict
        A scenario, or the content of its JSON file.
    design : str
        ``zookeeper-0.8``: consumers that each rebalance on their own over ZooKeeper;
        ``coordinator-0.9``: one broker assigns a group's partitions; ``today``: a member assigns
        (the classic protocol); ``consumer-protocol``: the broker assigns, step by step (KIP-848).
    times : Times, optional
        Delays that a scenario does not give, for ``zookeeper-0.8`` only; those of the other designs
        are fixed.
    timeline : bool
        Whether to make the timeline; it is long if many consumers join.
    behaviour : str
        ``coterie.behaviour`` of the coordinator, for ``consumer-protocol`` only: 4.1 to 4.4.

    Raises
    ------
    ScenarioError
        The scenario is wrong, or takes too many steps to simulate: one line that names the place.
    ArgumentError
        There is no such design, or another argument has a wrong type.

    Examples
    --------
    >>> topic = {"at": 0, "op": "create_topic", "topic": "orders", "replicas": [[0], [0]]}
    >>> start = {"at": 1000, "op": "start", "consumer": "c1", "subscription": {"orders": 1}}
    >>> settle = {"at": 91000, "op": "settle", "point": 1}
    >>> scenario = {"format": "coterie-zk08", "events": [topic, start, settle]}
    >>> run(scenario, "today").costs["rebalances"]
    1
    """
    known_design(design)
    boolean(timeline, "timeline")
    known_behaviour(behaviour)
    if times is not None and not isinstance(times, Times):
        raise ArgumentError(f"times must be a Times, not {shown(times)}")
    if not isinstance(scenario, Scenario):
        scenario = read_scenario(scenario)
    accounts, entries = Accounts(scenario), Timeline()

    def note(at_ms: int, kind: str, consumer: str, *details: Any) -> None:
        accounts.note(at_ms, kind, consumer, *details)
        if timeline:
            entries.add(at_ms, kind, consumer, *details)

    schedule = Schedule(step_limit(scenario))
    try:
        if design == ZOOKEEPER:
            simulation = ZooKeeperSimulation(scenario, times or Times(), note, schedule)
            points, counted = simulation.run(), simulation.counted()
        elif design == CONSUMER_PROTOCOL:
            points, counted = consumer_protocol.play(scenario, note, schedule, behaviour)
        else:
            points, counted = PLAYS[design](scenario, note, schedule)
    except TooManySteps as error:
        raise refusal(scenario, design, schedule, error) from None
    return Run(points, entries, accounts.costs(counted), counted)
