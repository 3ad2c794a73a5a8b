"""ListOffsets: where logs begin and end. ``lag`` compares commits with the end offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.live.cluster import Cluster
from coterie.live.cluster_errors import ClusterError, refusal
from coterie.live.connections import Connection
from coterie.live.responses import rows_by_place

EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED = 0


async def end_offsets(
    cluster: Cluster,
    topics: Iterable[str],
    skipped: Callable[[str, ClusterError], None],
    timestamp: int = LATEST,
) -> dict[tuple[str, int], int]:
    """Return the end offset of each partition of some topics; with ``EARLIEST``: the first one.

    Needs DESCRIBE on the topics. A topic is left out if the cluster or a leader does not answer for
    it; ``skipped`` gets the topic and the reason.
    """
    found: dict[tuple[str, int], int] = {}
    for name in sorted(topics):
        try:
            offsets = await _of_topic(cluster, name, timestamp)
            found |= {(name, number): offset for number, offset in offsets.items()}
        except ClusterError as error:
            skipped(name, error)
    return found


async def _of_topic(cluster: Cluster, name: str, timestamp: int) -> dict[int, int]:
    view = await cluster.topic(name)
    found: dict[int, int] = {}
    for leader, numbers in view.by_leader(view.leaders).items():
        found |= await list_offsets(await cluster.connection(leader), name, numbers, timestamp)
    return found


async def list_offsets(
    connection: Connection, topic: str, numbers: Iterable[int], timestamp: int
) -> dict[int, int]:
    """Return an offset of each partition, by its number; a partition may be missing.

    ``timestamp``: ``EARLIEST`` or ``LATEST``.

    Raises
    ------
    ClusterError
        The broker refuses a partition, or its answer is no offset.
    """
    parts = [{"partitionIndex": number, "timestamp": timestamp} for number in numbers]
    topics = [{"name": topic, "partitions": parts}]
    body = {"replicaId": -1, "isolationLevel": READ_UNCOMMITTED, "topics": topics}
    answer = await connection.ask("ListOffsets", body)
    requested = {(topic, part["partitionIndex"]) for part in parts}
    found = {}
    for (_, number), row in rows_by_place(answer["topics"], requested).items():
        if row["errorCode"]:
            raise refusal(row["errorCode"], f"{topic}-{number}", "DESCRIBE")
        if row["offset"] < 0:  # UNKNOWN_OFFSET; a log has a first and an end offset
            raise ClusterError(f"{topic}-{number}: the broker answers offset {row['offset']}")
        found[number] = row["offset"]
    return found
