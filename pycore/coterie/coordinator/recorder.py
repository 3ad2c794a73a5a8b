"""The interface through which the calls of a coordinator are recorded."""

from __future__ import annotations

from typing import Protocol

from coterie._core.coordinator.offsets import Trace
from coterie.coordinator.requests import Compiled


class Recorder(Protocol):
    """Receives each call, in order; ``coterie.coordinator.recording`` makes a trace of them."""

    def begin(self, *, now_ms: int, deferred: bool, loaded: bool, periodic: bool) -> None:
        """Record how the coordinator was made."""

    def ask(self, at_ms: int, op: str, request_id: int, compiled: Compiled) -> None:
        """Record an operation."""

    def advance(self, at_ms: int) -> None:
        """Record that the clock was moved."""

    def refuse(self) -> None:
        """Record that the last request was refused."""

    def play(self, trace: Trace, count: int) -> None:
        """Record the first ``count`` events of a trace: those that were played."""
