"""A consumer of the consumer protocol: a scripted member that fetches its partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.designs.ledger import TopicPartition
from coterie.designs.today.member import GroupConsumer
from coterie.testing.cluster.coordinator import CountedCoordinator
from coterie.testing.consumer import ConsumerMember

__all__ = ["ProtocolConsumer"]


class ProtocolConsumer(GroupConsumer):
    """A member of the consumer protocol.

    Parameters
    ----------
    server_assignor
        As of a member.
    moved : function of the consumer
        Called when its partitions change.
    """

    member: ConsumerMember

    def __init__(
        self,
        name: str,
        group_id: str,
        topics: tuple[str, ...],
        *,
        coordinator: CountedCoordinator,
        server_assignor: str | None,
        moved: Callable[[ProtocolConsumer], None],
        **shared: Any,
    ) -> None:
        super().__init__(name, group_id, topics, **shared)
        self._moved = moved
        self.member = ConsumerMember(
            *(coordinator, group_id),
            client_id=name,
            topics=topics,
            on_rebalance=self._rebalanced,
            server_assignor=server_assignor,
        )

    @property
    def in_the_group(self) -> bool:
        """Whether the coordinator knows it."""
        return self.member.member_epoch > 0

    may_commit = in_the_group

    def _unstable(self) -> str:
        return self.member.state.value.capitalize()

    def _rebalanced(self, how: str, places: list[TopicPartition]) -> None:
        super()._rebalanced(how, places)
        if places:
            self._moved(self)
