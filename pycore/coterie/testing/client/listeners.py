"""Calls of a rebalance listener. Source: ``ConsumerRebalanceListenerInvoker.java``."""

from __future__ import annotations

from coterie.testing.client.network import NetworkClient
from coterie.testing.client.subscriptions import SubscriptionState
from coterie.testing.topics import TopicPartition


class Listeners:
    """The rebalance listener of a consumer: any object with some of its three methods.

    Each method returns what the listener has raised, so that the rebalance goes on first.
    """

    def __init__(self, network: NetworkClient, subscriptions: SubscriptionState) -> None:
        self._network, self._subscriptions = network, subscriptions

    def assigned(self, partitions: list[TopicPartition]) -> Exception | None:
        """Call ``on_partitions_assigned`` with what was added, which may be nothing."""
        return self._call("assigned", ("on_partitions_assigned",), partitions)

    def revoked(self, partitions: list[TopicPartition]) -> Exception | None:
        """Call ``on_partitions_revoked``."""
        return self._call("revoked", ("on_partitions_revoked",), partitions)

    def lost(self, partitions: list[TopicPartition]) -> Exception | None:
        """Call ``on_partitions_lost``; a listener without it gets ``on_partitions_revoked``."""
        return self._call("lost", ("on_partitions_lost", "on_partitions_revoked"), partitions)

    def _call(
        self, kind: str, methods: tuple[str, ...], partitions: list[TopicPartition]
    ) -> Exception | None:
        self._network.note(kind, partitions)
        listener = self._subscriptions.listener
        for name in methods:
            method = getattr(listener, name, None)
            if method is not None:
                try:
                    method(list(partitions))
                except Exception as error:
                    return error
                return None
        return None
