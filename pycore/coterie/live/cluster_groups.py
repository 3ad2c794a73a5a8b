"""Groups of a running cluster: their states, what they have committed, and commits for them.

Requests go to the coordinator of each group. When it moves, it is looked up again, with pauses.
Sources: DescribeConsumerGroupsHandler, ListConsumerGroupOffsetsHandler,
AlterConsumerGroupOffsetsHandler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from coterie.base.consumer_protocol import owned_partitions
from coterie.errors import CorruptData
from coterie.live.cluster import Cluster
from coterie.live.cluster_errors import ClusterError, refusal, without_calls
from coterie.live.connections import Connection
from coterie.live.responses import rows_by_place
from coterie.values import Error

Place = tuple[str, int]
Row = dict[str, Any]
GROUP_ID_NOT_FOUND = 69
NO_OFFSET = -1  # OffsetFetchResponse.INVALID_OFFSET
OLD_COORDINATOR = {GROUP_ID_NOT_FOUND, Error.UNSUPPORTED_VERSION}
UNDECIDED = {  # of a commit: the coordinator moved, or its log did not answer in time
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_COORDINATOR,
    Error.REQUEST_TIMED_OUT,
}
ASSIGNMENTS_BYTES_MAX = 8 << 20  # of a group: two million partitions
GROUPS_AT_ONCE = 64  # so that no request waits for thousands before it


class Committed(NamedTuple):
    """What became of the offsets of a commit.

    Attributes
    ----------
    codes : dict
        The error code of each partition, by the broker; 0 if the group has the offset after it. A
        partition may be missing.
    changed : dict
        What the group had before it, where that is not what it had at the look before.
    missing : dict
        What the group has after it, where the broker says that an offset was committed which the
        group does not have.
    failed : dict
        Why it is not known whether an offset was committed: a request failed, and so did those
        after it.
    """

    codes: dict[Place, int]
    changed: dict[Place, int | None]
    missing: dict[Place, int | None]
    failed: dict[Place, str]


async def list_groups(cluster: Cluster) -> set[str]:
    """Return the consumer groups that the brokers list, also those that never had members.

    Without DESCRIBE on the cluster, brokers list only groups that the user may describe.
    ``Cluster.topic`` has to be called before.
    """

    async def of_node(node: int) -> list[Row]:
        answer = await (await cluster.connection(node)).ask("ListGroups", {})
        if answer["errorCode"]:
            raise refusal(answer["errorCode"], f"broker {node}", "DESCRIBE")
        rows: list[Row] = answer["groups"]
        return rows

    found: set[str] = set()
    for node in cluster.nodes:
        for row in await cluster.patiently(partial(of_node, node)):
            is_consumer = row.get("groupType", "").lower() in ("", "classic", "consumer")
            if row["protocolType"] in ("", "consumer") and is_consumer:
                found.add(row["groupId"])
    return found


async def describe(cluster: Cluster, group: str) -> Row | None:
    """Return a group's state, in the form of ``audit --live``, without offsets.

    None: there is no such group. Members of a classic group have their assignments only while it
    is Stable. Needs DESCRIBE on the group.
    """

    async def of_group() -> Row | None:
        connection = await cluster.coordinator(group)
        if connection.has("ConsumerGroupDescribe"):
            found = await _described(connection, "ConsumerGroupDescribe", "groupIds", group)
            if found["errorCode"] not in OLD_COORDINATOR:
                return None if _refused(found, group) else _consumer_group(found)
        found = await _described(connection, "DescribeGroups", "groups", group)
        return None if _refused(found, group) else _classic_group(found)

    return await cluster.patiently(of_group)


async def _described(connection: Connection, api: str, field: str, group: str) -> Row:
    rows: list[Row] = (await connection.ask(api, {field: [group]}))["groups"]
    if [row["groupId"] for row in rows] != [group]:
        raise ClusterError(
            f"group {group!r}: the broker answers with {len(rows)} rows, not with one of this group"
        )
    return rows[0]


def _refused(row: Row, group: str) -> bool:
    """Whether a group is not there; raise ClusterError for other errors."""
    if row["errorCode"] not in (0, GROUP_ID_NOT_FOUND):
        raise refusal(row["errorCode"], f"group {group!r}", "DESCRIBE")
    is_gone = row["errorCode"] == GROUP_ID_NOT_FOUND or row["groupState"] == "Dead"
    if is_gone and row["members"]:
        raise ClusterError(f"group {group!r}: the broker answers that it is gone and has members")
    return bool(is_gone)


def _consumer_group(row: Row) -> Row:
    members = [
        {
            "member_id": member["memberId"],
            "group_instance_id": member["instanceId"],
            "client_id": member["clientId"],
            "client_host": member["clientHost"],
            "assignment": [
                f"{topic['topicName']}:{number}"
                for topic in member["assignment"]["topicPartitions"]
                for number in topic["partitions"]
            ],
        }
        for member in row["members"]
    ]
    members.sort(key=itemgetter("member_id"))
    fields = {"type": "Consumer", "state": row["groupState"], "protocol": row["assignorName"]}
    return {"group_id": row["groupId"], **fields, "members": members}


def _classic_group(row: Row) -> Row:
    is_stable = row["groupState"] == "Stable"
    size = sum(len(member["memberAssignment"]) for member in row["members"])
    if size > ASSIGNMENTS_BYTES_MAX:
        raise ClusterError(f"group {row['groupId']!r}: assignments of {size:,} bytes: too many")
    members = []
    for member in row["members"]:
        found = {
            "member_id": member["memberId"],
            "client_id": member["clientId"],
            "client_host": member["clientHost"],
        }
        if "groupInstanceId" in member:
            found["group_instance_id"] = member["groupInstanceId"]
        assignment = _assigned(member["memberAssignment"]) if is_stable else None
        if assignment is not None:
            found["assignment"] = assignment
        members.append(found)
    members.sort(key=itemgetter("member_id"))  # a broker has them in any order
    fields = {"type": "Classic", "state": row["groupState"], "protocol": row["protocolData"]}
    return {"group_id": row["groupId"], **fields, "members": members}


def _assigned(data: bytes) -> list[str] | None:
    """Return the partitions of an assignment; None: it is of another protocol."""
    try:
        owned = owned_partitions(data) if data else {}
    except CorruptData:
        return None
    return [f"{topic}:{number}" for topic, numbers in owned.items() for number in numbers]


async def committed(cluster: Cluster, group: str) -> dict[Place, Row]:
    """Return the committed offsets of a group: ``offset``, ``leader_epoch`` and ``metadata``.

    Needs DESCRIBE on the group; topics that the user may not describe are left out.
    """

    async def of_group() -> dict[Place, Row]:
        return await _offsets(await cluster.coordinator(group), group)

    return await cluster.patiently(of_group)


async def _offsets(connection: Connection, group: str) -> dict[Place, Row]:
    answer = await connection.ask("OffsetFetch", {"groupId": group, "topics": None})
    if answer["errorCode"]:
        raise refusal(answer["errorCode"], f"group {group!r}", "DESCRIBE")
    found = {}
    for place, row in rows_by_place(answer["topics"]).items():
        if row["errorCode"]:
            raise refusal(row["errorCode"], f"group {group!r}, {place[0]}-{place[1]}", "DESCRIBE")
        if row["committedOffset"] == NO_OFFSET:
            continue
        if row["committedOffset"] < 0:
            raise ClusterError(
                f"group {group!r}, {place[0]}-{place[1]}: the broker answers offset "
                f"{row['committedOffset']}"
            )
        fields = {"offset": row["committedOffset"], "metadata": row["metadata"]}
        if "committedLeaderEpoch" in row:
            fields["leader_epoch"] = row["committedLeaderEpoch"]
        found[place] = fields
    return found


async def live_groups(
    cluster: Cluster, groups: Iterable[str]
) -> tuple[dict[str, Row], dict[str, ClusterError]]:
    """Return the live state of groups, in the form of ``audit --live``, by id.

    Groups that do not exist are left out. The second dict has why others could not be described.
    """
    found: dict[str, Row] = {}
    failed: dict[str, ClusterError] = {}
    few = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def of_group(group: str) -> None:
        async with few:
            try:
                row = await describe(cluster, group)
                if row is None:
                    return
                offsets = await committed(cluster, group)
            except ClusterError as error:
                failed[group] = without_calls(error)
                return
        row["offsets"] = [
            {"topic": topic, "partition": number, **fields}
            for (topic, number), fields in offsets.items()
        ]
        found[group] = row

    await asyncio.gather(*map(of_group, groups))
    return found, failed


async def commit(
    cluster: Cluster, group: str, offsets: Mapping[Place, int], before: Mapping[Place, int]
) -> Committed:
    """Commit offsets for a group without members, unless it has others than ``before``.

    It looks before each try: after an answer that was lost, the offsets may be committed already,
    or others since. It looks after it, too: only that shows what was committed. No metadata and no
    leader epoch are committed, as by ``kafka-consumer-groups``. Needs READ on the group and on the
    topics.
    """
    requested: set[Place] = set()
    changed: dict[Place, int | None] = {}

    async def of_group() -> Committed:
        nonlocal changed
        connection = await cluster.coordinator(group)
        now = await _offsets_at(connection, group, offsets)
        codes = {place: 0 for place, offset in offsets.items() if now[place] == offset}
        changed = {
            place: offset
            for place, offset in now.items()
            if offset != before.get(place) and (place not in codes or place not in requested)
        }
        to_commit = {
            place: offset
            for place, offset in offsets.items()
            if place not in codes and place not in changed
        }
        if to_commit:
            requested.update(to_commit)
            codes |= await _commit(connection, group, to_commit)
        after = await _offsets_at(connection, group, offsets)
        codes |= {place: 0 for place in to_commit if after[place] == offsets[place]}
        missing = {
            place: after[place]
            for place, code in codes.items()
            if not code and after[place] != offsets[place]
        }
        return Committed(codes, changed, missing, {})

    try:
        return await cluster.patiently(of_group)
    except ClusterError as error:
        same = {place: 0 for place, offset in offsets.items() if before.get(place) == offset}
        failed = {
            place: f"{error}; it may have been committed" if place in requested else str(error)
            for place in offsets
            if place not in same
        }
        return Committed(same, changed, {}, failed)


async def _offsets_at(
    connection: Connection, group: str, places: Iterable[Place]
) -> dict[Place, int | None]:
    """Return what a group has committed at some places; None: nothing."""
    rows = await _offsets(connection, group)
    return {place: rows[place]["offset"] if place in rows else None for place in places}


async def _commit(
    connection: Connection, group: str, offsets: Mapping[Place, int]
) -> dict[Place, int]:
    by_topic: dict[str, list[Row]] = {}
    for (topic, number), offset in offsets.items():
        row = {"partitionIndex": number, "committedOffset": offset, "committedMetadata": ""}
        by_topic.setdefault(topic, []).append(row)
    topics = [{"name": name, "partitions": rows} for name, rows in by_topic.items()]
    answer = await connection.ask("OffsetCommit", {"groupId": group, "topics": topics})
    rows = rows_by_place(answer["topics"], offsets)
    codes = {place: row["errorCode"] for place, row in rows.items()}
    for code in UNDECIDED.intersection(codes.values()):
        raise refusal(code, f"group {group!r}", "READ")
    return codes
