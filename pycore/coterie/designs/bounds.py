"""Limits on the cost of a run: every scenario is either simulated or refused in one line.

Idle consumers cost time too: they send heartbeats and commit. A scenario of a few lines can ask for
billions of them, by a long time or a short interval. The limit therefore grows with what happens in
the scenario, not with its times.
"""

from __future__ import annotations

from coterie.base.schedule import Schedule, TooManySteps
from coterie.designs.checks import ScenarioError
from coterie.designs.ops import AddPartitions, CreateTopic, Start
from coterie.designs.scenario import Scenario

IDLE_STEPS = 4_000_000  # about 10 s; ten consumers of today take 3.3 million in a week
STEPS_PER_PAIR = 20  # of a consumer and an op or partition; herds take 1, long runs 5


def step_limit(scenario: Scenario) -> int:
    """Return how many steps a run of a scenario may take.

    Every consumer may rebalance at every op, and may look at every partition when it does.
    """
    consumers = sum(isinstance(op, Start) for op in scenario.ops)
    partitions = sum(
        len(op.replicas) for op in scenario.ops if isinstance(op, CreateTopic | AddPartitions)
    )
    return IDLE_STEPS + STEPS_PER_PAIR * consumers * (len(scenario.ops) + partitions)


def refusal(
    scenario: Scenario, design: str, schedule: Schedule, error: TooManySteps
) -> ScenarioError:
    """Return the error for a run that has passed its limit.

    It names the first op that the run has not reached, or else the last op.
    """
    later = (op for op in scenario.ops if op.at > schedule.now_ms)
    op = next(later, scenario.ops[-1])
    return ScenarioError(f"{op.place}: {design} stopped at {schedule.now_ms} ms: {error}")
