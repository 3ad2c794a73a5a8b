"""A consumer of the 0.9 design: a thin client with the five states of the document.

It has one request in progress at a time. Late responses, from before its last change of state, are
recognised by the number of the request and ignored.
"""

from __future__ import annotations

from enum import Enum

from coterie.designs.coordinator09 import messages as m
from coterie.designs.coordinator09.messages import Code
from coterie.designs.coordinator09.world import World


class ConsumerState(Enum):
    """States of a consumer, as in the document; in the last one it has given up."""

    DOWN = "Down"
    DISCOVER = "Start up & discover coordinator"
    PART = "Part of a group"
    REDISCOVER = "Rediscover coordinator"
    STOPPED = "Stopped consumption"
    FAILED = "Failed"


class CoordinatedConsumer:
    """One consumer of a group.

    Parameters
    ----------
    world
        Its clock, network and ledgers.
    name, group_id, topics
        As in the scenario.
    session_timeout_ms
        After this time without a response it looks for another coordinator.
    strategy
        ``range`` or ``roundrobin``: how the coordinator assigns.
    """

    def __init__(
        self,
        world: World,
        name: str,
        group_id: str,
        topics: tuple[str, ...],
        *,
        session_timeout_ms: int,
        strategy: str,
    ) -> None:
        self.world, self.name, self.group_id, self.topics = world, name, group_id, topics
        self.session_timeout_ms, self.strategy = session_timeout_ms, strategy
        self.state = ConsumerState.DOWN
        self.id, self.generation_id = "", 0
        self.partitions: tuple[tuple[str, int], ...] = ()
        self.fetching = False
        self.coordinator: int | None = None
        self.error: Code | None = None
        self.number = 0  # of the present request
        self.last_response_ms = 0
        self.cut = self.held = False
        self.delayed: list[tuple[int, m.GroupResponse]] = []  # while the connection is held
        self._broker_index = len(world.broker_ids) - 1
        self._ids = 0

    @property
    def alive(self) -> bool:
        """Whether its process runs and subscribes to topics."""
        return self.state not in (ConsumerState.DOWN, ConsumerState.FAILED)

    @property
    def in_group(self) -> str:
        """Its state, by name."""
        return self.state.value

    def new_id(self) -> str:
        """Return the id that a coordinator gives this consumer, in place of a UUID."""
        self._ids += 1
        return f"{self.name}-{self._ids}"

    # The program

    def start(self) -> None:
        """Start up: find the coordinator, then join."""
        self._enter(ConsumerState.DISCOVER)
        self._discover()
        interval_ms = self.world.settings.auto_commit_ms
        if interval_ms:
            self.world.schedule.call_later(interval_ms, self._commit, interval_ms)

    def close(self) -> None:
        """Commit, leave the group, and go."""
        self._stop_fetching(commit=not self.cut)
        if self.coordinator is not None and self.id:
            left = m.LeaveGroupRequest(self.group_id, self.id)
            self.world.to_broker(self, self.coordinator, 0, left)
        self._end(ConsumerState.DOWN)

    def crash(self) -> None:
        """End without a commit and without a request to leave."""
        self._stop_fetching(commit=False)
        self._end(ConsumerState.DOWN)

    def _end(self, state: ConsumerState) -> None:
        """Do nothing more, whatever comes."""
        self._enter(state)
        self.number += 1

    # The network

    def refused(self, number: int) -> None:
        """Handle a refused connection."""
        if number == self.number and self.state is not ConsumerState.PART:
            self._retry()

    def receive(self, number: int, response: m.GroupResponse) -> None:
        """Handle a response."""
        if number != self.number:
            return
        self.last_response_ms = self.world.schedule.now_ms
        if isinstance(response, m.ConsumerMetadataResponse):
            self._discovered(response)
        elif isinstance(response, m.JoinGroupResponse):
            self._joined(response)
        else:
            self._heartbeat_answered(response)

    def _send(self, broker: int, request: m.GroupRequest, *, within_ms: int) -> None:
        """Send a request; without a response in time, look for a coordinator."""
        self.number += 1
        self.world.to_broker(self, broker, self.number, request)
        self.world.schedule.call_later(within_ms, self._unanswered, self.number)

    def _unanswered(self, number: int) -> None:
        if number == self.number:
            self._rediscover()

    def _retry(self) -> None:
        """Look for the coordinator again, after a pause."""
        self.number += 1
        pause_ms = self.world.settings.retry_ms
        self.world.schedule.call_later(pause_ms, self._after_pause, self.number)

    def _after_pause(self, number: int) -> None:
        if number == self.number:
            self._discover()

    # States

    def _enter(self, state: ConsumerState) -> None:
        if state is not self.state:
            self.state = state
            self.world.log(self.name, state.value, str(self.generation_id))

    def _discover(self) -> None:
        """Ask the next broker for the coordinator."""
        self._broker_index = (self._broker_index + 1) % len(self.world.broker_ids)
        broker = self.world.broker_ids[self._broker_index]
        patience_ms = self.world.settings.request_timeout_ms
        self._send(broker, m.ConsumerMetadataRequest(self.group_id), within_ms=patience_ms)

    def _rediscover(self) -> None:
        """Look for the coordinator, and go on fetching."""
        if self.state in (ConsumerState.PART, ConsumerState.STOPPED):
            self._enter(ConsumerState.REDISCOVER)
        self._discover()

    def _discovered(self, response: m.ConsumerMetadataResponse) -> None:
        if response.error is not Code.NONE or response.coordinator is None:
            self._retry()
            return
        self.coordinator = response.coordinator
        if self.state is ConsumerState.REDISCOVER and self.id:
            self._heartbeat()
        else:
            self._join()

    def _join(self) -> None:
        assert self.coordinator is not None
        request = m.JoinGroupRequest(
            self.group_id, self.session_timeout_ms, self.topics, self.id, self.strategy
        )
        patience_ms = self.session_timeout_ms + self.world.settings.join_patience_ms
        self._send(self.coordinator, request, within_ms=patience_ms)

    def _joined(self, response: m.JoinGroupResponse) -> None:
        if response.error is Code.NONE:
            self.id, self.generation_id = response.consumer_id, response.generation_id
            self.partitions = response.partitions
            self._enter(ConsumerState.PART)
            self._fetch()
            self._heartbeat()
        elif response.error is Code.UNKNOWN_CONSUMER_ID:
            self.id = ""
            self._join()
        elif response.error in (
            Code.NOT_COORDINATOR_FOR_GROUP,
            Code.COORDINATOR_STARTUP_NOT_COMPLETE,
        ):
            self._retry()
        else:
            self.error = response.error
            self._end(ConsumerState.FAILED)

    def _heartbeat(self) -> None:
        """Send a heartbeat now, and one at each interval while part of the group."""
        request = m.HeartbeatRequest(self.group_id, self.generation_id, self.id)
        assert self.coordinator is not None
        if self.state is ConsumerState.REDISCOVER:
            self._send(self.coordinator, request, within_ms=self.session_timeout_ms)
            return
        self.number += 1
        self.world.to_broker(self, self.coordinator, self.number, request)
        self._schedule_heartbeat(self.number)

    def _schedule_heartbeat(self, number: int) -> None:
        """Schedule the next heartbeat, or the end of a session without responses."""
        interval_ms = max(1, self.session_timeout_ms // self.world.settings.heartbeat_frequency)
        schedule = self.world.schedule
        session_ends_ms = self.last_response_ms + self.session_timeout_ms
        delay_ms = min(interval_ms, session_ends_ms - schedule.now_ms)
        schedule.call_later(delay_ms, self._heartbeat_due, number)

    def _heartbeat_due(self, number: int) -> None:
        if number != self.number:
            return
        now_ms = self.world.schedule.now_ms
        if now_ms - self.last_response_ms >= self.session_timeout_ms:
            self._rediscover()
            return
        assert self.coordinator is not None
        request = m.HeartbeatRequest(self.group_id, self.generation_id, self.id)
        self.world.to_broker(self, self.coordinator, number, request)
        self._schedule_heartbeat(number)

    def _heartbeat_answered(self, response: m.HeartbeatResponse) -> None:
        if response.error is Code.NONE:
            if self.state is ConsumerState.REDISCOVER:
                self._enter(ConsumerState.PART)
                self._fetch()
                self.number += 1
                self._schedule_heartbeat(self.number)
        elif response.error is Code.ILLEGAL_GENERATION:
            self._stop_and_join()
        elif response.error is Code.UNKNOWN_CONSUMER_ID:
            self.id = ""
            self._stop_and_join()
        else:  # not the coordinator, or not yet
            if self.state is ConsumerState.PART:
                self._enter(ConsumerState.REDISCOVER)
            self._retry()

    def _stop_and_join(self) -> None:
        self._enter(ConsumerState.STOPPED)
        self._stop_fetching(commit=True)
        self._join()

    # Fetching

    def _fetch(self) -> None:
        if not self.fetching:
            self.fetching = True
            self.world.take(self)

    def _stop_fetching(self, *, commit: bool) -> None:
        if self.fetching:
            self.fetching = False
            self.world.give(self, commit=commit)

    def _commit(self, interval_ms: int) -> None:
        if self.alive:
            if self.state is ConsumerState.PART and not self.cut:
                self.world.commit(self)
            self.world.schedule.call_later(interval_ms, self._commit, interval_ms)
