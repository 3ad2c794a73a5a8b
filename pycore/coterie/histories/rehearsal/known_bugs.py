"""Known bugs of Kafka's releases that a rehearsal meets, and limits that look like bugs.

A table, and what follows a play: where the coordinator has the bug, the play behaves so by itself;
here the moment gets the name of its ticket. Bugs without a sign in a play, and those of releases
that cannot be played, are in the table alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from coterie.consumer_groups import ConsumerGroupChange, DescribedConsumerGroup
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.histories.rehearsal.history import PROTOCOL
from coterie.testing.assignors import ASSIGNORS
from coterie.testing.client.settings import STRATEGY

KAFKA = (
    *("4.0.0", "4.0.1", "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.2.2"),
    *("4.3.0", "4.3.1", "4.4.0"),
)
"""The releases of which the table speaks."""
PLAYED = {  # coterie's release -> Kafka's
    "4.1": "4.1.1",
    "4.1.2": "4.1.2",
    "4.2": "4.2.2",
    "4.3": "4.3.0",
    "4.3.1": "4.3.1",
    "4.4": "4.4.0",
}


class KnownBug(NamedTuple):
    """A bug, or a limit: since which release, until which (each with it), when and what."""

    ticket: str
    first: str
    last: str
    when: str
    what: str
    without: tuple[str, ...] = ()
    """Releases between the first and the last one that have a fix."""

    @property
    def releases(self) -> tuple[str, ...]:
        """Kafka's releases that have it."""
        between = KAFKA[KAFKA.index(self.first) : KAFKA.index(self.last) + 1]
        return tuple(release for release in between if release not in self.without)

    def strikes_in(self, release: str) -> bool:
        """Whether a release has it: one of Kafka (``4.0.1``), or all that begin so (``4.0``)."""
        exact = PLAYED.get(release, release)
        return any(one == exact or one.startswith(f"{exact}.") for one in self.releases)


AGAIN_MS = 5_000  # a client that is fenced joins again so soon
UPGRADE, FENCED, DOWNGRADE, LOAD = "KAFKA-18134", "KAFKA-19233", "KAFKA-19546", "KAFKA-19862"
UNLOAD, COMMITS, STREAMS, VOTE = "KAFKA-20115", "KAFKA-20066", "KAFKA-20254", "KAFKA-20434"
EMPTIED, UNREADABLE, FULL = "KAFKA-20442", "KAFKA-20662", "KAFKA-20601"
DISABLED, INSTANCE, STALE_TARGET = "KAFKA-20640", "KAFKA-20747", "KAFKA-21582"
LIBRDKAFKA = "librdkafka #4368"
KNOWN_BUGS = {
    bug.ticket: bug
    for bug in (
        KnownBug(
            *(UPGRADE, "4.0.0", "4.4.0"),
            "a consumer of the consumer protocol joins a group whose assignor writes user data",
            "GROUP_ID_NOT_FOUND: such a group is not converted",
        ),
        KnownBug(
            *(FENCED, "4.0.0", "4.1.2"),
            "a fenced member joins again while the coordinator still has it",
            "FENCED_MEMBER_EPOCH until the session of its old epoch ends",
        ),
        KnownBug(
            *(DOWNGRADE, "4.0.0", "4.1.0"),
            "the last member of the consumer protocol is replaced by a static classic one that "
            "reads other topics",
            "no rebalance: nobody reads the new topics",
            without=("4.0.1",),  # not known
        ),
        KnownBug(
            *(LOAD, "4.0.0", "4.1.1"),
            "the coordinator moves while its log is compacted",
            "the load fails, and all groups of the partition get NOT_COORDINATOR",
        ),
        KnownBug(
            *(UNLOAD, "4.0.1", "4.1.1"),
            "a broker loses a partition of the offsets topic while a batch waits to be written",
            "joins and syncs that wait are not answered before their timeout",
        ),
        KnownBug(
            *(COMMITS, "4.0.0", "4.2.2"),
            "the epoch of a member rises while its commit is on the way",
            "STALE_MEMBER_EPOCH, also for partitions that it keeps (KIP-1251)",
        ),
        KnownBug(
            *(STREAMS, "4.2.0", "4.2.0"),
            "a classic group of Kafka Streams with committed offsets becomes a streams group",
            "a later load of the coordinator fails",
        ),
        KnownBug(
            *(VOTE, "4.0.0", "4.3.1"),
            "static members come back with another group.remote.assignor",
            "the old assignment stays until something else raises the epoch",
        ),
        KnownBug(
            *(EMPTIED, "4.3.0", "4.3.1"),
            "a consumer joins a group that has just lost its last member",
            "it gets partitions only after the assignment interval, with its next heartbeat",
        ),
        KnownBug(
            *(UNREADABLE, "4.0.0", "4.3.1"),
            "a classic client whose metadata cannot be read joins a consumer group",
            "UNKNOWN_SERVER_ERROR; INCONSISTENT_GROUP_PROTOCOL from 4.4 on (also KAFKA-20570)",
        ),
        KnownBug(
            *(FULL, "4.0.0", "4.3.1"),
            "a static member restarts in a group that has group.consumer.max.size members",
            "GROUP_MAX_SIZE_REACHED",
        ),
        KnownBug(
            *(DISABLED, "4.0.0", "4.3.0"),
            "a classic client joins a consumer group under the migration policy disabled",
            "it is let in, and the group stays one of both protocols",
            without=("4.2.2",),
        ),
        KnownBug(
            *(INSTANCE, "4.0.0", "4.3.1"),
            "a member has changed its group.instance.id, and another one takes the old id",
            "UNRELEASED_INSTANCE_ID as long as the first one lives",
        ),
        KnownBug(
            *(STALE_TARGET, "4.0.0", "4.4.0"),
            "a static member converts a classic group in the middle of a rebalance",
            "the assignment from before the rebalance stays (also KAFKA-21581)",
        ),
    )
}
LIMITS = {
    LIBRDKAFKA: (
        "partition.assignment.strategy has eager and cooperative assignors",
        "a client of librdkafka does not start",
    ),
}
"""Of clients, whatever the release of the brokers: when, and what."""


def bugs_of(release: str) -> list[KnownBug]:
    """Return the known bugs of a release."""
    return [bug for bug in KNOWN_BUGS.values() if bug.strikes_in(release)]


def described(ticket: str) -> tuple[str, str, str]:
    """Return the releases that have a bug, in words, when it strikes and what happens."""
    if ticket in LIMITS:
        return "all", *LIMITS[ticket]
    bug = KNOWN_BUGS[ticket]
    ends = [bug.first, bug.last] if len(bug.releases) > 2 else bug.releases
    but = f", not {', '.join(bug.without)}" if bug.without and len(bug.releases) > 2 else ""
    return (" to " if len(bug.releases) > 2 else ", ").join(ends) + but, bug.when, bug.what


class Finding(NamedTuple):
    """A known bug that struck: when in the scenario, and whom (empty: the group)."""

    at: int
    ticket: str
    client: str


class Findings:
    """Follows a play; ``found`` has what struck, in order.

    Parameters
    ----------
    now_ms : function
        Returns the time of the scenario.
    coordinator : function
        Returns the present coordinator.
    group : str
        The group that is played.
    """

    def __init__(
        self, now_ms: Callable[[], int], coordinator: Callable[[], GroupCoordinator], group: str
    ) -> None:
        self.found: list[Finding] = []
        self._now_ms, self._coordinator, self._group = now_ms, coordinator, group
        self._assignor_of: dict[str, Any] = {}  # by instance id, of the consumer protocol
        self._fenced_ms: dict[str, int] = {}  # by client
        self._type, self._state, self._number = "", "", 0  # of the group
        self._writes_user_data = False

    def _find(self, ticket: str, client: str = "") -> None:
        bug, config = KNOWN_BUGS.get(ticket), self._coordinator().config
        if bug is None or bug.strikes_in(config["coterie.behaviour"]):
            self.found.append(Finding(self._now_ms(), ticket, client))

    def started(self, client: str, settings: Mapping[str, Any], odd: Iterable[str]) -> None:
        """Take a consumer that starts; ``odd``: what it writes otherwise than Kafka's client."""
        self._writes_user_data |= "user_data" in odd
        if settings[PROTOCOL] == "classic":
            names = _names(settings)
            if len({ASSIGNORS[name].cooperative for name in names}) > 1:
                self._find(LIBRDKAFKA, client)
            return
        instance, assignor = (
            settings.get("group.instance.id"),
            settings.get("group.remote.assignor"),
        )
        if instance is not None:
            if self._assignor_of.setdefault(instance, assignor) != assignor:
                self._find(VOTE, client)
            self._assignor_of[instance] = assignor

    def assigned(self, client: str, settings: Mapping[str, Any]) -> None:
        """Take a consumer that is a member with partitions."""
        if self._type == "consumer" and settings[PROTOCOL] == "classic":
            policy = self._coordinator().config["group.consumer.migration.policy"]
            if policy == "disabled":
                self._find(DISABLED, client)

    def ended(self, client: str, error: str, settings: Mapping[str, Any]) -> None:
        """Take an error that ended a consumer."""
        instance = settings.get("group.instance.id")
        if error == "UNKNOWN_SERVER_ERROR" and settings[PROTOCOL] == "classic":
            self._find(UNREADABLE, client)
        elif error == "GROUP_ID_NOT_FOUND" and self._writes_user_data:
            self._find(UPGRADE, client)
        elif error == "GROUP_MAX_SIZE_REACHED" and instance in self._instances():
            self._find(FULL, client)
        elif error == "UNRELEASED_INSTANCE_ID" and instance not in self._instances():
            self._find(INSTANCE, client)

    def fenced(self, client: str, error: str) -> None:
        """Take an error of a consumer that joins again."""
        if error == "FENCED_MEMBER_EPOCH":
            if self._now_ms() - self._fenced_ms.get(client, -(2**40)) < AGAIN_MS:
                self._find(FENCED, client)
            self._fenced_ms[client] = self._now_ms()

    def commit_refused(self, client: str, error: str) -> None:
        """Take a commit that was refused."""
        if error == "STALE_MEMBER_EPOCH":
            self._find(COMMITS, client)

    def loaded(self) -> None:
        """Take the end of a load."""
        if self._coordinator().load_error is not None:
            self._find(LOAD)

    def classic(self, state: str) -> None:
        """Take a new state of the classic group."""
        self._type, self._state = "classic", state

    def generation(self, number: int) -> None:
        """Take a generation of the classic group."""
        self._number = number

    def changed(self, event: ConsumerGroupChange) -> None:
        """Take a new state of the consumer group."""
        rebalancing = self._state in ("PreparingRebalance", "CompletingRebalance")
        if event.type == "consumer":
            if self._type == "classic" and rebalancing and event.group_epoch == self._number:
                self._find(STALE_TARGET)
            if (self._type, self._state, event.state) == ("consumer", "Empty", "Assigning"):
                self._find(EMPTIED)
        self._type, self._state = event.type, event.state or ""

    def _instances(self) -> set[str | None]:
        """Return the instance ids of the members of the consumer group."""
        group = self._coordinator().snapshot(self._group)
        if not isinstance(group, DescribedConsumerGroup):
            return set()
        return {member.instance_id for member in group.members}


def _names(settings: Mapping[str, Any]) -> list[str]:
    """Return the assignors of a classic consumer."""
    value = settings[STRATEGY]
    return value.split(",") if isinstance(value, str) else list(value)
