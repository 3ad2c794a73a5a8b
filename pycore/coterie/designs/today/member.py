"""A consumer of a group: a scripted member that fetches its partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.designs.ledger import Ledger, TopicPartition
from coterie.designs.today.leaders import Leaders
from coterie.testing.assignors.base import flat
from coterie.testing.member import Member

__all__ = ["GroupConsumer"]


class GroupConsumer:
    """A member, and its owned partitions in the ledger.

    Parameters
    ----------
    leaders, ledger
        The leader of its coordinator, and the group's ledger.
    commit
        Commits the consumer's progress.

    Attributes
    ----------
    member : Member
        Its client, of either protocol; set by the class of the protocol.
    away : bool
        Whether it is cut off from the coordinator; it goes on fetching.
    turn : int
        The number of its last scheduled action; earlier ones are ignored.
    """

    member: Member

    def __init__(
        self,
        name: str,
        group_id: str,
        topics: tuple[str, ...],
        *,
        leaders: Leaders,
        ledger: Ledger,
        commit: Callable[[Any], None],
    ) -> None:
        self.name, self.group_id, self.topics = name, group_id, topics
        self._leaders, self._ledger, self._commit = leaders, ledger, commit
        self.alive, self.away = True, False
        self.turn = 0

    @property
    def generation_id(self) -> int:
        """Its generation, or its epoch."""
        return self.member.generation_id

    @property
    def in_group(self) -> str:
        """Its state, by name."""
        if not self.alive:
            return "Down"
        return "Stable" if self.member.stable else self._unstable()

    def _unstable(self) -> str:
        return "Joining"

    @property
    def reachable(self) -> bool:
        """Whether it lives and its coordinator answers."""
        return self.alive and not self.away and self._leaders.answers(self.group_id)

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator would take its commits."""
        return self.member.stable

    def close(self) -> None:
        """Commit and leave the group; if the coordinator cannot be reached, crash."""
        if not self.reachable:
            self.crash()
            return
        self._commit(self)
        if self.in_the_group:
            self.member.leave()
        self.alive = False

    @property
    def in_the_group(self) -> bool:
        """Whether the coordinator knows it."""
        return bool(self.member.member_id)

    def crash(self) -> None:
        """End without a commit and without a request to leave."""
        self.alive = False
        self.member.crash()
        self._ledger.give(self.name, list(self._ledger.owned_by(self.name)), commit=False)

    def places(self) -> list[TopicPartition]:
        """Return its assigned partitions."""
        return flat(self.member.assignment)

    def _rebalanced(self, how: str, places: list[TopicPartition]) -> None:
        if how == "assigned":
            self._ledger.take(self.name, places)
        else:
            self._ledger.give(self.name, places, commit=how == "revoked")
