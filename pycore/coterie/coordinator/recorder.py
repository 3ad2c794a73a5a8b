"""Who writes down what a coordinator was asked."""

from __future__ import annotations

from typing import Protocol

from coterie._core.coordinator.trace import Trace
from coterie.coordinator.requests import Compiled

__all__ = ["Recorder"]


class Recorder(Protocol):
    """Told of each call, in order; ``coterie.traces.recording`` makes a trace of it."""

    def begin(self, *, now_ms: int, deferred: bool, loaded: bool, periodic: bool) -> None:
        """Note how the coordinator was made."""

    def ask(self, at_ms: int, op: str, request_id: int, compiled: Compiled) -> None:
        """Keep an operation that was asked for."""

    def advance(self, at_ms: int) -> None:
        """Keep that the clock was moved."""

    def refuse(self) -> None:
        """Note that the request was refused."""

    def play(self, trace: Trace, count: int) -> None:
        """Keep the first events of a trace that was played: those that took place."""
