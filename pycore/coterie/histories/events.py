"""The events of a history: what happens to the members, the network, the coordinator, the topics.

The ``repr`` of an event is Python that makes it again; fields with their default are left out.
Members are numbered from 0; those that join later come after the first ones. An event that has
nothing to act on, such as the crash of a member that is down, does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

MOMENTS = ("processing", "commit", "rebalance", "callback")
"""Moments of a member at which an event may strike: ``during``."""


@dataclass(frozen=True, repr=False)
class Event:
    """Something that happens ``at_ms`` after the start of a history."""

    at_ms: int

    def __repr__(self) -> str:
        shown = (
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name == "at_ms" or getattr(self, f.name) != f.default
        )
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Crash(Event):
    """A member dies without a goodbye and starts again ``down_ms`` later.

    ``during`` delays it to the member's next such moment (``MOMENTS``).
    """

    member: int = 0
    down_ms: int = 1000
    during: str | None = None


@dataclass(frozen=True, repr=False)
class Close(Event):
    """A member ends its loop, closes its consumer, and stays away until the faults end."""

    member: int = 0


@dataclass(frozen=True, repr=False)
class Restart(Event):
    """A member ends its loop, closes its consumer, and starts again ``down_ms`` later."""

    member: int = 0
    down_ms: int = 1000


@dataclass(frozen=True, repr=False)
class Join(Event):
    """One more member starts."""


@dataclass(frozen=True, repr=False)
class Pause(Event):
    """A process stands still with all its threads, as in a stop-the-world collection."""

    member: int = 0
    pause_ms: int = 1000
    during: str | None = None


@dataclass(frozen=True, repr=False)
class SlowProcessing(Event):
    """The records of a member take ``factor`` times as long, for ``lasts_ms``."""

    member: int = 0
    lasts_ms: int = 60_000
    factor: int = 10


@dataclass(frozen=True, repr=False)
class FailWrite(Event):
    """The external write of a member's next record fails: :class:`~coterie.histories.WriteFailed`.

    The record is not processed.
    """

    member: int = 0


@dataclass(frozen=True, repr=False)
class SlowWrite(Event):
    """The external write of a member's next record takes ``lasts_ms`` longer."""

    member: int = 0
    lasts_ms: int = 60_000


@dataclass(frozen=True, repr=False)
class LoseRequest(Event):
    """The next request of a member, of this API if one is named, does not arrive."""

    member: int = 0
    api: str | None = None


@dataclass(frozen=True, repr=False)
class LoseResponse(Event):
    """The response to a member's next request, of this API if one is named, does not arrive."""

    member: int = 0
    api: str | None = None


@dataclass(frozen=True, repr=False)
class Cut(Event):
    """A member has no connection for ``lasts_ms``."""

    member: int = 0
    lasts_ms: int = 1000
    during: str | None = None


@dataclass(frozen=True, repr=False)
class Failover(Event):
    """The coordinator moves: the new one answers after it has loaded the log for ``load_ms``."""

    load_ms: int = 100


@dataclass(frozen=True, repr=False)
class FailCommit(Event):
    """The next OffsetCommit of a member is refused with this error, by its name in Kafka."""

    member: int = 0
    error: str = "COORDINATOR_LOAD_IN_PROGRESS"


@dataclass(frozen=True, repr=False)
class RollingDeploy(Event):
    """One member after the other, ``step_ms`` apart, is restarted.

    From then on its first choice is another ``assignor``, before those that it has, or it speaks
    another ``protocol``: ``"classic"`` or ``"consumer"``.
    """

    step_ms: int = 10_000
    assignor: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, repr=False)
class AddPartitions(Event):
    """A topic gets ``count`` more partitions."""

    topic: str = ""
    count: int = 1


@dataclass(frozen=True, repr=False)
class DeleteTopic(Event):
    """A topic is deleted."""

    topic: str = ""


@dataclass(frozen=True, repr=False)
class ExpireOffsets(Event):
    """All members are closed until the committed offsets have expired; then they start again."""


@dataclass(frozen=True, repr=False)
class DeleteGroup(Event):
    """An administrator removes all members from the group and deletes it."""


EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        *(Crash, Close, Restart, Join, Pause, SlowProcessing, LoseRequest, LoseResponse, Cut),
        *(Failover, FailCommit, RollingDeploy, AddPartitions, DeleteTopic, ExpireOffsets),
        *(DeleteGroup, FailWrite, SlowWrite),
    )
}
"""The kinds of events by name."""
