"""The meaning of a newer coordinator's records, for each operation of GroupMetadataManager."""

import pytest

from coterie.insight.groups.topic_names import learn_names
from coterie.insight.questions import audit, explain
from coterie.insight.records.partition_view import read_partitions
from coterie.messages import encode_key, encode_value
from support.insight.lives import life, member, written

WHOLE = {
    "instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h",
    "subscribedTopicNames": ["t"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 9_000,
    "serverAssignor": None, "classicMemberMetadata": None,
}  # fmt: skip


def record(at_ms, version, data=None, member_id=None, number=0, group="g"):
    key = {"groupId": group} | ({} if member_id is None else {"memberId": member_id})
    value = None if data is None else encode_value(version, {"version": number, "data": data})
    return at_ms, encode_key({"version": version, "data": key}), value


def subscribes(at_ms, member_id, **fields):
    return record(at_ms, 5, WHOLE | fields, member_id)


def epoch(at_ms, number, metadata=0):
    return record(at_ms, 3, {"epoch": number, "metadataHash": metadata})


def current(at_ms, member_id, number):
    data = {"memberEpoch": number, "previousMemberEpoch": 0, "state": 0,
            "assignedPartitions": [], "partitionsPendingRevocation": []}  # fmt: skip
    return record(at_ms, 8, data, member_id)


def joins(at_ms, member_id, number, **fields):
    return [subscribes(at_ms, member_id, **fields), epoch(at_ms, number),
            current(at_ms, member_id, number)]  # fmt: skip


def removed(at_ms, member_id):
    return [record(at_ms, version, None, member_id) for version in (8, 7, 5)]


def replaces(at_ms, old, new, **fields):
    """replaceMember: the old member's tombstones, copies of its records, the new member's own."""
    old_fields = {"instanceId": "i", "clientId": "old"}
    return [*removed(at_ms, old), subscribes(at_ms, new, **old_fields), current(at_ms, new, 0),
            subscribes(at_ms, new, **old_fields | fields)]  # fmt: skip


def explained(folder, *appends):
    written(folder, *appends)
    (view,) = read_partitions([folder])
    rows = explain.rows(view, explain.Parameters())
    return [row for row in rows if row["event"] not in explain.SUMMARIES]


def told(row):
    return [(cause["what"], cause["member_id"], cause["detail"]) for cause in row["causes"]]


STATIC = {"instanceId": "i", "clientId": "old"}


def test_a_replacement_that_subscribes_to_something_else_brings_an_epoch(tmp_path):
    new = replaces(20, "a", "b", clientId="new", subscribedTopicNames=["t", "u"])
    rows = explained(tmp_path, joins(10, "a", 1, **STATIC), [*new, epoch(20, 2)])
    assert [(row["event"], row["generation"]) for row in rows] == [("epoch", 1), ("epoch", 2)]
    assert told(rows[1]) == [
        ("replaced", "b", "a"),
        ("subscription_changed", "b", "+u"),
        ("member_changed", "b", "client id old to new"),
    ]
    assert rows[1]["member_count"] == 1


def test_a_replacement_in_one_batch_with_the_next_members_join_stands_by_itself(tmp_path):
    batch = [*replaces(20, "a", "b", clientId="new"), *joins(20, "z", 2)]
    rows = explained(tmp_path, joins(10, "a", 1, **STATIC), batch)
    assert [(row["event"], row["generation"]) for row in rows] == [
        ("epoch", 1), ("static_replacement", 1), ("epoch", 2),
    ]  # fmt: skip
    assert told(rows[1])[0] == ("replaced", "b", "a")
    assert told(rows[2]) == [("joined", "z", None)]
    assert [row["member_count"] for row in rows] == [1, 1, 2]


def test_a_replacement_whose_tombstones_were_compacted_is_one(tmp_path):
    rows = explained(
        tmp_path, joins(10, "a", 1, **STATIC), [subscribes(20, "b", **STATIC), current(20, "b", 1)]
    )
    assert [row["event"] for row in rows] == ["epoch", "static_replacement"]
    assert rows[1]["member_count"] == 1


def test_an_instance_id_that_went_for_good_joins_anew(tmp_path):
    gone = [*removed(20, "a"), epoch(20, 2)]
    rows = explained(tmp_path, joins(10, "a", 1, **STATIC), gone, joins(30, "b", 3, instanceId="i"))
    assert [told(row) for row in rows] == [
        [("joined", "a", None)], [("left_or_evicted", "a", None)], [("joined", "b", None)],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"clientHost": "/x"}, "host /h to /x"),
        ({"rackId": "r"}, "rack none to r"),
        ({"serverAssignor": "range", "rebalanceTimeoutMs": 5},
         "assignor none to range, rebalance timeout 9000 to 5"),
    ],
)  # fmt: skip
def test_what_changes_beside_the_subscription_is_reported_at_its_own_time(
    tmp_path, changed, detail
):
    rows = explained(
        tmp_path, joins(10, "a", 1), [subscribes(20, "a", **changed)], joins(30, "z", 2)
    )
    assert [row["event"] for row in rows] == ["epoch", "member_changed", "epoch"]
    assert told(rows[1]) == [("member_changed", "a", detail)]
    assert (rows[1]["timestamp"], rows[1]["generation"]) == (20, 1)
    assert told(rows[2]) == [("joined", "z", None)]


def test_what_a_classic_member_of_a_newer_group_renews_is_no_event(tmp_path):
    classic = {"sessionTimeoutMs": 9, "supportedProtocols": []}
    again = [subscribes(20, "a", classicMemberMetadata=classic)]
    rows = explained(tmp_path, joins(10, "a", 1), again)
    assert [row["event"] for row in rows] == ["epoch"]


def test_a_changed_regular_expression_is_a_changed_subscription(tmp_path):
    rows = explained(
        tmp_path, joins(10, "a", 1), [subscribes(20, "a", subscribedTopicRegex="x.*"), epoch(20, 2)]
    )
    assert told(rows[1]) == [("subscription_changed", "a", "regex none to x.*")]


def test_an_epoch_of_4_1_whose_hash_changes_alone_is_that_of_its_topics(tmp_path):
    first = [subscribes(10, "a"), epoch(10, 1, 77)]
    rows = explained(tmp_path, first, [epoch(20, 2, 78)], [epoch(30, 3, 78)])
    assert [told(row) for row in rows[1:]] == [[("topics_changed", None, None)], []]
    assert rows[2]["cause"] == "the records do not tell why"


def test_where_the_log_begins_late_nobody_is_reported_to_have_joined(tmp_path):
    rows = explained(tmp_path, [subscribes(10, "a"), epoch(10, 7)], joins(20, "b", 8))
    assert [told(row) for row in rows] == [[("present", "a", None)], [("joined", "b", None)]]


CLIENT = {"rackId": None, "clientId": "c", "clientHost": "/h"}
TASKS = [f"{kind}Tasks{end}" for kind in ("active", "standby", "warmup")
         for end in ("", "PendingRevocation")]  # fmt: skip
NEWER = {  # keys of a member, an epoch, an assignment; a member; an assignment's lists
    "consumer": ((5, 3, 8), WHOLE, ["assignedPartitions", "partitionsPendingRevocation"]),
    "share": ((10, 11, 14), CLIENT | {"subscribedTopicNames": ["t"]}, ["assignedPartitions"]),
    "streams": (
        (19, 17, 22),
        CLIENT | {"instanceId": None, "rebalanceTimeoutMs": 9_000, "topologyEpoch": 0,
                  "processId": "p", "userEndpoint": None, "clientTags": []},
        TASKS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NEWER)
@pytest.mark.parametrize(
    ("member_epoch", "previous", "what"),
    [(2, 0, "joined"), (1, 0, "joined"), (2, 1, "present"), (2, None, "present")],
)
def test_the_first_member_of_a_group_of_4_3_joined_with_epoch_2(
    kind, member_epoch, previous, what, tmp_path
):
    """A member's first assignment follows its epoch in one batch, and has the epoch 0 before it."""
    keys, member, lists = NEWER[kind]
    fields = {"memberEpoch": member_epoch, "previousMemberEpoch": previous, "state": 0}
    first = [
        record(10, keys[0], member, "a"), record(10, keys[1], {"epoch": 2, "metadataHash": 7})
    ]  # fmt: skip
    if previous is not None:
        first.append(record(10, keys[2], fields | {name: [] for name in lists}, "a"))
    (row,) = explained(tmp_path, first)
    assert told(row) == [(what, "a", None)]
    text = {"joined": "c (h) joined", "present": "c (h) there already"}
    assert row["cause"] == text[what]


def partitions(at_ms, **counts):
    """ConsumerGroupPartitionMetadata, as brokers before Kafka 4.1 wrote it."""
    topics = [{"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "topicName": name, "numPartitions": count,
               "partitionMetadata": []} for name, count in counts.items()]  # fmt: skip
    return record(at_ms, 4, {"topics": topics})


@pytest.mark.parametrize(
    ("then", "is_change"),
    [({"t": 4}, True), ({"t": 3}, False), ({}, True), ({"t": 3, "u": 1}, True)],
)
def test_topics_that_grow_come_or_go_under_a_subscription_are_why_an_epoch_began(
    tmp_path, then, is_change
):
    rows = explained(
        tmp_path, [partitions(5, t=3), *joins(10, "a", 1)], [partitions(20, t=3)],
        [partitions(30, **then), epoch(30, 2)],
    )  # fmt: skip
    assert [row["generation"] for row in rows] == [1, 2]
    assert (told(rows[1]) == [("topics_changed", None, None)]) == is_change


@pytest.mark.parametrize("is_gone", [True, False])
def test_members_of_a_newer_group_share_it_while_both_are_there(tmp_path, is_gone):
    """One application after another shares nothing; nor does a member that reads other topics."""
    first = [*joins(10, "a", 1), subscribes(15, "a", subscribedTopicNames=["u"])]
    gone = [*removed(20, "a"), epoch(20, 2)] if is_gone else []
    second = joins(30, "b", 3, clientId="d", subscribedTopicNames=["v"])
    written(tmp_path, *([record] for record in [*first, *gone, *second]))
    (view,) = read_partitions([tmp_path])
    found = list(audit.rows(view, audit.Parameters(only=(audit.APPLICATIONS,))))
    assert len(found) == (not is_gone)
    for row in found:
        assert [(one["client_id"], one["topics"]) for one in row["clients"]] == [
            ("c", ["u"]), ("d", ["v"]),
        ]  # fmt: skip


def test_a_deletion_is_no_downgrade_and_no_upgrade(tmp_path):
    ends = [record(20, version) for version in (6, 3)]
    empty = [*removed(15, "a"), epoch(15, 2)]
    rows = explained(
        tmp_path, joins(10, "a", 1), empty, ends, life(30, 1, member("m")), life(40, None),
        joins(50, "b", 1),
    )  # fmt: skip
    assert [row["event"] for row in rows] == [
        "epoch", "epoch", "deleted", "generation", "deleted", "epoch",
    ]  # fmt: skip


def test_each_time_that_a_static_member_leaves_for_now_is_an_event(tmp_path):
    """Epoch -2 says so, once however often it is written; its return ends it."""
    rows = explained(
        tmp_path, joins(10, "a", 1, **STATIC),
        [current(20, "a", -2)], [current(21, "a", -2)], [current(30, "a", 1)],
        [current(40, "a", -2)],
    )  # fmt: skip
    left = [row["timestamp"] for row in rows if row["event"] == "static_leave"]
    assert left == [20, 40]


def test_a_static_member_whose_return_downgrades_the_group_takes_its_own_place(tmp_path):
    classic = {"sessionTimeoutMs": 9, "supportedProtocols": []}
    alone = joins(10, "a", 1, **STATIC)
    mixed = joins(20, "k", 2, classicMemberMetadata=classic)
    ends = [record(30, version, None, who) for version in (8, 7, 5) for who in ("a", "k")]
    now = member("k"), member("b", groupInstanceId="i")
    down = [*ends, record(30, 6), record(30, 3), life(30, 2, *now)]
    rows = explained(tmp_path, alone, mixed, down)
    assert [row["event"] for row in rows] == ["epoch", "epoch", "downgraded"]
    assert told(rows[2])[1:] == [("carried_on", "k", None), ("replaced", "b", "a")]
    assert (rows[2]["generation"], rows[2]["member_count"]) == (2, 2)


def test_a_group_that_goes_there_and_back_twice_keeps_its_members(tmp_path):
    up = [life(20, None), subscribes(20, "m"), epoch(20, 1), *joins(20, "x", 2)]
    ends = [record(30, version, None, who) for version in (8, 7, 5) for who in ("m", "x")]
    down = [*ends, record(30, 6), record(30, 3), life(30, 2, member("m"))]
    again = [life(40, None), subscribes(40, "m"), epoch(40, 2), *joins(40, "y", 3)]
    rows = explained(tmp_path, life(10, 1, member("m")), up, down, again)
    assert [(row["event"], row["generation"]) for row in rows] == [
        ("generation", 1), ("upgraded", 1), ("epoch", 2), ("downgraded", 2), ("upgraded", 2),
        ("epoch", 3),
    ]  # fmt: skip
    assert [who for row in rows for what, who, _ in told(row) if what == "joined"] == [
        "m", "x", "y",
    ]  # fmt: skip
    assert [who for row in rows for what, who, _ in told(row) if what == "left_or_evicted"] == ["x"]


def test_an_upgrade_of_a_group_whose_classic_records_were_compacted_names_no_assignor(tmp_path):
    up = [life(20, None), subscribes(20, "m"), epoch(20, 1)]
    rows = explained(tmp_path, up, joins(30, "x", 2))
    assert rows[0]["event"] == "upgraded"
    assert told(rows[0])[0] == ("upgraded", None, "classic to consumer")


def test_an_epoch_is_reconciled_when_its_last_member_has_the_assignment(tmp_path):
    late = [[*joins(20, "b", 2)], [current(30, "a", 1)], [current(45, "a", 2)]]
    rows = explained(tmp_path, joins(10, "a", 1), *late, joins(60, "c", 3))
    assert [(row["generation"], row["until"]) for row in rows] == [(1, 10), (2, 45), (3, None)]


def test_who_takes_a_place_has_to_reach_the_epoch_too(tmp_path):
    rows = explained(
        tmp_path, joins(10, "a", 1, **STATIC), joins(20, "b", 2),
        [*replaces(30, "a", "n", clientId="new")], [current(40, "n", 2)],
    )  # fmt: skip
    assert [(row["event"], row["until"]) for row in rows] == [
        ("epoch", 10), ("epoch", 40), ("static_replacement", None),
    ]  # fmt: skip


def test_partitions_that_are_not_given_up_yet_are_not_reconciled(tmp_path):
    revoking = {"memberEpoch": 2, "previousMemberEpoch": 1, "state": 2,
                "assignedPartitions": [], "partitionsPendingRevocation": []}  # fmt: skip
    waits = [subscribes(20, "b"), epoch(20, 2), current(20, "a", 2), record(20, 8, revoking, "b")]
    rows = explained(tmp_path, joins(10, "a", 1), waits)
    assert rows[1]["until"] is None


@pytest.mark.parametrize("then", [{"subscribedTopicRegex": "t.*"}, None])
def test_a_target_of_a_member_without_topics_by_name_names_no_topic(tmp_path, then):
    topic_id = "AAAAAAAAAAAAAAAAAAAAEQ"
    target = {"topicPartitions": [{"topicId": topic_id, "partitions": [0]}]}
    joined = [*joins(1_000, "a", 1), record(1_100, 7, target, "a")]
    (view,) = read_partitions([written(tmp_path / "named", *([one] for one in joined))])
    names = {}
    learn_names(view.newer_records, names)
    assert list(names.values()) == ["t"]
    changed = [
        *joins(1_000, "a", 1),
        record(1_050, 5, None if then is None else WHOLE | then, "a"),
        record(1_100, 7, target, "a"),
    ]
    (view,) = read_partitions([written(tmp_path / "unnamed", *([one] for one in changed))])
    names = {}
    learn_names(view.newer_records, names)
    assert names == {}


def test_what_a_deletion_removes_is_no_cause_of_the_next_life(tmp_path):
    ends = [*removed(20, "a"), *(record(20, version) for version in (6, 3))]
    rows = explained(tmp_path, joins(10, "a", 1), ends, joins(30, "b", 1))
    assert [row["event"] for row in rows] == ["epoch", "deleted", "epoch"]
    assert told(rows[2]) == [("joined", "b", None)]


def test_the_hash_of_before_an_older_broker_is_not_compared_with_that_of_after_it(tmp_path):
    """Brokers 4.1, 4.0 and 4.1 again: only the metadata of 4.0 lies between the two hashes."""
    old, gone = partitions(20, t=3), record(30, 4)
    rows = explained(
        tmp_path, [subscribes(10, "a"), epoch(10, 1, 77)], [old], [gone, epoch(30, 2, 78)],
        [epoch(40, 3, 79)],
    )  # fmt: skip
    assert ("topics_changed", None, None) not in told(rows[1])
    assert told(rows[2]) == [("topics_changed", None, None)]
