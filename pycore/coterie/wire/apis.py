"""Requests and responses of each API, in any version, as events and answers of a trace.

A reader takes an exchange in the form of ``logged`` and yields (event, answer); the answer is None
if the operation has none. Fields that an old version's response lacks are filled in from earlier
responses to the group, so that the answer is comparable with a trace's full responses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from coterie.values import Error
from coterie.wire.exchanges import Exchange

Groups = dict[str, dict[str, Any]]
Step = tuple[dict[str, Any], dict[str, Any] | None]


def name_of(code: Any) -> str:
    """Return the name of an error code; None is NONE."""
    try:
        return Error(code or 0).name
    except ValueError:
        return Error.UNKNOWN_SERVER_ERROR.name


def _present(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}


@cache
def _columns(names: str) -> list[tuple[str, str, bool]]:
    """Return our name, Kafka's, and whether the field may be absent: its name ends in ``?``."""
    return [
        (re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name), name, absent == "?")
        for name, absent in re.findall(r"(\w+)(\??)", names)
    ]


def _some(struct: Any, names: str) -> dict[str, Any]:
    """Return fields of a struct by our names, those that may be absent as None."""
    return {
        ours: struct.get(name) if may_be_absent else struct[name]
        for ours, name, may_be_absent in _columns(names)
    }


def _join(e: Exchange, groups: Groups) -> Iterator[Step]:
    q, r = e.request, e.response
    event = _present(
        op="join_group",
        **_some(q, "groupId memberId? groupInstanceId?"),
        client_id=e.client_id,
        client_host=e.client_host,
        session_timeout_ms=q["sessionTimeoutMs"],
        # Version 0 has one timeout for both purposes.
        rebalance_timeout_ms=q[
            "rebalanceTimeoutMs" if q.has("rebalanceTimeoutMs") else "sessionTimeoutMs"
        ],
        protocol_type=q["protocolType"],
        protocols=[_some(p, "name metadata") for p in q["protocols"]],
        require_known_member_id=e.version >= 4 and q.get("groupInstanceId") is None,
        supports_skipping_assignment=r.has("skipAssignment"),
        reason=q.get("reason"),
    )
    ok = not r["errorCode"]
    if ok:
        groups[q["groupId"]] = {"type": q["protocolType"], "name": r["protocolName"]}
    yield (
        event,
        {
            "error": name_of(r["errorCode"]),
            "generation_id": r["generationId"],
            "protocol_type": r.get("protocolType", q["protocolType"] if ok else None),
            **_some(r, "protocolName? leader memberId"),
            "skip_assignment": r.optional("skipAssignment"),
            "members": [_some(m, "memberId groupInstanceId? metadata") for m in r["members"]],
        },
    )


def _sync(e: Exchange, groups: Groups) -> Iterator[Step]:
    q, r = e.request, e.response
    event = _present(
        op="sync_group",
        **_some(q, "groupId generationId memberId groupInstanceId? protocolType? protocolName?"),
        assignments=[_some(a, "memberId assignment") for a in q["assignments"]],
    )
    # Before version 5 the response lacks the protocol, which is the generation's.
    known = groups.get(q["groupId"], {}) if not r["errorCode"] else {}
    yield (
        event,
        {
            "error": name_of(r["errorCode"]),
            "protocol_type": r.get("protocolType", known.get("type")),
            "protocol_name": r.get("protocolName", known.get("name")),
            "assignment": r["assignment"],
        },
    )


def _heartbeat(e: Exchange, groups: Groups) -> Iterator[Step]:
    q = e.request
    event = _present(op="heartbeat", **_some(q, "groupId generationId memberId groupInstanceId?"))
    yield event, {"error": name_of(e.response["errorCode"])}


def _leave(e: Exchange, groups: Groups) -> Iterator[Step]:
    q, r = e.request, e.response
    if q.has("members"):
        members = [_present(**_some(m, "memberId groupInstanceId?")) for m in q["members"]]
        answer = {
            "error": name_of(r["errorCode"]),
            "members": [
                _some(m, "memberId groupInstanceId?") | {"error": name_of(m["errorCode"])}
                for m in r["members"]
            ],
        }
    else:
        # Old versions have one member, and one error code for it and for the request.
        members = [{"member_id": q["memberId"]}]
        error = name_of(r["errorCode"])
        own = error in ("NONE", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID")
        entry = {"member_id": q["memberId"], "group_instance_id": None, "error": error}
        answer = {"error": "NONE" if own else error, "members": [entry] if own else []}
    yield {"op": "leave_group", "group_id": q["groupId"], "members": members}, answer


def _partition_errors(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "topic": t["name"],
            "partition": p["partitionIndex"],
            "error": name_of(p["errorCode"]),
        }
        for t in topics
        for p in t["partitions"]
    ]


def _commit(e: Exchange, groups: Groups) -> Iterator[Step]:
    q = e.request
    transactional = e.api == "TXN_OFFSET_COMMIT"
    retention_ms = -1 if transactional else q["retentionTimeMs"]
    offsets = [
        _present(
            topic=t["name"],
            partition=p["partitionIndex"],
            offset=p["committedOffset"],
            leader_epoch=p.get("committedLeaderEpoch"),
            metadata=p.get("committedMetadata"),
            # from its handling on
            expire_timestamp=None if retention_ms == -1 else retention_ms,
        )
        for t in q["topics"]
        for p in t["partitions"]
    ]
    event = _present(
        op="txn_offset_commit" if transactional else "offset_commit",
        group_id=q["groupId"],
        generation_id=q.get(
            "generationId" if transactional and e.version < 6 else "generationIdOrMemberEpoch"
        ),
        **_some(q, "memberId? groupInstanceId? producerId? producerEpoch?"),
        offsets=offsets,
    )
    if not transactional:
        event |= {"version": e.version, "retention_time_ms": retention_ms}
    yield event, {"error": "NONE", "partitions": _partition_errors(e.response["topics"])}


def _markers(e: Exchange, groups: Groups) -> Iterator[Step]:
    written = {  # the order of the response is that of a hash map
        marker["producerId"]
        for marker in e.response["markers"]
        for topic in marker["topics"]
        for partition in topic["partitions"]
        if topic["name"] == "__consumer_offsets" and not partition["errorCode"]
    }
    for marker in e.request["markers"]:
        if marker["producerId"] in written:
            yield (
                {
                    "op": "end_txn",
                    "producer_id": marker["producerId"],
                    "committed": marker["transactionResult"],
                },
                None,
            )


def _end_txn(e: Exchange, groups: Groups) -> Iterator[Step]:
    q = e.request
    if not e.response["errorCode"]:
        yield {"op": "end_txn"} | _some(q, "producerId committed"), None


def _fetch(e: Exchange, groups: Groups) -> Iterator[Step]:
    q, r = e.request, e.response
    requested = [q] if "groupId" in q or not q.has("groups") else q["groups"]
    answered = [r] if "topics" in r or not r.has("groups") else r["groups"]
    if len(requested) != len(answered):
        raise ValueError(f"{len(answered)} groups are answered, of {len(requested)} requested")
    for group, answer in zip(requested, answered, strict=True):
        topics = group.get("topics")
        event = _present(
            op="offset_fetch",
            group_id=group["groupId"],
            require_stable=q.get("requireStable"),
            **_some(group, "memberId? memberEpoch?"),
            topics=None
            if topics is None
            else [{"topic": t["name"], "partitions": t["partitionIndexes"]} for t in topics],
        )
        partitions = [
            _present(
                topic=t["name"],
                partition=p["partitionIndex"],
                offset=p["committedOffset"],
                leader_epoch=p.get("committedLeaderEpoch"),  # from version 5 on
                metadata=p.get("metadata") or "",
                error=name_of(p["errorCode"]),
            )
            for t in answer["topics"]
            for p in t["partitions"]
        ]
        yield event, {"error": name_of(answer.get("errorCode")), "partitions": partitions}


def _offset_delete(e: Exchange, groups: Groups) -> Iterator[Step]:
    q = e.request
    partitions = [
        {"topic": t["name"], "partition": p["partitionIndex"]}
        for t in q["topics"]
        for p in t["partitions"]
    ]
    yield (
        {"op": "offset_delete", "group_id": q["groupId"], "partitions": partitions},
        {
            "error": name_of(e.response["errorCode"]),
            "partitions": _partition_errors(e.response["topics"]),
        },
    )


def _describe(e: Exchange, groups: Groups) -> Iterator[Step]:
    for g in e.response["groups"]:
        gone = g.has("errorMessage") and name_of(g["errorCode"]) == "GROUP_ID_NOT_FOUND"
        members = [
            _some(m, "memberId groupInstanceId? clientId clientHost")
            | {"metadata": m["memberMetadata"], "assignment": m["memberAssignment"]}
            for m in g["members"]
        ]
        yield (
            {"op": "describe_group", "group_id": g["groupId"], "version": e.version},
            {
                # From version 6 on an unknown group is an error; in older versions it is only Dead.
                "error": "NONE" if gone else name_of(g["errorCode"]),
                "state": g["groupState"],
                "protocol_type": g["protocolType"],
                "protocol_name": g["protocolData"],
                "members": members,
            },
        )


def _list(e: Exchange, groups: Groups) -> Iterator[Step]:
    listed = [
        {
            **_some(g, "groupId protocolType"),
            "state": g.get("groupState"),
            "type": (g.get("groupType") or "").lower() or None,
        }
        for g in e.response["groups"]
    ]
    filters = {
        "states": e.request.get("statesFilter") or [],
        "types": e.request.get("typesFilter") or [],
    }
    yield (
        {"op": "list_groups"} | filters,
        {"error": name_of(e.response["errorCode"]), "groups": listed},
    )


def _delete(e: Exchange, groups: Groups) -> Iterator[Step]:
    results = [
        {"group_id": g["groupId"], "error": name_of(g["errorCode"])} for g in e.response["results"]
    ]
    yield (
        {"op": "delete_groups", "group_ids": e.request["groupsNames"]},
        {"error": "NONE", "groups": results},
    )


def _delete_topics(e: Exchange, groups: Groups) -> Iterator[Step]:
    """Yield the deleted topics; the request does not say which partitions they had."""
    deleted = [topic["name"] for topic in e.response["responses"] if not topic["errorCode"]]
    if deleted:
        yield {"op": "delete_partitions", "topics": deleted}, None


def _consumer_heartbeat(e: Exchange, groups: Groups) -> Iterator[Step]:
    q, r = e.request, e.response
    event = _present(
        op="consumer_group_heartbeat",
        **_some(q, "groupId memberId memberEpoch instanceId? rackId? rebalanceTimeoutMs"),
        **_some(q, "subscribedTopicNames? subscribedTopicRegex? serverAssignor?"),
        topic_partitions=_by_id(q["topicPartitions"]),
        client_id=e.client_id,
        client_host=e.client_host,
        version=e.version,
    )
    assigned = r["assignment"]
    yield (
        event,
        {
            "error": name_of(r["errorCode"]),
            **_some(r, "memberId memberEpoch heartbeatIntervalMs"),
            "assignment": None if assigned is None else _by_id(assigned["topicPartitions"]),
        },
    )


def _by_id(topics: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    if topics is None:
        return None
    return [_some(t, "topicId partitions") for t in topics]


def _consumer_describe(e: Exchange, groups: Groups) -> Iterator[Step]:
    described = [
        {
            "group_id": g["groupId"],
            "error": name_of(g["errorCode"]),
            "state": g["groupState"],
            **_some(g, "groupEpoch assignmentEpoch assignorName"),
            "members": [_described_member(m) for m in g["members"]],
        }
        for g in e.response["groups"]
    ]
    yield (
        {"op": "consumer_group_describe", "group_ids": e.request["groupIds"]},
        {"error": "NONE", "groups": described},
    )


def _described_member(m: Any) -> dict[str, Any]:
    assignments = {
        name: [
            {"topic_id": t["topicId"], "topic": t["topicName"], "partitions": t["partitions"]}
            for t in m[field]["topicPartitions"]
        ]
        for name, field in (("assignment", "assignment"), ("target_assignment", "targetAssignment"))
    }
    return {
        **_some(m, "memberId instanceId rackId memberEpoch clientId clientHost"),
        **_some(m, "subscribedTopicNames subscribedTopicRegex"),
        **_present(member_type=m.get("memberType")),  # from version 1 on
    } | assignments


READERS: dict[str, Callable[[Exchange, Groups], Iterator[Step]]] = {
    "JOIN_GROUP": _join,
    "SYNC_GROUP": _sync,
    "HEARTBEAT": _heartbeat,
    "LEAVE_GROUP": _leave,
    "OFFSET_COMMIT": _commit,
    "TXN_OFFSET_COMMIT": _commit,
    "WRITE_TXN_MARKERS": _markers,
    "END_TXN": _end_txn,
    "OFFSET_FETCH": _fetch,
    "OFFSET_DELETE": _offset_delete,
    "DESCRIBE_GROUPS": _describe,
    "LIST_GROUPS": _list,
    "DELETE_GROUPS": _delete,
    "DELETE_TOPICS": _delete_topics,
    "CONSUMER_GROUP_HEARTBEAT": _consumer_heartbeat,
    "CONSUMER_GROUP_DESCRIBE": _consumer_describe,
}
