"""Replay the heartbeats of consumer groups for a what-if.

A client that is in the same state as in the recorded run sends what the trace has. After that it
sends its own epoch and partitions. It acknowledges at once what it is assigned, and joins again at
once when it is fenced, as real clients do. Session timeouts are settings of the broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie._core.codec.schema import decode_key
from coterie.consumer_groups import ConsumerGroupChange, decode_topic_id
from coterie.events import Append
from coterie.values import Error

OWNED, CLIENT_ID = 5, 6  # indices into a heartbeat's details: rack, timeout, names, regex, ...
MEMBER_KEY = 5  # the version of the key of a member's record
FENCED = {Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH}
Owned = dict[bytes, tuple[int, ...]]
STATES = ("Assigning", "Reconciling")  # those that no classic group has


@dataclass(slots=True)
class ConsumerClient:
    """A client of the consumer protocol, in the recorded and in the changed run."""

    fields: tuple[Any, ...] = (None, -1, None, None, None, None, "", "", 1)
    recorded_epoch: int = 0
    epoch: int = 0
    recorded_owned: Owned | None = None
    owned: Owned | None = None
    acknowledged: Owned | None = None
    rejoins: bool = False  # a join that the trace does not have is under way

    def request(self, epoch: int, details: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        """Return the epoch and details to send for a request of the trace."""
        self._remember(details)
        in_sync = (self.epoch, self.owned) == (self.recorded_epoch, self.recorded_owned)
        if epoch < 0 or in_sync:
            self.acknowledged = details[OWNED] if details[OWNED] is not None else self.acknowledged
            return epoch, details
        if self.epoch <= 0:
            return self.join()
        if epoch == 0 or details[OWNED] == self.recorded_owned:
            return self.acknowledgement(details)
        return (self.epoch if epoch == self.recorded_epoch else epoch), details

    def acknowledgement(self, details: tuple[Any, ...] | None = None) -> tuple[int, Any]:
        if details is None:
            details = (None, -1, None, None, None, None, *self.fields[CLIENT_ID:])
        self.acknowledged = self.owned or {}
        return self.epoch, (*details[:OWNED], self.acknowledged, *details[CLIENT_ID:])

    def join(self) -> tuple[int, tuple[Any, ...]]:
        """Return a heartbeat that joins with all that the client ever named."""
        self.acknowledged = {}
        return 0, (*self.fields[:OWNED], {}, *self.fields[CLIENT_ID:])

    def record(self, response: Any) -> None:
        if response.error in FENCED:
            self.recorded_epoch, self.recorded_owned = 0, None
        elif response.error == Error.NONE:
            self.recorded_epoch = max(response.member_epoch, 0)
            if self.recorded_epoch == 0:
                self.recorded_owned = None
            elif response.assignment is not None:
                self.recorded_owned = owned_of(response.assignment)

    def take(self, response: Any, recorded: Any) -> tuple[int, tuple[Any, ...]] | None:
        """Take the response of the changed run; return what the client then sends at once."""
        fine = recorded is None or recorded.error == Error.NONE
        if response.error in FENCED:
            self.epoch, self.owned = 0, None
            again, self.rejoins = fine and not self.rejoins and self.fields[1] != -1, True
            return self.join() if again else None
        if response.error != Error.NONE:
            return None
        self.rejoins = False
        self.epoch = max(response.member_epoch, 0)
        if self.epoch == 0:
            self.owned = None
        if response.assignment is None:
            return None
        self.owned = owned_of(response.assignment)
        as_recorded = recorded is not None and recorded.assignment == response.assignment
        if as_recorded or self.owned == self.acknowledged:
            return None
        return self.acknowledgement()

    def _remember(self, details: tuple[Any, ...]) -> None:
        pairs = zip(details, self.fields, strict=True)
        self.fields = tuple([new if new not in (None, -1) else old for new, old in pairs])


def owned_of(assignment: Iterable[Any]) -> Owned:
    return {decode_topic_id(topic.topic_id): topic.partitions for topic in assignment}


def timed_out(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Return (group, member) of each member that was removed, of events that a timer caused."""
    removed = []
    for event in events:
        if isinstance(event, Append) and event.value is None:
            key = decode_key(event.key)
            if key["version"] == MEMBER_KEY:
                removed.append((event.group_id, key["data"]["memberId"]))
    return removed


def epochs_and_states(events: Iterable[Any], end_ms: int) -> tuple[int, int, Mapping[str, int]]:
    """Return how often group epochs rose, how many targets there were, and ms by state."""
    rose = targets = 0
    ms_in_state: Counter[str] = Counter()
    last: dict[str, ConsumerGroupChange] = {}
    for event in events:
        if not isinstance(event, ConsumerGroupChange):
            continue
        before = last.pop(event.group_id, None)
        if before is not None and before.state is not None:
            ms_in_state[before.state] += event.at - before.at
        if event.state is not None:
            last[event.group_id] = event
            rose += before is None or event.group_epoch > before.group_epoch
            targets += event.assignment_epoch > (0 if before is None else before.assignment_epoch)
    for event in last.values():
        ms_in_state[str(event.state)] += end_ms - event.at
    return rose, targets, ms_in_state
