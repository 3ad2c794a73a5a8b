"""Bound the retention of offsets by those that are gone and that nothing else in a log removed.

An offset expires so long after its commit or, if its group had members that read the topic, after
the group became empty: its last member's last request is the earliest time. A topic that the log
shows to be absent later, a retention of the request itself, or a user who may not DESCRIBE the
topic explain a missing offset as well. The log begins later than the broker, so a reset of a group
that was empty before counts as the commit of a group without members.
Sources: ``GroupMetadata.getExpiredOffsets`` (3.9), ``OffsetExpirationConditionImpl.java``,
``KafkaApis.fetchAllOffsetsForGroup`` (it drops topics that may not be described).
"""

from __future__ import annotations

from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from coterie.base.consumer_protocol import read_subscription
from coterie.coordinator.close_requests import Step
from coterie.coordinator.trace_removals import Removal
from coterie.errors import CoterieError
from coterie.wire.exchanges import Exchange

LEAST_MS = 60_000  # the setting has minutes
CHECK = "offsets.retention.check.interval.ms"
Partition = tuple[str, int]
Key = tuple[str, Partition]
Topics = frozenset[str] | None  # None: perhaps any


class Retention:
    """The offsets of a log's groups, and how long those lived that are gone.

    Attributes
    ----------
    gone : list of tuple
        The longest time that each offset that is gone can have had, ms, and its key.
    survived_ms : float
        The longest time after which an offset was still there.
    """

    def __init__(self, removals: Collection[Removal], absent_ms: Mapping[str, float]) -> None:
        self.gone: list[tuple[float, Key]] = []
        self.survived_ms = 0.0
        self._removals = sorted(removals)
        self._cleaned_ms = float("-inf") if removals else float("inf")
        self._absent_ms = absent_ms  # when each topic was last shown to be absent
        self._committed: dict[str, dict[Partition, float]] = defaultdict(dict)  # by group
        self._missing: dict[Key, float] = {}  # gone, unless another user sees it
        self._heard_ms: dict[str, float] = {}  # the last request of a group's member
        # From one such request to the next, if the group may have been empty for long enough.
        self._silences: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._reads: dict[str, dict[str, Topics]] = defaultdict(dict)  # by group and member
        self._described: set[tuple[str | None, str]] = set()  # (user, topic that it was shown)

    def end(self) -> None:
        """Take over which offsets are gone at the end of the log."""
        self.gone += [(age_ms, key) for key, age_ms in self._missing.items()]

    def take(self, step: Step) -> None:
        """Take the next request."""
        exchange, event, answer = step
        while self._removals and self._removals[0].at_ms <= exchange.handled_ms:
            removal = self._removals.pop(0)
            self._remove(removal.partitions)
            if not removal.partitions:
                self._cleaned_ms = removal.at_ms
        op = event["op"]
        if op == "delete_partitions":
            self._remove(map(_partition, event["partitions"]))
        elif op == "delete_groups":
            for gone in event["group_ids"]:
                self._committed.pop(gone, None)
        elif answer is not None and answer["error"] == "NONE":
            group = event.get("group_id") or ""
            self._hear(group, exchange.handled_ms, event, answer)
            if op == "offset_delete":
                self._remove(map(_partition, answer["partitions"]), [group])
            elif op in ("offset_commit", "txn_offset_commit"):
                self._commit(group, exchange, event, answer)
            elif op == "offset_fetch":
                self._fetch(group, exchange, event, answer)

    def _remove(
        self, partitions: Iterable[Partition], groups: Collection[str] | None = None
    ) -> None:
        removed = list(partitions)
        for group in list(self._committed) if groups is None else groups:
            for partition in removed:
                self._committed[group].pop(partition, None)

    def _hear(self, group: str, at_ms: float, event: dict[str, Any], answer: Any) -> None:
        """Take over when a member was heard, and what the group's members read."""
        reads, op = self._reads[group], event["op"]
        if op == "join_group" and answer["members"]:
            self._reads[group] = {
                member["member_id"]: _topics_of(member["metadata"]) for member in answer["members"]
            }
        elif op == "consumer_group_heartbeat":
            member = event["member_id"] or answer["member_id"]
            names = event.get("subscribed_topic_names")
            if event["member_epoch"] >= 0 and event.get("subscribed_topic_regex"):
                reads[member] = None
            elif event["member_epoch"] >= 0 and names is not None:
                reads[member] = frozenset(names)
        elif op not in ("sync_group", "heartbeat", "leave_group") and not event.get("member_id"):
            return
        heard_ms = self._heard_ms.get(group, at_ms)
        if at_ms - heard_ms >= LEAST_MS:
            self._silences[group].append((heard_ms, at_ms))
        self._heard_ms[group] = at_ms

    def _commit(self, group: str, exchange: Exchange, event: dict[str, Any], answer: Any) -> None:
        """Begin the time of offsets, unless the request or a transaction decides when they end."""
        own = event["op"] == "txn_offset_commit" or event.get("retention_time_ms", -1) != -1
        own = own or any("expire_timestamp" in one for one in event["offsets"])
        for one in answer["partitions"]:
            if one["error"] == "NONE":
                key = group, _partition(one)
                self._described.add((exchange.principal, one["topic"]))
                if key in self._missing:
                    self.gone.append((self._missing.pop(key), key))
                self._committed[group].pop(key[1], None)
                if not own:
                    self._committed[group][key[1]] = exchange.handled_ms

    def _fetch(self, group: str, exchange: Exchange, event: dict[str, Any], answer: Any) -> None:
        """Look which offsets are there, and which are gone that the user would see."""
        user = exchange.principal
        there = {_partition(one): one for one in answer["partitions"]}
        self._described.update((user, topic) for topic, _ in there)
        if event.get("topics") is None:
            of = [one for one in self._committed[group] if (user, one[0]) in self._described]
        else:
            of = [(one["topic"], n) for one in event["topics"] for n in one["partitions"]]
        for partition in of:
            committed_ms = self._committed[group].get(partition)
            if committed_ms is None:
                continue
            one = there.get(partition)
            if one is not None and (one["error"] != "NONE" or one["offset"] >= 0):
                age_ms = self._age_ms(group, partition, exchange.handled_ms)
                self.survived_ms = max(self.survived_ms, age_ms)
                self._missing.pop((group, partition), None)
                continue
            age_ms = self._age_ms(group, partition, min(exchange.handled_ms, self._cleaned_ms))
            steady = self._absent_ms.get(partition[0], float("-inf")) <= committed_ms
            if steady and age_ms >= LEAST_MS:
                self._missing.setdefault((group, partition), age_ms)

    def _age_ms(self, group: str, partition: Partition, at_ms: float) -> float:
        """Return for how long an offset can have been subject to the retention, at most."""
        committed_ms = self._committed[group][partition]
        silences = [*self._silences[group], (self._heard_ms.get(group, at_ms), at_ms)]
        ages = [
            min(to_ms, at_ms) - since_ms for since_ms, to_ms in silences if to_ms > committed_ms
        ]
        reads = self._reads[group].values()
        if not any(topics is None or partition[0] in topics for topics in reads):
            ages.append(at_ms - committed_ms)
        return max(ages, default=0.0)


def bounds(
    steps: Iterable[Step],
    config: Mapping[str, Any],
    removals: Collection[Removal],
    absent_ms: Mapping[str, float],
) -> tuple[float, float, Key] | None:
    """Return what the retention is above and at most, ms, and the offset that shows it.

    None: no offset shows it, or they contradict each other.
    """
    retention = Retention(removals, absent_ms)
    for step in steps:
        retention.take(step)
    retention.end()
    most_ms, key = min(retention.gone, default=(0.0, None))
    above_ms = retention.survived_ms - config[CHECK]
    return None if key is None or above_ms >= most_ms else (max(above_ms, 0), most_ms, key)


def _partition(one: dict[str, Any]) -> Partition:
    return one["topic"], one["partition"]


def _topics_of(metadata: str) -> Topics:
    """Return the topics of a member's subscription; None: it is no consumer's."""
    try:
        return frozenset(read_subscription(b64decode(metadata)).topics)
    except (CoterieError, ValueError):
        return None
