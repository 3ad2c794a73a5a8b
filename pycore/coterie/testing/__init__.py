"""Tools for tests of code in a consumer group: a scripted client, subscriptions, assignments.

A :class:`Member` acts as a consumer does, on the coordinator's virtual clock and only when the test
calls it. It speaks the classic protocol or the consumer protocol. It never sleeps and uses no
network.
"""

from coterie.log.consumer_protocol import (
    assignment,
    read_assignment,
    read_subscription,
    subscription,
)
from coterie.testing.classic import ClassicMember
from coterie.testing.consumer import ConsumerMember, MemberState
from coterie.testing.member import Member

__all__ = [
    "ClassicMember",
    "ConsumerMember",
    "Member",
    "MemberState",
    "assignment",
    "read_assignment",
    "read_subscription",
    "subscription",
]
