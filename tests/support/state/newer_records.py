"""Records of a consumer group `g`, as the fold hands them over: {key: (value, offset, time)}."""

from coterie._core.codec.schema import encode_key, encode_value

A, B, C = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAw"


def put(log, version, value, **key):
    """Append a record of group ``g``; the log's length is its offset."""
    data = None if value is None else {"version": 0, "data": value}
    raw = encode_key({"version": version, "data": {"groupId": "g", **key}})
    log[raw] = (encode_value(version, data), len(log), 0)


def member(log, member_id, topics, *, epoch, state=0, current=(), target=None, **fields):
    own = {
        "instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h",
        "subscribedTopicNames": topics, "subscribedTopicRegex": "", "rebalanceTimeoutMs": 1,
        "serverAssignor": None, "classicMemberMetadata": None, **fields,
    }  # fmt: skip
    put(log, 5, own, memberId=member_id)
    held = {
        "memberEpoch": epoch, "previousMemberEpoch": 0, "state": state,
        "assignedPartitions": tops(current), "partitionsPendingRevocation": [],
    }  # fmt: skip
    put(log, 8, held, memberId=member_id)
    if target is not None:
        put(log, 7, {"topicPartitions": tops(target)}, memberId=member_id)


def tops(ids):
    return [{"topicId": topic, "partitions": [0, 1]} for topic in ids]


def epochs(log, group, target):
    put(log, 3, {"epoch": group})
    put(log, 6, {"assignmentEpoch": target})
