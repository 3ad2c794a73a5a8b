"""A classic member at its coordinator: JoinGroup, SyncGroup, LeaveGroup, and its generation.

What a member does with partitions is not known here.
Source: ``AbstractCoordinator.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie._core.testing.clients import Sent
from coterie.testing.client.errors import (
    CommitFailedError,
    DisconnectError,
    FencedInstanceIdError,
    KafkaError,
    RebalanceInProgressError,
    RetriableError,
    error_of,
)
from coterie.testing.client.heartbeats import Heartbeats
from coterie.testing.client.membership import Identity
from coterie.testing.client.network import NetworkClient
from coterie.values import Error

JOIN_LAPSE_MS = 5_000  # a JoinGroup may take the rebalance timeout, and this much longer
UNJOINED, PREPARING, COMPLETING, STABLE = "unjoined", "preparing", "completing", "stable"
_LOST_COORDINATOR = (Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR)


class Generation(NamedTuple):
    """A generation: its number, the member id, and the assignor that the group has chosen."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None


class MemberIdRequired(KafkaError):
    """The member id is known now; join again with it."""


class ClassicGroup:
    """The state of a classic member.

    Parameters
    ----------
    network : NetworkClient
        The connections.
    protocols : function
        Returns the member's subscription for each of its assignors, as JoinGroup names them.
    lead : function of a response to JoinGroup
        Returns the assignment of each member; called if the member leads.

    Attributes
    ----------
    state : str
        ``unjoined``, ``preparing``, ``completing`` or ``stable``.
    generation : Generation
        The generation that it is in.
    rejoin_needed, needs_prepare : bool
        Whether it has to join again; whether partitions have to be given up before.
    joining : Sent or None
        A join that has not been taken yet; its value is the assignment, as bytes.
    """

    def __init__(
        self,
        network: NetworkClient,
        *,
        protocols: Callable[[], dict[str, bytes]],
        lead: Callable[[Any], dict[str, bytes]],
    ) -> None:
        self._network, self._protocols, self._lead = network, protocols, lead
        self._group_id: str = network.settings["group.id"]
        self._instance_id: str | None = network.settings["group.instance.id"]
        self.heartbeats = Heartbeats(
            network, who=self._who, refused=self._heartbeat_refused, late=self._late
        )
        self.state, self.generation = UNJOINED, Generation()
        self.rejoin_needed = self.needs_prepare = True
        self.joining: Sent | None = None

    @property
    def in_rebalance(self) -> bool:
        """Whether it waits for the answer to JoinGroup or SyncGroup."""
        return self.state in (PREPARING, COMPLETING)

    @property
    def stable(self) -> bool:
        """Whether it has its assignment, and has not lost the generation since."""
        return self.state == STABLE

    @property
    def has_generation(self) -> bool:
        """Whether it is a member of a generation."""
        return self.generation.generation_id != -1 and bool(self.generation.member_id)

    def request_rejoin(self) -> None:
        """Join again in the next poll."""
        self.rejoin_needed = True

    def reset(self, *, keep_member_id: bool) -> None:
        """Leave the generation behind, and join again."""
        self.state = UNJOINED
        self.generation = Generation(-1, self.generation.member_id if keep_member_id else "")
        self.rejoin_needed = self.needs_prepare = True
        self._network.in_background = self._network.joins_in_background
        self._network.wake()

    # JoinGroup

    def join(self) -> Sent:
        """Send JoinGroup, unless a join is under way."""
        if self.joining is None:
            self.state = PREPARING
            self._network.in_background = self._network.joins_in_background
            self.joining = Sent()
            if self._network.coordinator is None:
                self.joining.fail(error_of(Error.COORDINATOR_NOT_AVAILABLE, "JoinGroup"))
            else:
                self._send_join(self.joining)
        return self.joining

    def _send_join(self, joining: Sent) -> None:
        network, settings, sent = self._network, self._network.settings, self.generation
        rebalance_ms: int = settings["max.poll.interval.ms"]
        network.note("join", sent)
        network.send_to_coordinator(
            *("join_group", lambda response: self._take_join(response, joining, sent)),
            *(self._group_id, sent.member_id),
            protocol_type="consumer",
            protocols=self._protocols(),
            session_timeout_ms=settings["session.timeout.ms"],
            rebalance_timeout_ms=rebalance_ms,
            group_instance_id=self._instance_id,
            client_id=network.client_id,
            require_known_member_id=True,
            supports_skipping_assignment=True,
            timeout_ms=max(settings["request.timeout.ms"], rebalance_ms + JOIN_LAPSE_MS),
        )

    def _take_join(self, response: Any, joining: Sent, sent: Generation) -> None:
        if response is None:
            self._disconnected(joining, "JoinGroup")
        elif response.error == Error.NONE:
            if self.state != PREPARING:
                joining.fail(RetriableError("the member has left the group meanwhile"))
                return
            self.state = COMPLETING
            self.heartbeats.start()
            self.generation = Generation(
                response.generation_id, response.member_id, response.protocol_name
            )
            self._sync(response, joining)
        elif response.error == Error.MEMBER_ID_REQUIRED:
            self.generation = Generation(-1, response.member_id)
            joining.fail(MemberIdRequired())
        else:
            if response.error == Error.UNKNOWN_MEMBER_ID and self.generation == sent:
                self.reset(keep_member_id=False)
            self._refused(joining, response.error, "JoinGroup")

    def _disconnected(self, joining: Sent, what: str) -> None:
        self._network.forget_coordinator()
        joining.fail(DisconnectError(f"{what} was disconnected"))

    def _refused(self, joining: Sent, error: Error, what: str) -> None:
        if error in _LOST_COORDINATOR:
            self._network.forget_coordinator()
        joining.fail(error_of(error, what))

    # SyncGroup

    def _sync(self, response: Any, joining: Sent) -> None:
        plans: dict[str, bytes] = {}
        if response.leader == response.member_id:
            try:
                plans = self._lead(response)
            except Exception as failure:  # of an assignor: it ends the poll of the leader
                joining.fail(KafkaError(f"the assignor failed: {failure}"))
                return
        if self._network.coordinator is None:
            joining.fail(error_of(Error.COORDINATOR_NOT_AVAILABLE, "SyncGroup"))
            return
        sent = self.generation
        self._network.send_to_coordinator(
            *("sync_group", lambda response: self._take_sync(response, joining, sent)),
            *(self._group_id, sent.generation_id, sent.member_id),
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocol_name=sent.protocol_name,
            assignments=plans,
        )

    def _take_sync(self, response: Any, joining: Sent, sent: Generation) -> None:
        if response is None:
            self._disconnected(joining, "SyncGroup")
            return
        error = response.error
        if error == Error.NONE:
            if self.state == COMPLETING and self.generation.protocol_name is not None:
                self.state, self.rejoin_needed = STABLE, False
                joining.complete(response.assignment)
            else:
                joining.fail(error_of(Error.ILLEGAL_GENERATION, "SyncGroup"))
            return
        lost = error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION)
        if lost and self.generation == sent:
            self.reset(keep_member_id=error == Error.ILLEGAL_GENERATION)
        self._refused(joining, error, "SyncGroup")

    # LeaveGroup

    def leave(self) -> None:
        """Leave the group, unless the member is static; no response is awaited."""
        network, member_id = self._network, self.generation.member_id
        known = network.coordinator is not None and self.state != UNJOINED
        if self._instance_id is None and known and member_id:
            network.note("leave")
            network.send_to_coordinator(
                *("leave_group", lambda response: None, self._group_id),
                members=[(member_id, None)],
            )
        self.reset(keep_member_id=False)

    # Heartbeats

    def _who(self) -> tuple[int, str] | None:
        return None if self.state in (UNJOINED, PREPARING) else self.generation[:2]

    def _late(self) -> None:
        self._network.note("late")
        self.leave()

    def _heartbeat_refused(self, error: Error, who: tuple[int, str]) -> bool:
        if error in _LOST_COORDINATOR:
            self._network.forget_coordinator()
        elif error == Error.REBALANCE_IN_PROGRESS:
            if self.state == STABLE:
                self.request_rejoin()
                self._network.wake()
            return True
        elif error in (Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID):
            if self.generation[:2] != who:
                return True  # it has another generation meanwhile
            self._network.note("fenced", error)
            self.reset(keep_member_id=error == Error.ILLEGAL_GENERATION)
            if error == Error.FENCED_INSTANCE_ID:
                self.heartbeats.failure = FencedInstanceIdError("heartbeat: FENCED_INSTANCE_ID")
        return False

    # Commits

    def commit_identity(self) -> Identity:
        """Return who commits.

        Raises
        ------
        RebalanceInProgressError, CommitFailedError
            It takes part in a rebalance; it is not in the group.
        """
        if self.state == STABLE:
            return self.generation.generation_id, self.generation.member_id, self._instance_id
        if self.in_rebalance:
            raise RebalanceInProgressError(
                "the consumer takes part in a rebalance; call poll(), then commit again"
            )
        raise CommitFailedError(
            "the offset commit cannot be completed, because the consumer is not part of an active "
            "group; it is likely that it was removed from the group"
        )

    def commit_refused(self, error: Error, sent: Identity) -> KafkaError:
        """Return the exception for a commit that was refused, and join again if necessary."""
        unchanged = self.generation[:2] == sent[:2]
        if error == Error.REBALANCE_IN_PROGRESS:
            self.request_rejoin()
            return RebalanceInProgressError(
                "the group rebalances; call poll() to take part, then commit again"
            )
        if error == Error.FENCED_INSTANCE_ID and unchanged:
            return FencedInstanceIdError("offset commit: FENCED_INSTANCE_ID")
        if not unchanged and self.state == PREPARING:
            return RebalanceInProgressError(
                "the generation of the commit is over; call poll(), then commit again"
            )
        if error != Error.FENCED_INSTANCE_ID:
            self.reset(keep_member_id=error == Error.ILLEGAL_GENERATION)
        return CommitFailedError()
