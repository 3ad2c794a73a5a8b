"""The end offsets of topics, now: what `lag` compares commits with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.cluster.cluster import Cluster
from coterie.cluster.errors import ClusterError, refusal

__all__ = ["end_offsets"]

LATEST, READ_UNCOMMITTED = -1, 0


async def end_offsets(
    cluster: Cluster, topics: Iterable[str], skipped: Callable[[str, ClusterError], None]
) -> dict[tuple[str, int], int]:
    """Return the end offset of each partition of some topics.

    Needs DESCRIBE on the topics. A topic or a leader that cannot be asked is left out; ``skipped``
    gets the topic and the reason.
    """
    found: dict[tuple[str, int], int] = {}
    for name in sorted(topics):
        try:
            found |= await _of_topic(cluster, name)
        except ClusterError as error:  # noqa: PERF203
            skipped(name, error)
    return found


async def _of_topic(cluster: Cluster, name: str) -> dict[tuple[str, int], int]:
    view = await cluster.topic(name)
    by_leader: dict[int, list[int]] = {}
    for number, leader in view.leaders.items():
        if leader is not None:
            by_leader.setdefault(leader, []).append(number)
    found = {}
    for leader, numbers in by_leader.items():
        parts = [{"partitionIndex": number, "timestamp": LATEST} for number in numbers]
        topics = [{"name": name, "partitions": parts}]
        body = {"replicaId": -1, "isolationLevel": READ_UNCOMMITTED, "topics": topics}
        answer = await (await cluster.connection(leader)).ask("ListOffsets", body)
        for row in answer["topics"][0]["partitions"] if answer["topics"] else ():
            if row["errorCode"]:
                raise refusal(row["errorCode"], f"{name}-{row['partitionIndex']}", "DESCRIBE")
            found[name, row["partitionIndex"]] = row["offset"]
    return found
