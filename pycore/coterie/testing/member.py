"""The scripted client of a group: what both protocols have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Signature, signature
from typing import Any, ClassVar, Self, cast

from coterie.base.arguments import function, sequence, text, whole, within
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.coordinator.pending import Pending
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.testing.assignors import Partitions
from coterie.testing.assignors.base import flat
from coterie.values import Error, OffsetCommitResponse

INT32_MAX = 2**31 - 1
MOST_PARTITIONS = 1_000_000  # of a topic: more is a mistake that would exhaust the memory
Listener = Callable[[str, list[tuple[str, int]]], None]


def partition_counts(topics: Any) -> dict[str, int]:
    """Return the partition count of each topic; 1 if only its name is given."""
    pairs = (
        topics.items()
        if isinstance(topics, Mapping)
        else ((topic, 1) for topic in sequence(topics, "topics"))
    )
    counts = {}
    for topic, value in pairs:
        count = whole(value, "the partition count of a topic")
        if not 0 <= count <= MOST_PARTITIONS:
            raise ArgumentError(
                f"a topic has at most {MOST_PARTITIONS} partitions, not {shown(count)}"
            )
        counts[text(topic, "a topic")] = count
    return counts


class Member:
    """A client of a group, driven by the test.

    ``Member(..., protocol="consumer")`` makes a :class:`ConsumerMember`, any other a
    :class:`ClassicMember`. An option of the other protocol must have its default.

    Parameters
    ----------
    coordinator
        The coordinator of the group; the member uses its clock.
    group_id, client_id, topics
        As of a consumer. Under the classic protocol ``topics`` may map each topic to its partition
        count, for the assignment if the member leads; in a plain list each topic has one partition.
        Under the consumer protocol only the names matter: the coordinator has the topics
        (:meth:`~coterie.GroupCoordinator.set_topics`).
    protocol
        ``"classic"`` or ``"consumer"`` (KIP-848), as a consumer's ``group.protocol``.
    group_instance_id
        Makes the member static.
    rebalance_timeout_ms
        As a consumer's ``max.poll.interval.ms``.
    on_rebalance
        Called as ``on_rebalance("revoked" | "assigned" | "lost", [(topic, partition)])``.
    auto_commit_interval_ms
        Commits ``positions`` this often, before a rebalance and before it leaves, as
        ``enable.auto.commit`` does. None: only :meth:`commit` does.
    assignor, session_timeout_ms, heartbeat_interval_ms
        Of the classic protocol: ``"range"``, ``"roundrobin"``, ``"sticky"`` or several in order of
        preference; heartbeats come more often than sessions end.
    server_assignor, subscribed_topic_regex, rack_id
        Of the consumer protocol: ``"uniform"`` or ``"range"``, None lets the broker choose; an
        expression in RE2's syntax, beside the topics or in place of them.

    Attributes
    ----------
    generation_id, member_id : int, str
        The generation, or the member's epoch; -1 or 0 outside of the group. A classic member gets
        its id from the coordinator; "" before.
    assignment : dict
        The partitions that it owns, ``{topic: [partition]}``.
    positions : dict
        The next offset of each partition, ``{(topic, partition): offset}``, set by the test, for
        automatic commits.
    events : list
        Its actions and the answers, in order: ``(at, what, detail)``, at in ms.

    Examples
    --------
    >>> from coterie import GroupCoordinator
    >>> coordinator = GroupCoordinator()
    >>> member = Member(coordinator, "g", client_id="app", topics={"orders": 2})
    >>> while not member.stable:
    ...     member.poll()
    ...     coordinator.advance_by(1000)
    >>> member.assignment
    {'orders': [0, 1]}
    """

    _of_protocol: ClassVar[dict[str, type[Member]]] = {}
    _defaults_of_others: ClassVar[dict[str, Any]] = {}  # options of the other protocol

    def __init_subclass__(cls, protocol: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if protocol:
            Member._of_protocol[protocol] = cls

    def __new__(cls, *_: Any, protocol: str = "classic", **__: Any) -> Self:
        if not isinstance(protocol, str) or protocol not in Member._of_protocol:
            known = ", ".join(map(repr, Member._of_protocol))
            raise ArgumentError(f"protocol must be one of {known}, not {shown(protocol)}")
        kind = Member._of_protocol[protocol] if cls is Member else cls
        return cast("Self", super().__new__(kind))

    def __init__(
        self,
        coordinator: GroupCoordinator,
        group_id: str,
        *,
        client_id: str,
        topics: Iterable[str] | Mapping[str, int] = (),
        protocol: str = "classic",
        assignor: str | Iterable[str] = "range",
        group_instance_id: str | None = None,
        session_timeout_ms: int = 45000,
        rebalance_timeout_ms: int = 300000,
        heartbeat_interval_ms: int = 3000,
        on_rebalance: Listener | None = None,
        auto_commit_interval_ms: int | None = None,
        server_assignor: str | None = None,
        subscribed_topic_regex: str | None = None,
        rack_id: str | None = None,
    ) -> None:
        if not isinstance(coordinator, GroupCoordinator):
            raise ArgumentError(f"coordinator must be a GroupCoordinator, not {shown(coordinator)}")
        if on_rebalance is not None:
            function(on_rebalance, "on_rebalance")
        self.coordinator = coordinator
        self.group_id, self.client_id = text(group_id, "group_id"), text(client_id, "client_id")
        self.partitions = partition_counts(topics)
        self.group_instance_id = group_instance_id
        if group_instance_id is not None and not text(group_instance_id, "group_instance_id"):
            raise ArgumentError("group_instance_id must not be empty; None: a dynamic member")
        self.rebalance_timeout_ms = within(
            rebalance_timeout_ms, "rebalance_timeout_ms", 1, INT32_MAX
        )
        self.on_rebalance = on_rebalance
        if auto_commit_interval_ms is not None:
            within(auto_commit_interval_ms, "auto_commit_interval_ms", 0, INT32_MAX)
        self.auto_commit_interval_ms = auto_commit_interval_ms
        self.assignment: Partitions = {}
        self.positions: dict[tuple[str, int], Any] = {}
        self.events: list[tuple[int, str, Any]] = []
        self.crashed = False
        self.next_heartbeat_ms = 0
        self._next_commit_ms = coordinator.now_ms + (auto_commit_interval_ms or 0)
        self._set_up(
            assignor=assignor,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            server_assignor=server_assignor,
            subscribed_topic_regex=subscribed_topic_regex,
            rack_id=rack_id,
        )

    # Of the class, too: ``inspect`` would show the parameters of ``__new__``.
    __signature__ = Signature(list(signature(__init__).parameters.values())[1:])

    def _set_up(self, **options: Any) -> None:
        """Take the options of the protocol; refuse those of the other one."""
        for name, default in self._defaults_of_others.items():
            if type(options[name]) is not type(default) or options[name] != default:
                raise ArgumentError(f"{name} is no option of this protocol: {shown(options[name])}")

    generation_id: int
    member_id: str

    def __repr__(self) -> str:
        return f"<Member {self.member_id or self.client_id} of {self.group_id!r}>"

    @property
    def stable(self) -> bool:
        """Whether it has its assignment and knows of no later rebalance."""
        raise NotImplementedError

    def join(self) -> Any:
        """Send the request that joins the group; :meth:`poll` does so by itself."""
        raise NotImplementedError

    def sync(self) -> Any:
        """Send SyncGroup, which only the classic protocol has; :meth:`poll` does so by itself."""
        raise CoterieError(f"{self!r} has no SyncGroup: it speaks the consumer protocol")

    def poll(self) -> None:
        """Act as a consumer's poll: take answers, heartbeat if due, rejoin if necessary."""
        raise NotImplementedError

    def leave(self) -> Any:
        """Leave the group; the next :meth:`poll` joins again."""
        raise NotImplementedError

    def commit(self, offsets: Mapping[tuple[str, int], Any]) -> Pending[OffsetCommitResponse]:
        """Commit offsets as a member; return the :class:`Pending` answer."""
        self._alive()
        return self.coordinator.offset_commit(
            self.group_id,
            offsets,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )

    def crash(self) -> None:
        """Stop for good, without a request to leave; the session ends by its timeout."""
        self._log("crash", self.member_id)
        self.crashed = True

    # Inside

    def _alive(self) -> None:
        if self.crashed:
            raise CoterieError(f"{self!r} has crashed; make a new Member to come back")

    def _log(self, what: str, detail: Any) -> None:
        self.events.append((self.coordinator.now_ms, what, detail))

    def _flat(self) -> list[tuple[str, int]]:
        return flat(self.assignment)

    def _call(self, what: str, partitions: list[tuple[str, int]]) -> None:
        self._log(what, partitions)
        if self.on_rebalance is not None:
            self.on_rebalance(what, partitions)

    def _auto_commit(self) -> None:
        """Commit the positions of its partitions, if it commits by itself."""
        if self.auto_commit_interval_ms is None:
            return
        self._next_commit_ms = self.coordinator.now_ms + self.auto_commit_interval_ms
        offsets = {p: self.positions[p] for p in self._flat() if p in self.positions}
        if offsets:
            self._log("commit", offsets)
            self.commit(offsets)

    def _auto_commit_if_due(self) -> None:
        if self.coordinator.now_ms >= self._next_commit_ms:
            self._auto_commit()

    def _forget_positions(self) -> None:
        """Forget the positions of partitions that it does not own any more."""
        owned = set(self._flat())
        self.positions = {p: offset for p, offset in self.positions.items() if p in owned}


def refusal(member: Member, what: str, error: Error) -> CoterieError:
    """Return the error for a request that a client does not repeat."""
    return CoterieError(f"{member!r}: {what} was refused with {error.name}")
