"""The requests of a run as a trace, for ``coterie trace run``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.coordinator.recording import Recording
from coterie.histories.runner import Run

if TYPE_CHECKING:
    from coterie.histories.conditions import Application, Conditions


def trace(history: Conditions, application: Application) -> list[str]:
    """Run a history and return the lines of its trace."""
    recording = Recording()
    made: list[GroupCoordinator] = []

    def make(config: Any, now_ms: int, **options: Any) -> GroupCoordinator:
        coordinator = GroupCoordinator(config, now_ms, **options)
        coordinator._record_into(recording)
        made.append(coordinator)
        return coordinator

    Run(history, application, make).outcome()
    (coordinator,) = made
    lines = recording.lines("history", coordinator.config, coordinator.now_ms)
    return [json.dumps(line, ensure_ascii=False) for line in lines]
