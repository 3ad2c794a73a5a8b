"""The assignors ``sticky`` and ``cooperative-sticky``: members keep what they can.

They differ in where a member's former partitions come from; and the cooperative one does not assign
a partition before its owner has given it up.
Source: AbstractStickyAssignor, StickyAssignor, CooperativeStickyAssignor.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from coterie.base.consumer_protocol import Subscription
from coterie.testing.assignors.base import (
    Assignor,
    Partitions,
    Racks,
    TopicPartition,
    flat,
    hash_order,
)
from coterie.testing.assignors.constrained import ConstrainedAssignment
from coterie.testing.assignors.general import GeneralAssignment
from coterie.testing.assignors.racks import RackMatch
from coterie.testing.assignors.steps import discard

NO_GENERATION = -1
_Subscriptions = dict[str, Subscription]
_Plan = dict[str, list[TopicPartition]]
INT16, INT32 = struct.Struct(">h"), struct.Struct(">i")


class MemberData(NamedTuple):
    """What a member owned when it sent its subscription; generation None: unknown."""

    partitions: list[TopicPartition]
    generation: int | None


class _Claims:
    """What each member owns, if the members' claims are compared."""

    def __init__(self) -> None:
        self.owned: dict[str, list[TopicPartition]] = {}
        self.owner: dict[TopicPartition, str] = {}
        self.disputed: set[TopicPartition] = set()  # claimed by several in one generation

    def take(
        self, member: str, data: MemberData, topics: dict[str, int], subscriptions: _Subscriptions
    ) -> None:
        """Take a member's claims; of two claims, that of the later generation is valid."""
        generation = NO_GENERATION if data.generation is None else data.generation
        owned = self.owned[member] = []
        for partition in data.partitions:
            if partition[0] not in topics:
                continue
            other = self.owner.get(partition)
            if other is not None:
                # Of the other member, Kafka takes the generation from the subscription itself.
                other_generation = max(subscriptions[other].generation_id, NO_GENERATION)
                if generation < other_generation:
                    continue
                if generation == other_generation:
                    self.disputed.add(partition)
                else:
                    owned.append(partition)
                discard(self.owned[other], partition)
            else:
                owned.append(partition)
            self.owner[partition] = member


class _AbstractStickyAssignor(Assignor):
    """Members keep what they can; then all get as many partitions as possible, or one more."""

    def __init__(self) -> None:
        self.generation_id = NO_GENERATION
        self._max_generation = NO_GENERATION  # the highest that this client has seen as a leader

    def _member_data(self, subscription: Subscription) -> MemberData:
        raise NotImplementedError

    def _assign(
        self, subscriptions: _Subscriptions, partitions: dict[str, int], racks: Racks
    ) -> _Plan:
        return self._assign_and_transfer(subscriptions, partitions, racks)[0]

    def _assign_and_transfer(
        self, subscriptions: _Subscriptions, partitions: dict[str, int], racks: Racks
    ) -> tuple[_Plan, dict[TopicPartition, str] | None]:
        """Return the partitions of each member, and who gets those that another one owns.

        The general algorithm does not know the latter: None.
        """
        claims = _Claims()
        data = {member: self._member_data(each) for member, each in subscriptions.items()}
        for member, each in data.items():
            claims.take(member, each, partitions, subscriptions)
            if each.generation is not None:
                self._max_generation = max(self._max_generation, each.generation)
        match = RackMatch(subscriptions, partitions, racks)
        if _equal(subscriptions):
            constrained = ConstrainedAssignment(partitions, claims.owned, claims.disputed, match)
            return constrained.build(), constrained.transferred
        topics = {member: each.topics for member, each in subscriptions.items()}
        former = _former_owners(data, self._max_generation)
        return GeneralAssignment(partitions, topics, claims.owned, former, match).build(), None


def _equal(subscriptions: _Subscriptions) -> bool:
    """Whether all members subscribe to the same topics; first ones without a topic are ignored."""
    topics: set[str] = set()
    for each in subscriptions.values():
        if not topics:
            topics = set(each.topics)
        elif len(each.topics) != len(topics) or not topics.issuperset(each.topics):
            return False
    return True


def _former_owners(data: dict[str, MemberData], max_generation: int) -> dict[TopicPartition, str]:
    """Return who owned each partition last, of the claims of earlier generations."""
    former: dict[TopicPartition, tuple[int, str]] = {}
    for member, (partitions, known) in data.items():
        generation = NO_GENERATION if known is None else known
        if generation < max_generation:
            for partition in partitions:
                if partition not in former or generation > former[partition][0]:
                    former[partition] = generation, member
    return {partition: member for partition, (_, member) in former.items()}


class StickyAssignor(_AbstractStickyAssignor):
    """Eager: members give up all before they join; the user data says what they owned."""

    name = "sticky"

    def __init__(self) -> None:
        super().__init__()
        self._owned: Partitions | None = None

    def on_assignment(self, partitions: Partitions, generation_id: int) -> None:
        """Remember them for the next subscription."""
        self._owned, self.generation_id = partitions, generation_id

    def subscription_user_data(self) -> bytes | None:
        """Return what the client was assigned last and the generation; None: nothing so far."""
        if self._owned is None:
            return None
        data = INT32.pack(len(self._owned))
        for topic in hash_order(self._owned, computed=True):
            name, numbers = topic.encode(), self._owned[topic]
            data += INT16.pack(len(name)) + name + INT32.pack(len(numbers))
            data += b"".join(map(INT32.pack, numbers))
        return data + INT32.pack(self.generation_id)

    def _member_data(self, subscription: Subscription) -> MemberData:
        if not subscription.user_data:
            return MemberData([], None)
        return _read_user_data(subscription.user_data)


def _read_user_data(data: bytes) -> MemberData:
    """Read a sticky subscription's user data; its first version lacks the generation."""
    partitions = []
    place = 4
    try:
        for _ in range(_length(data, 0)):
            (size,) = INT16.unpack_from(data, place)
            if not 0 <= size <= len(data) - place - 2:
                raise struct.error
            topic = data[place + 2 : place + 2 + size].decode(errors="replace")
            place += 2 + size
            count = _length(data, place)
            numbers = struct.unpack_from(f">{count}i", data, place + 4)
            partitions += [(topic, number) for number in numbers]
            place += 4 + 4 * count
    except struct.error:
        return MemberData([], NO_GENERATION)
    generation = INT32.unpack_from(data, place)[0] if place + 4 <= len(data) else None
    return MemberData(partitions, generation)


def _length(data: bytes, place: int) -> int:
    (count,) = INT32.unpack_from(data, place)
    if not 0 <= count <= len(data) - place - 4:
        raise struct.error
    return int(count)


class CooperativeStickyAssignor(_AbstractStickyAssignor):
    """Cooperative: members keep their partitions, and the leader takes away only what moves."""

    name = "cooperative-sticky"
    cooperative = True

    def on_assignment(self, partitions: Partitions, generation_id: int) -> None:
        """Remember the generation for the next subscription."""
        self.generation_id = generation_id

    def subscription_user_data(self) -> bytes:
        """Return the generation of the client's last assignment."""
        return INT32.pack(self.generation_id)

    def _member_data(self, subscription: Subscription) -> MemberData:
        owned = flat(subscription.owned)
        if subscription.generation_id >= 0:
            return MemberData(owned, subscription.generation_id)
        if subscription.user_data is None:
            return MemberData(owned, None)
        if len(subscription.user_data) < INT32.size:
            return MemberData(owned, NO_GENERATION)
        return MemberData(owned, INT32.unpack_from(subscription.user_data)[0])

    def _assign(
        self, subscriptions: _Subscriptions, partitions: dict[str, int], racks: Racks
    ) -> _Plan:
        plan, transferred = self._assign_and_transfer(subscriptions, partitions, racks)
        if transferred is None:
            transferred = _transferred(subscriptions, plan)
        for partition, member in transferred.items():
            discard(plan[member], partition)
        return plan


def _transferred(subscriptions: _Subscriptions, plan: _Plan) -> dict[TopicPartition, str]:
    """Return who gets the partitions that another member has to give up."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, assigned in plan.items():
        owned = set(flat(subscriptions[member].owned))
        added |= dict.fromkeys(set(assigned) - owned, member)
        revoked |= owned.difference(assigned)
    return {partition: member for partition, member in added.items() if partition in revoked}
