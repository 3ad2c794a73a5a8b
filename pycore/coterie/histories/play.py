"""A history with a real client: against a broker whose clock follows the history.

What is exact: the order and the times of all events, of the records and of the broker's answers to
what time does. What is not: a real client decides by the wall clock when it heartbeats, fetches
and retries. So the same history may take another course, by the virtual seconds that a client is
late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from coterie.base.arguments import called, function
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.histories.instance import Instance
from coterie.histories.ledger import Place
from coterie.histories.outcome import Outcome
from coterie.histories.played_cluster import PlayedCluster, PlayedSchedule
from coterie.histories.runner import Run
from coterie.testing.process import Process
from coterie.testing.topics import Interval

if TYPE_CHECKING:
    from coterie.histories.conditions import Application, Conditions


class PlayedInstance(Instance):
    """A member whose consumer is a real client."""

    def make_consumer(self, settings: dict[str, Any], process: Process) -> Any:
        """Return a client; its other settings are those of a run."""
        run = self.run
        return run.cluster.make_consumer(run.client, self.name, settings, process)

    def make_producer(self, settings: Any, process: Process) -> Any:
        """Refuse."""
        raise CoterieError("a play has no producer; run the history instead")

    def positions(self) -> dict[Place, int]:
        """Return the positions of its consumer."""
        return {} if self.consumer is None else self.consumer.positions()

    def pause(self) -> None:
        """Stop its program; its client's requests do not arrive meanwhile."""
        super().pause()
        self.run.cluster.network.cut(self.name)

    def resume(self) -> None:
        """Let it go on."""
        self.run.cluster.network.heal(self.name)
        super().resume()

    def _end(self, kind: str, restart_ms: int | None, details: Any = None) -> None:
        consumer = self.consumer
        super()._end(kind, restart_ms, details)
        if consumer is not None:
            consumer.end()


class Play(Run):
    """A run with real clients."""

    instance_type = PlayedInstance
    cluster: PlayedCluster
    schedule: PlayedSchedule

    def __init__(
        self, history: Conditions, application: Application, broker: Any, client: Any
    ) -> None:
        if not hasattr(broker, "_on_stage"):
            raise ArgumentError(f"broker must be a coterie.server.Broker, not {shown(broker)}")
        self.broker, self.client = broker, called(function(client, "client"))
        super().__init__(history, application)
        reason = self._refusal(self.settings)
        if reason is not None:
            raise CoterieError(f"the client cannot play this history: {reason}")

    def outcome(self) -> Outcome:
        """Play it to its end."""
        try:
            return super().outcome()
        finally:
            self.cluster.end()

    def _make_schedule(self) -> PlayedSchedule:
        return PlayedSchedule()

    def _make_cluster(
        self, config: Mapping[str, Any], interval_ms: Interval, _: Any
    ) -> PlayedCluster:
        return PlayedCluster(
            self.broker,
            self.history.topics,
            config,
            interval_ms=interval_ms,
            schedule=self.schedule,
            group_id=self.settings["group.id"],
        )

    def _refusal(self, settings: dict[str, Any]) -> str | None:
        """Return why there can be no member with such settings; None: there can."""
        if settings.get("group.protocol") == "consumer" and not self.cluster.has_consumer_groups:
            return 'the broker has no consumer groups; give it kafka="4.1"'
        refuses: Callable[[dict[str, Any]], str | None] | None
        refuses = getattr(self.client, "refuses", None)
        return None if refuses is None else refuses(settings)

    def _watch(self) -> None:
        """Watch nothing: real clients do not repeat without waiting."""

    def _check(self, instance: Instance, places: list[Place]) -> None:
        """Check nothing: the generation of a real client is its own affair."""
