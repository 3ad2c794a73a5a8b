"""Today's coordinator and consumers of the classic protocol.

Members heartbeat, rejoin when required, and the leader assigns. It sees new partitions when its
metadata are refreshed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coterie.designs.scenario import Scenario
from coterie.designs.today.cluster import COMMIT_MS, DELIVERY_MS, GroupCluster, play_in
from coterie.designs.today.consumer import TodayConsumer
from coterie.events import Response, Transition, Unanswered
from coterie.schedule import Schedule

SESSION_MS, METADATA_MS = 45_000, 300_000
RETRY_MS = 100  # after an error
BOUNDARIES_OF_STATE = {  # boundaries of the 0.9 design, by the state that a group enters
    "PreparingRebalance": ("prepared", "told", "joined"),
    "CompletingRebalance": ("written",),
    "Stable": ("answered",),
}


class TodaySimulation(GroupCluster):
    """Brokers, one coordinator and consumers of the classic protocol."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._awaiting: dict[int, TodayConsumer] = {}  # by the id of the awaited response

    def start_consumer(
        self,
        name: str,
        topics: Sequence[str],
        *,
        group_id: str = "group1",
        session_timeout_ms: int | None = None,
        strategy: str | None = None,
    ) -> None:
        """Start a consumer; no live consumer has its name."""
        ledger = self.ledgers.open(group_id)
        self.coordinator_of(group_id)
        consumer = TodayConsumer(
            *(name, group_id, tuple(topics)),
            coordinator=self.coordinator,
            leaders=self.leaders,
            store=self.store,
            ledger=ledger,
            commit=self.commit,
            session_timeout_ms=session_timeout_ms or SESSION_MS,
            assignor=strategy or "range",
        )
        self._enter(consumer)
        self.schedule.call_later(METADATA_MS, self._refresh, consumer)
        self.schedule.call_later(COMMIT_MS, self._commit, consumer)

    def _take_turn(self, consumer: TodayConsumer) -> None:
        member = consumer.member
        member.poll()
        member.events.clear()
        if member.stable:
            self._wake(consumer, max(1, member.next_heartbeat_ms - self.schedule.now_ms))
            return
        pending = member.joining or member.syncing
        if pending is not None and pending.status == "waiting":
            self._awaiting[pending.id] = consumer
        else:
            self._wake(consumer, RETRY_MS)
        self._schedule_coordinator()
        self.coordinator.take_events()

    def _refresh(self, consumer: TodayConsumer) -> None:
        if not consumer.alive:
            return
        self.schedule.call_later(METADATA_MS, self._refresh, consumer)
        if not (consumer.reachable and consumer.refresh() and consumer.member.stable):
            return
        if self.coordinator.leads(consumer.group_id, consumer.member.member_id):
            consumer.rejoin()
            self._act(consumer, consumer.turn)

    def _on_event(self, event: Any) -> None:
        """Deliver awaited responses, count rebalances, and stop brokers at their moments."""
        if isinstance(event, Response | Unanswered):
            consumer = self._awaiting.pop(event.id, None)
            if consumer is not None:
                self._wake(consumer, DELIVERY_MS)
        elif isinstance(event, Transition):
            self._changed(event)

    def _changed(self, event: Transition) -> None:
        if event.to == "PreparingRebalance":
            self._began(event.group_id)
        elif event.to == "Stable":
            self._ended(event.group_id)
            self.schedule.call_later(0, self._count_members, event.group_id)
        self._pass(BOUNDARIES_OF_STATE.get(event.to, ()), event.group_id)

    def _count_members(self, group_id: str) -> None:
        self.protocol_counts.took_part += self.coordinator.size_of(group_id)


def play(
    scenario: Scenario,
    note: Callable[..., None] | None = None,
    schedule: Schedule | None = None,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Play a scenario; return its points and counts."""
    return play_in(TodaySimulation, scenario, note, schedule)
