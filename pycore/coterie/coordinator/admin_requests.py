"""Requests of administrators: a part of :class:`coterie.GroupCoordinator`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.base.arguments import called
from coterie.coordinator.pending import Pending, now_or_later


class AdminRequests:
    """Describe, list and delete groups, delete partitions, and apply retention."""

    def _ask(self, op: str, *values: Any) -> Pending[Any]:
        raise NotImplementedError

    @called
    def describe_group(self, group_id: str | None = None, *, version: int = 5) -> Any:
        """Send DescribeGroups for one group; from version 6 on an unknown one is an error."""
        return self._ask("describe_group", group_id, version).response

    @called
    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> Any:
        """Send ListGroups for groups in these states and of these types; an empty list: any.

        ``types`` matter since Kafka 4.1 only.
        """
        return self._ask("list_groups", states, types).response

    @called
    def delete_groups(self, group_ids: Iterable[str] = ()) -> Any:
        return now_or_later(self._ask("delete_groups", group_ids))

    @called
    def delete_partitions(self, partitions: Any = ()) -> None:
        """Remove the offsets of partitions, pairs of topic and number, deleted from the cluster."""
        self._ask("delete_partitions", partitions)

    def cleanup(self) -> None:
        self._ask("cleanup")
