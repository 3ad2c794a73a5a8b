"""Groups of the classic protocol: members, states, votes, and their records.

Source: GroupMetadata.scala, MemberMetadata.scala.
"""

from collections.abc import Collection, Iterable
from typing import final

from coterie.values import GroupOverview, GroupSummary, MemberSummary

_MemberProtocols = Iterable[tuple[str, bytes]]

@final
class MemberMetadata:
    """A member of a group, with Kafka's fields (``MemberMetadata.scala``).

    ``protocols`` are (name, metadata) in order of preference. An argument of another type is an
    ArgumentError, here and in every method.

    Examples
    --------
    >>> lists = [("sticky", b""), ("range", b"")]
    >>> member = MemberMetadata("m", None, "app", "/host", 60_000, 10_000, "consumer", lists)
    >>> member.vote({"range", "roundrobin"})
    'range'
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str | None
    protocols: tuple[tuple[str, bytes], ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    assignment: bytes
    is_new: bool
    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str | None,
        protocols: _MemberProtocols,
        assignment: bytes = b"",
    ) -> None: ...
    @property
    def is_static_member(self) -> bool:
        """Whether it has a group instance id."""
    @property
    def is_awaiting_join(self) -> bool:
        """Whether its JoinGroup waits for an answer."""
    @property
    def is_awaiting_sync(self) -> bool:
        """Whether its SyncGroup waits for an answer."""
    def matches(self, protocols: _MemberProtocols) -> bool:
        """Whether these are the member's protocols: the same names and bytes in the same order."""
    def metadata(self, protocol: str) -> bytes:
        """Return its metadata for a protocol; CoterieError if it does not support the protocol."""
    def vote(self, candidates: Collection[str]) -> str:
        """Return the first of its names that is a candidate; CoterieError if none is."""
    def summary(self, protocol: str | None = None) -> MemberSummary:
        """Describe it; metadata and assignment only with a protocol."""

_Protocols = Iterable[tuple[str, bytes]]

@final
class GroupMetadata:
    """A group: its state and its members (``GroupMetadata.scala``).

    Members are visited in the order in which they were added; a static member that gets a new id
    moves to the end. Times are ms. Timers and offsets belong to the coordinator. One thread at a
    time.

    Examples
    --------
    >>> lists = [("range", b"")]
    >>> group = GroupMetadata("payments")
    >>> group.add(MemberMetadata("m", None, "app", "/host", 60_000, 10_000, "consumer", lists))
    >>> group.transition_to("PreparingRebalance", 1_000)
    >>> group.init_next_generation(4_000)
    >>> group.current_state, group.generation_id, group.protocol_name
    ('CompletingRebalance', 1, 'range')
    """

    group_id: str
    current_state_timestamp: int
    protocol_type: str | None
    protocol_name: str | None
    generation_id: int
    leader_id: str | None
    num_members_awaiting_join: int
    new_member_added: bool
    subscribed_topics: frozenset[str] | None
    def __init__(self, group_id: str, now_ms: int = 0) -> None: ...
    @property
    def current_state(self) -> str:
        """Empty, PreparingRebalance, CompletingRebalance, Stable or Dead."""
    @property
    def size(self) -> int:
        """How many members there are."""
    @property
    def supported_protocols(self) -> dict[str, int]:
        """For each protocol, how many entries of the members' lists name it."""
    @property
    def all_members(self) -> list[MemberMetadata]:
        """The members, in the order in which they were added."""
    @property
    def all_static_members(self) -> dict[str, str]:
        """Member ids by group instance id."""
    @property
    def pending_member_ids(self) -> list[str]:
        """Ids that were handed out to clients that have not joined yet."""
    @property
    def pending_sync_members(self) -> list[str]:
        """Members of the generation that have not synced."""
    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of a member, in ms; 0 without members."""
    @property
    def has_all_members_joined(self) -> bool:
        """Whether every member has joined, and no member id is pending."""
    @property
    def can_rebalance(self) -> bool:
        """Whether the state may be followed by PreparingRebalance."""
    def is_in(self, state: str) -> bool:
        """Whether the group is in this state, named as :attr:`current_state` names it."""
    def transition_to(self, state: str, now_ms: int) -> None:
        """Change the state at a time in ms; CoterieError if Kafka does not allow the step."""
    def has(self, member_id: str) -> bool:
        """Whether there is a member with this id."""
    def is_leader(self, member_id: str) -> bool:
        """Whether this member leads the group."""
    def member(self, member_id: str) -> MemberMetadata | None:
        """Return the member with this id; None if there is none."""
    def add(self, member: MemberMetadata) -> None:
        """Add a member; the first one leads and gives the protocol type.

        Raises
        ------
        CoterieError
            Its id or its group instance id is taken, or it belongs to another group.
        """
    def remove(self, member_id: str) -> None:
        """Remove a member; if it led, the first remaining one leads. An unknown id is ignored."""
    def update_member(
        self,
        member: MemberMetadata,
        protocols: _Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Replace the protocols and timeouts of a member of the group."""
    def replace_static_member(
        self, group_instance_id: str, old_member_id: str, new_member_id: str
    ) -> MemberMetadata:
        """Give a static member a new id; it keeps its assignment, client id and host."""
    def supports_protocols(self, protocol_type: str | None, names: Iterable[str]) -> bool:
        """Whether a member with this protocol type and these protocol names could join."""
    def candidate_protocols(self) -> set[str]:
        """Return the protocol names that all members support."""
    def select_protocol(self) -> str:
        """Return the winner of the vote; CoterieError without members or candidates."""
    def init_next_generation(self, now_ms: int) -> None:
        """Begin the next generation: CompletingRebalance with members, or else Empty."""
    def find_subscribed_topics(self) -> None:
        """Compute ``subscribed_topics`` again from the members' subscriptions."""
    def current_member_metadata(self) -> list[tuple[str, str | None, bytes]]:
        """Return (id, instance id or None, metadata) of every member, for the leader."""
    def overview(self) -> GroupOverview:
        """Return the group's entry of ListGroups."""
    def summary(self) -> GroupSummary:
        """Return the group's entry of DescribeGroups."""
