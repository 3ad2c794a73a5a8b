"""What must hold of a coordinator in every history; a breach is a bug of coterie.

Within a generation of the classic protocol each partition has one member, and generations grow for
as long as the group exists. Under the consumer protocol each member has epochs of its own, so only
its own may not shrink.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.errors import CoterieError
from coterie.histories.ledger import Place


class Invariants:
    """Follows the assignments of a group."""

    def __init__(self) -> None:
        self._generation = 0
        self._owners: dict[Place, str] = {}  # of this generation
        self._epochs: dict[str, int] = {}

    def assigned_by_leader(self, member: str, generation: int, places: Iterable[Place]) -> None:
        """Check what a member gets in a generation of the classic protocol."""
        if generation > self._generation:
            self._generation, self._owners = generation, {}
        elif generation < self._generation:
            return  # it has been slow to call its listener
        for place in places:
            owner = self._owners.setdefault(place, member)
            if owner != member:
                raise CoterieError(
                    f"a bug of coterie: in generation {generation}, {place[0]}-{place[1]} is "
                    f"assigned to {owner} and to {member}"
                )

    def assigned_by_broker(self, member_id: str, epoch: int) -> None:
        """Check the epoch of a member of the consumer protocol."""
        before = self._epochs.get(member_id, 0) if epoch > 1 else 0  # 1: a new group
        if epoch < before:
            raise CoterieError(
                f"a bug of coterie: the epoch of {member_id} shrinks from {before} to {epoch}"
            )
        self._epochs[member_id] = epoch

    def begin_anew(self) -> None:
        """Expect any generation: the group was removed, or has changed its protocol."""
        self._generation, self._owners = 0, {}
