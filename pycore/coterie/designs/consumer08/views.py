"""What a consumer reads of its group and topics, kept as long as nothing there has changed.

Every consumer of a group reads the same nodes at each rebalance; parsing them once for all is what
makes a herd of a thousand cheap to simulate. What each read costs is counted as if it was made.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence

from coterie.designs.checks import MOST_STREAMS
from coterie.designs.consumer08 import assignment, registration
from coterie.designs.consumer08.config import ConsumerConfig
from coterie.designs.schedule import Schedule, TooManySteps
from coterie.designs.zookeeper.tree import Node, Tree

BROKERS, TOPICS, GROUPS = "/brokers/ids", "/brokers/topics", "/consumers"
THREAD_ITEMS = 64  # of work that reading and sorting one thread stands for: four steps
Seen = tuple[tuple[Node | None, int], ...]


@functools.lru_cache(maxsize=4096)
def partitions_in(data: str) -> Sequence[int]:
    """Return the partitions that a topic's node names, sorted; none where it names none.

    Raises
    ------
    registration.Unreadable
        It names what is no partition. Text that is no JSON names none.
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
    """Return the names of the topics that there are."""
    return tree.children(TOPICS) if TOPICS in tree.nodes else ()


def partitions_of(tree: Tree, topic: str) -> Sequence[int]:
    """Return the partitions of a topic, sorted; none of a missing one."""
    node = tree.nodes.get(f"{TOPICS}/{topic}")
    return partitions_in(node.data) if node else ()


class GroupViews:
    """The threads of each topic, by group, as the id nodes say now."""

    def __init__(self, tree: Tree, schedule: Schedule) -> None:
        self._tree = tree
        self._schedule = schedule
        self._kept: dict[tuple[str, bool], tuple[Seen, assignment.Positions]] = {}

    def spend(self, items: int) -> None:
        """Count work on many items against the limit of the run."""
        self._schedule.spend(items)

    def positions(self, group: str, *, exclude_internal: bool) -> assignment.Positions:
        """Return where each thread stands among those of its topic.

        Raises
        ------
        registration.Unreadable
            An id node of the group is no registration.
        """
        ids = f"{GROUPS}/{group}/ids"
        seen = self._seen(ids), self._seen(TOPICS)
        kept = self._kept.get((group, exclude_internal))
        if kept is None or kept[0] != seen:
            made = self._read(ids, exclude_internal=exclude_internal)
            kept = self._kept[group, exclude_internal] = seen, made
        return kept[1]

    def _seen(self, path: str) -> tuple[Node | None, int]:
        """Return a node and its count of changes below: one made anew counts from 0 again."""
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
                for place, thread in enumerate(sorted(names, key=assignment.as_java_sorts))
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
    """Compute what one consumer is to own, by its own rule, from what is registered now.

    Raises
    ------
    registration.Unreadable, assignment.Unassignable
        An id node of the group is no registration, or a topic's node names no partitions; round
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
