"""Cached views of a group and its topics in ZooKeeper.

Every consumer of a group reads the same nodes at each rebalance. They are parsed once for all
consumers until a node changes, which makes a herd of a thousand cheap to simulate. Each read is
still counted as an operation.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence

from coterie.designs.checks import MOST_STREAMS
from coterie.designs.consumer08 import assignment, registration
from coterie.designs.consumer08.config import ConsumerConfig
from coterie.designs.zookeeper.tree import Node, Tree
from coterie.schedule import Schedule, TooManySteps

BROKERS, TOPICS, GROUPS = "/brokers/ids", "/brokers/topics", "/consumers"
THREAD_ITEMS = 64  # the work of reading and sorting a thread, in items: four steps
Version = tuple[tuple[Node | None, int], ...]


@functools.lru_cache(maxsize=4096)
def partitions_in(data: str) -> Sequence[int]:
    """Return the sorted partitions in the text of a topic's node; possibly none.

    Raises
    ------
    registration.Unreadable
        The text is JSON of another form. Text that is not JSON has no partitions.
    """
    fields = registration.read_json(data)
    if fields is None:
        return []
    partitions = fields.get("partitions", {}) if isinstance(fields, dict) else None
    if not isinstance(partitions, dict):
        raise registration.Unreadable(data)
    try:
        return sorted(map(int, partitions))
    except ValueError:
        raise registration.Unreadable(data) from None


def topic_data(replicas: Mapping[int, Sequence[int]]) -> str:
    """Return the text of a topic's node."""
    partitions = {str(partition): list(ids) for partition, ids in replicas.items()}
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def topics_present(tree: Tree) -> Sequence[str]:
    """Return the names of all topics."""
    return tree.children(TOPICS) if TOPICS in tree.nodes else ()


def partitions_of(tree: Tree, topic: str) -> Sequence[int]:
    """Return the sorted partitions of a topic; none if it does not exist."""
    node = tree.nodes.get(f"{TOPICS}/{topic}")
    return partitions_in(node.data) if node else ()


class GroupViews:
    """The threads of each topic by group, as in the id nodes."""

    def __init__(self, tree: Tree, schedule: Schedule) -> None:
        self._tree = tree
        self._schedule = schedule
        self._cache: dict[tuple[str, bool], tuple[Version, assignment.Positions]] = {}

    def spend(self, items: int) -> None:
        """Count work on many items against the limit of the run."""
        self._schedule.spend(items)

    def positions(self, group: str, *, exclude_internal: bool) -> assignment.Positions:
        """Return the index of each thread among those of its topic.

        Raises
        ------
        registration.Unreadable
            An id node of the group is not a registration.
        """
        ids = f"{GROUPS}/{group}/ids"
        version = self._version(ids), self._version(TOPICS)
        cached = self._cache.get((group, exclude_internal))
        if cached is None or cached[0] != version:
            positions = self._read(ids, exclude_internal=exclude_internal)
            cached = self._cache[group, exclude_internal] = version, positions
        return cached[1]

    def _version(self, path: str) -> tuple[Node | None, int]:
        """Return a node and its count of changes; a new node of the same path counts from 0."""
        node = self._tree.nodes.get(path)
        return node, node.below if node else 0

    def _read(self, ids: str, *, exclude_internal: bool) -> assignment.Positions:
        present = topics_present(self._tree)
        threads: dict[str, list[str]] = {}
        for name in self._tree.children(ids) if ids in self._tree.nodes else ():
            subscription = registration.parse(self._tree.nodes[f"{ids}/{name}"].data)
            taken = subscription.topics(present, exclude_internal=exclude_internal)
            for topic, streams in taken.items():
                threads.setdefault(topic, []).extend(thread_ids(name, streams))
                self.spend(THREAD_ITEMS * streams)
        return {
            topic: {
                thread: place
                for place, thread in enumerate(sorted(names, key=assignment.java_sort_key))
            }
            for topic, names in threads.items()
        }


@functools.lru_cache(maxsize=4096)
def thread_ids(consumer_id: str, streams: int) -> Sequence[str]:
    """Return the ids of a consumer's threads.

    Raises
    ------
    TooManySteps
        An id node that was written from outside names more streams than a scenario may start.
    """
    if streams > MOST_STREAMS:
        raise TooManySteps(f"a consumer has {streams} streams of a topic; {MOST_STREAMS} at most")
    return [f"{consumer_id}-{number}" for number in range(streams)]


def share_of(
    tree: Tree,
    views: GroupViews,
    group: str,
    own: Mapping[str, Sequence[str]],
    config: ConsumerConfig,
) -> dict[assignment.PartitionKey, str]:
    """Compute a consumer's share by its own rule, from the present registrations.

    Raises
    ------
    registration.Unreadable, assignment.Unassignable
        An id node of the group is not a registration, or a topic's node names no partitions; round
        robin is not allowed.
    """
    positions = views.positions(group, exclude_internal=config.exclude_internal_topics)
    partitions = {topic: partitions_of(tree, topic) for topic in own}
    if config.assignment == "ceiling":
        return assignment.range_share(own, partitions, positions, ceiling=True)
    if config.partition_assignment_strategy == "roundrobin":
        views.spend(sum(map(len, partitions.values())))
        return assignment.round_robin_share(own, partitions, positions)
    return assignment.range_share(own, partitions, positions)
