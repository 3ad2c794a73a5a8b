"""Compare a broker's settings with what its answers show of them.

A request log has no settings, but its answers depend on them: an interval of heartbeats is in the
answer itself, a join that begins a group is answered after the initial delay, and a session that
was accepted, refused or ended bounds the setting. Where several values fit, the roundest is named.
A setting of one group is not distinguished from the broker's own. A setting that shows in no single
answer, such as the release, is tried: the trace is run with each of its values.
Sources: ``GroupCoordinatorConfig.java``, ``GroupMetadataManager.java``, ``GroupCoordinator.scala``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from coterie.coordinator.close_requests import Step
from coterie.coordinator.config import REPLAYING
from coterie.coordinator.restarts import Outage
from coterie.coordinator.shown_retention import LEAST_MS, bounds
from coterie.coordinator.trace_removals import Removal

INTERVAL = "group.consumer.heartbeat.interval.ms"
SESSION = "group.consumer.session.timeout.ms"
DELAY = "group.initial.rebalance.delay.ms"
LEAST, MOST = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
METADATA = "offset.metadata.max.bytes"
SIZES = {
    "join_group": "group.max.size",
    "consumer_group_heartbeat": "group.consumer.max.size",
}
RETENTION = "offsets.retention.minutes"
TRIED: dict[str, tuple[Any, ...]] = {
    "coterie.behaviour": REPLAYING,
    SESSION: (3000, 5000, 6000, 10_000, 15_000, 20_000, 30_000, 60_000),
    "group.consumer.assignment.interval.ms": (0, 100, 500, 2000, 3000, 5000, 10_000),
    "group.consumer.assignors": ("range,uniform", "uniform", "range"),
    "group.consumer.migration.policy": ("disabled", "upgrade", "downgrade"),
}
LATE_MS = 100  # by which an answer may come after its timer


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting that the answers contradict: a value that fits, and how they show it."""

    name: str
    value: Any
    why: str

    def __str__(self) -> str:
        return f"--set {self.name}={self.value}: {self.why}"


def shown_settings(
    steps: Iterable[Step],
    config: Mapping[str, Any],
    downs: Iterable[Outage] = (),
    removals: Collection[Removal] = (),
    absent_ms: Mapping[str, float] = MappingProxyType({}),
) -> list[Shown]:
    """Return the settings of ``config``, complete, that the broker's answers contradict.

    ``downs`` are the broker's outages, in order: a silence over one says nothing of a session.
    ``removals`` are the broker's own of offsets, as its server log shows them; ``absent_ms`` is
    when the log last shows each topic to be absent.
    """
    steps = list(steps)
    found = [*_retention(steps, config, removals, absent_ms)]
    steps = [step for step in steps if step[2] is not None]
    found += [
        *_interval(steps, config),
        *_session(steps, config, [down.first_ms for down in downs]),
        *_delay(steps, config, [down.first_ms for down in downs]),
        *_session_bounds(steps, config),
        *_sizes(steps, config),
        *_metadata(steps, config),
    ]
    return sorted(found, key=lambda shown: shown.name)


def _of(steps: Iterable[Step], op: str) -> Iterator[tuple[float, dict[str, Any], dict[str, Any]]]:
    """Yield (when it was handled, request, answer) of an operation."""
    for exchange, event, answer in steps:
        if event["op"] == op and answer is not None:
            yield exchange.handled_ms, event, answer


def _interval(steps: list[Step], config: Mapping[str, Any]) -> Iterator[Shown]:
    """Take the interval of most groups: a group may have one of its own."""
    by_group: dict[str, int] = {}
    for _, event, answer in _of(steps, "consumer_group_heartbeat"):
        if answer["error"] == "NONE" and answer["heartbeat_interval_ms"] > 0:
            by_group[event["group_id"]] = answer["heartbeat_interval_ms"]
    if by_group:
        ((value, groups),) = Counter(by_group.values()).most_common(1)
        if config[INTERVAL] not in by_group.values():
            yield Shown(INTERVAL, value, f"the interval in the answers to {_groups(groups)}")


@dataclass(slots=True)
class _Group:
    epoch: int = 0
    changed: bool = True  # by a request: the next epoch shows no end of a session
    steady_ms: float = 0.0  # when a member was last answered with this epoch
    heard_ms: dict[str, float] = field(default_factory=dict)  # the last heartbeat of each member
    named: dict[str, list[Any]] = field(default_factory=dict)  # its subscription


def _session(
    steps: list[Step], config: Mapping[str, Any], restarts: list[float]
) -> Iterator[Shown]:
    """Bound the session timeout by silences that members survived, and those that ended them."""
    groups: dict[str, _Group] = defaultdict(_Group)
    survived, ended = 0.0, float("inf")
    last_ms: dict[tuple[str, str], float] = {
        (event["group_id"], event["member_id"] or answer["member_id"]): at_ms
        for at_ms, event, answer in _of(steps, "consumer_group_heartbeat")
        if answer["error"] == "NONE"
    }
    for at_ms, event, answer in _of(steps, "consumer_group_heartbeat"):
        while restarts and restarts[0] <= at_ms:
            restarts.pop(0)
            groups.clear()
        group, member = groups[event["group_id"]], event["member_id"] or answer["member_id"]
        heard_ms = group.heard_ms.pop(member, None)
        if answer["error"] in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH") and heard_ms is not None:
            ended = min(ended, at_ms - heard_ms)
            group.changed = True
        if answer["error"] != "NONE":
            continue
        if event["member_epoch"] < 0:
            group.changed = True
            continue
        joins = event["member_epoch"] == 0
        if heard_ms is not None and not joins:
            survived = max(survived, at_ms - heard_ms)
        silent = {
            id: then_ms for id, then_ms in group.heard_ms.items()
            if last_ms.get((event["group_id"], id)) == then_ms
        }  # fmt: skip
        group.heard_ms[member] = at_ms
        named = [event.get("subscribed_topic_names"), event.get("subscribed_topic_regex")]
        changes = joins or (named[0] is not None and named != group.named.get(member))
        if named[0] is not None:
            group.named[member] = named
        if answer["member_epoch"] > group.epoch:
            if not (group.changed or changes) and len(silent) == 1:
                (gone_ms,) = silent.values()
                survived = max(survived, group.steady_ms - gone_ms)
                ended = min(ended, at_ms - gone_ms)
            for id in silent if not (group.changed or changes) else ():
                del group.heard_ms[id]
            group.epoch = answer["member_epoch"]
            group.changed = False
        elif changes:
            group.changed = True
        if answer["assignment"] is None and answer["member_epoch"] == group.epoch:
            group.steady_ms = at_ms
    if survived < ended < float("inf") and not survived - LATE_MS < config[SESSION] <= ended:
        why = (
            f"a member was silent for {survived:.0f} ms and stayed, one for {ended:.0f} was removed"
        )
        yield Shown(SESSION, roundest(survived, ended), why)
    elif ended == float("inf") and survived - LATE_MS >= config[SESSION]:
        why = f"a member was silent for {survived:.0f} ms and stayed"
        yield Shown(SESSION, roundest(survived, 2 * survived), why)


def _delay(
    steps: list[Step], config: Mapping[str, Any], restarts: Iterable[float]
) -> Iterator[Shown]:
    """Find the initial delay that fits when the first joins of groups were answered.

    A busy broker's timer fires late, but never early. So the delay ends in no first generation
    after the answers, and in one of them shortly before.
    """
    waits = sorted(_first_waits(steps, restarts), key=lambda wait: wait[0])

    def late_ms(delay_ms: int) -> float:
        late = [wait - _window(delay_ms, came) for wait, came in waits]
        return min(late) if min(late) >= -1 else float("inf")

    if not waits or late_ms(config[DELAY]) <= LATE_MS:
        return
    found = next(
        (
            value
            for wait, _ in waits
            for delays in range(1, 9)  # each in which another member came is followed by one more
            for value in [roundest(max((wait - LATE_MS) / delays, -1), (wait + 1) / delays)]
            if late_ms(value) <= LATE_MS
        ),
        0 if late_ms(config[DELAY]) == float("inf") else None,
    )
    if found is not None:
        yield Shown(DELAY, found, f"an empty group's generation began after {waits[0][0]:.0f} ms")


def _first_waits(
    steps: list[Step], restarts: Iterable[float]
) -> Iterator[tuple[float, list[float]]]:
    """Yield how long a generation of an empty group was waited for, and when members came.

    Times count from the first of its joins. A join that comes after the generation has begun is of
    a static member that came back. Only the first generation shows by its number that the group
    was empty; of another one all members of the generation before have to be gone.
    """
    joins: dict[tuple[str, int], list[float]] = defaultdict(list)
    began_ms: dict[tuple[str, int], float] = {}
    of_empty: dict[tuple[str, int], bool] = {}
    given: set[str] = set()
    members = _Members(steps, restarts)
    for exchange, event, answer in steps:
        members.take(exchange.handled_ms, event, answer)
        if event["op"] != "join_group" or answer is None:
            continue
        member, key = event.get("member_id"), (event["group_id"], answer["generation_id"])
        if key[1] == 1:  # in a log that begins later, a member may only get its generation again
            first = not member or member in given
        else:
            first = answer["error"] == "NONE" and of_empty.setdefault(
                key, members.are_gone(key[0], exchange.handled_ms)
            )
        if first and exchange.handled_ms < began_ms.setdefault(key, exchange.answered_ms):
            joins[key].append(exchange.handled_ms)
        members.join(event, answer)
        given.add(answer["member_id"])
    for key, times in joins.items():
        yield began_ms[key] - min(times), [at_ms - min(times) for at_ms in times]


class _Members:
    """When the sessions of a group's members end, once a leader was answered with its members."""

    def __init__(self, steps: list[Step], restarts: Iterable[float]) -> None:
        self._until_ms: dict[str, dict[str, float]] = {}
        self._session_ms: dict[str, int] = {}
        self._restarts = list(restarts)
        # A broker may not log heartbeats; then a silence shows nothing.
        self._beating = {event["group_id"] for _, event, _ in steps if event["op"] == "heartbeat"}

    def take(self, at_ms: float, event: dict[str, Any], answer: dict[str, Any] | None) -> None:
        """Take the next request: a member's session begins anew, or it leaves."""
        while self._restarts and self._restarts[0] <= at_ms:
            self._restarts.pop(0)
            self._until_ms.clear()
        if event["op"] == "consumer_group_heartbeat":  # the group has members of another kind
            self._until_ms.pop(event["group_id"], None)
        until_ms = self._until_ms.get(event.get("group_id") or "")
        if until_ms is None or answer is None or answer["error"] != "NONE":
            return
        if event.get("member_id") in until_ms:
            member = event["member_id"]
            until_ms[member] = at_ms + self._session_ms.get(member, float("inf"))
        for left in event.get("members", ()) if event["op"] == "leave_group" else ():
            if left.get("member_id") not in until_ms:  # a static member, without its id
                del self._until_ms[event["group_id"]]
                return
            del until_ms[left["member_id"]]

    def join(self, event: dict[str, Any], answer: dict[str, Any]) -> None:
        """Take a join's session, and the members of the generation that its leader learns of."""
        self._session_ms[answer["member_id"]] = event["session_timeout_ms"]
        if answer["members"]:
            self._until_ms[event["group_id"]] = {
                member["member_id"]: float("inf") for member in answer["members"]
            }

    def are_gone(self, group: str, at_ms: float) -> bool:
        """Return whether a group is empty for certain."""
        until_ms = self._until_ms.get(group, {"": float("inf")})
        silent = group in self._beating and all(each < at_ms for each in until_ms.values())
        return silent or not until_ms


def _window(delay_ms: int, came_ms: list[float]) -> int:
    """Return how long joins wait that came at these times after the first one."""
    end_ms = delay_ms
    while delay_ms and any(end_ms - delay_ms < at_ms <= end_ms for at_ms in came_ms if at_ms):
        end_ms += delay_ms
    return end_ms


def _session_bounds(steps: list[Step], config: Mapping[str, Any]) -> Iterator[Shown]:
    """Bound the least and the largest session by those of JoinGroup, accepted or refused."""
    accepted, refused = set(), set()
    for _, event, answer in _of(steps, "join_group"):
        session_ms = event["session_timeout_ms"]
        if answer["error"] == "INVALID_SESSION_TIMEOUT":
            refused.add(session_ms)
        elif answer["error"] in ("NONE", "MEMBER_ID_REQUIRED"):
            accepted.add(session_ms)
    if accepted and min(accepted) < config[LEAST]:
        why = f"a session of {min(accepted)} ms was accepted"
        yield Shown(LEAST, min(accepted), why)
    if accepted and max(accepted) > config[MOST]:
        yield Shown(MOST, max(accepted), f"a session of {max(accepted)} ms was accepted")
    inside = {ms for ms in refused if config[LEAST] <= ms <= config[MOST]}
    low = {ms for ms in inside if not accepted or ms < min(accepted)}
    if low:
        value = min(accepted) if accepted else max(low) + 1
        yield Shown(LEAST, value, f"a session of {max(low)} ms was refused")
    high = {ms for ms in inside - low if ms > max(accepted)}
    if high:
        yield Shown(MOST, max(accepted), f"a session of {min(high)} ms was refused")


def _sizes(steps: list[Step], config: Mapping[str, Any]) -> Iterator[Shown]:
    """Take the number of members with which a group refused another one."""
    for op, name in SIZES.items():
        members: dict[str, set[str]] = defaultdict(set)
        largest: Counter[str] = Counter()
        for _, event, answer in _of(steps, op):
            member = event.get("member_id") or answer["member_id"] or ""
            group = event["group_id"]
            if answer["error"] == "GROUP_MAX_SIZE_REACHED":
                size = max(largest[group], len(members[group]))
                if 0 < size < config[name]:
                    yield Shown(name, size, f"{group} refused a member, with {size} in it")
                    break
            elif answer["error"] == "NONE":
                if event.get("member_epoch", 0) < 0:
                    members[group].discard(member)
                elif op != "join_group":
                    members[group].add(member)
                else:
                    largest[group] = max(len(answer["members"]), largest[group])


def _metadata(steps: list[Step], config: Mapping[str, Any]) -> Iterator[Shown]:
    """Bound the size of metadata by that of commits, accepted or refused."""
    accepted, refused = 0, float("inf")
    for op in ("offset_commit", "txn_offset_commit"):
        for _, event, answer in _of(steps, op):
            sizes = {
                (one["topic"], one["partition"]): len((one.get("metadata") or "").encode())
                for one in event["offsets"]
            }
            for one in answer["partitions"]:
                size = sizes.get((one["topic"], one["partition"]), 0)
                if one["error"] == "OFFSET_METADATA_TOO_LARGE":
                    refused = min(refused, size)
                elif one["error"] == "NONE":
                    accepted = max(accepted, size)
    if accepted > config[METADATA]:
        yield Shown(METADATA, accepted, f"metadata of {accepted} bytes was committed")
    elif refused <= config[METADATA]:
        why = f"metadata of {refused:.0f} bytes was refused"
        yield Shown(METADATA, max(accepted, 0), why)


def _retention(
    steps: list[Step],
    config: Mapping[str, Any],
    removals: Collection[Removal],
    absent_ms: Mapping[str, float],
) -> Iterator[Shown]:
    """Take the roundest retention that the offsets that are gone and those still there allow."""
    found = bounds(steps, config, removals, absent_ms)
    if found is None:
        return
    above_ms, most_ms, (group, (topic, partition)) = found
    minutes = roundest(above_ms, most_ms) // LEAST_MS
    if above_ms < minutes * LEAST_MS and most_ms < config[RETENTION] * LEAST_MS:
        why = f"the offset of {topic}-{partition} of {group} was gone {most_ms / 1000:.0f} s"
        log = "" if removals else "; --server-log shows when offsets were removed"
        yield Shown(RETENTION, minutes, f"{why} after its commit, or the group's last member{log}")


def tried_settings(
    config: Mapping[str, Any], wrong_of: Callable[[dict[str, Any]], int | None]
) -> Iterator[Shown]:
    """Yield settings with which at most half as many answers differ.

    ``wrong_of`` runs the trace with settings, and returns how many answers differ; None: it cannot
    be run.
    """
    settings = dict(config)
    if settings.get("coterie.behaviour") not in REPLAYING:
        return
    fewest = wrong_of(settings)
    for name, values in TRIED.items():
        if not fewest:
            return
        results = {value: wrong_of(settings | {name: value}) for value in values}
        wrong = min((wrong for wrong in results.values() if wrong is not None), default=fewest)
        if 2 * wrong <= fewest:  # of a log that begins later, a few answers fit any release
            value, *others = (value for value in values if results[value] == wrong)
            alike = f" (or with {', '.join(map(str, others))})" if others else ""
            yield Shown(name, value, f"with it{alike}, {wrong} answers differ in place of {fewest}")
            settings[name], fewest = value, wrong


def roundest(above: float, most: float) -> int:
    """Return the number above ``above`` and at most ``most`` that has the most zeros at its end.

    >>> roundest(4712.5, 5310.0)
    5000
    """
    for step in (86_400_000, 3_600_000, 60_000, 10_000, 5000, 1000, 500, 250, 100, 50, 10):
        value = int(most // step) * step
        if value > above:
            return value
    return int(most)


def _groups(number: int) -> str:
    return f"{number} group" + "s" * (number != 1)
