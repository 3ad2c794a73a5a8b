"""Groups of the newer protocols: types, epochs, states, assignments and topic names from a log."""

import re

import pytest

from coterie import PartialState, ScanOptions
from coterie.state.consumer_protocol_groups import is_consumer, name_topics, newer_groups
from coterie.state.group_views import by_topic, member_rows, share_state_row, state_row
from coterie.state.schemas import SCHEMAS
from coterie.state.tables import from_rows, member_of_table
from support.golden_data import json_of, records, segments
from support.state.newer_records import A, B, C, epochs, member, put

GOLDEN = json_of("kip848", "groups.json")["groups"]
EPOCHS = re.compile(r"Optional\[(\w+)\]")


def state_of(at_ms=None, only_partition=None):
    state = PartialState(ScanOptions(at_ms=at_ms))
    for path in segments("kip848"):
        number = int(path.parent.name.rpartition("-")[2])
        if only_partition in (None, number):
            state.fold(number).scan(path.read_bytes(), file=path.name)
    return state


@pytest.fixture(scope="module")
def groups():
    return {row["group_id"]: row for row in state_of().groups()}


def optional(text):
    """A Java Optional as printed."""
    match = EPOCHS.fullmatch(text)
    return None if match is None else {"true": True, "false": False}.get(match[1], match[1])


# ---- the golden log -----------------------------------------------------------------------------


@pytest.mark.parametrize("theirs", GOLDEN, ids=lambda group: group["group_id"])
def test_a_group_is_what_kafkas_coordinator_loaded(theirs, groups):
    ours = groups[theirs["group_id"]]
    assert ours["type"] == theirs["type"].lower()
    assert ours["state"] == theirs["state"]
    if ours["type"] == "consumer":
        assert ours["protocol"] == theirs["protocol"]
        assert ours["generation"] == ours["group_epoch"] == int(optional(theirs["groupEpoch"]))
        epoch = int(optional(theirs["targetAssignmentEpoch"]))
        assert ours["target_assignment_epoch"] == epoch
    offsets = [
        {name: o[name] for name in ("topic", "partition", "offset", "leader_epoch", "metadata")}
        for o in ours["offsets"]
    ]
    assert offsets == theirs["offsets"]
    known = ("member_id", "group_instance_id", "client_id", "client_host")
    assert [[m[name] for name in known] for m in ours["members"]] == [
        [m[name] for name in known] for m in sorted(theirs["members"], key=lambda m: m["member_id"])
    ]


def flat(assignment, between):
    return sorted(
        f"{topic}{between}{n}" for topic, numbers in by_topic(assignment).items() for n in numbers
    )


@pytest.mark.parametrize(
    "theirs",
    [
        pytest.param((group["group_id"], member), id=f"{group['group_id']}-{member['client_id']}")
        for group in GOLDEN
        if group["type"] == "Consumer"
        for member in group["members"]
    ],
)
def test_a_members_epoch_and_assignments_are_kafkas_by_topic_name(theirs, groups):
    group, member = theirs
    (ours,) = (m for m in groups[group]["members"] if m["member_id"] == member["member_id"])
    assert ours["member_epoch"] == int(optional(member["memberEpoch"]))
    assert ours["upgraded"] is optional(member["upgraded"])
    assert flat(ours["current_assignment"], ":") == sorted(member["assignment"])
    assert flat(ours["target_assignment"], "-") == sorted(member["target_assignment"])


def test_share_and_streams_groups_have_their_types_and_epochs(groups):
    newer = {
        g: (r["type"], r["state"], r["group_epoch"], r["target_assignment_epoch"])
        for g, r in groups.items()
        if r["type"] in ("share", "streams")
    }
    assert newer == {
        "share-1": ("share", "Stable", 2, 2),
        "share-2": ("share", "Empty", 2, 1),
        "share-gone": ("share", "Stable", 2, 2),
        # One member is to give up tasks (state 2) that the other waits for (state 3).
        "streams-app": ("streams", "Reconciling", 4, 4),
    }


def test_a_group_is_what_its_last_surviving_record_says_at_every_time():
    log = [r for r in records("kip848") if r.get("key") and about(r) == "downgraded"]
    newer_epoch, classic, seen = None, None, set()
    for record in sorted(log, key=lambda r: r["offset"]):
        version = record["key"]["version"]
        if version == 2:
            classic = record["offset"] if record["value"] else None
        elif version == 3:
            newer_epoch = record["offset"] if record["value"] else None
        else:
            continue
        later = [r for r in log if r["timestamp"] == record["timestamp"]]
        if record["offset"] < max(r["offset"] for r in later if r["key"]["version"] in (2, 3)):
            continue  # the time shows the last record of a millisecond
        rows = {row["group_id"]: row for row in state_of(record["timestamp"]).groups()}
        expected = "consumer" if (newer_epoch or -1) > (classic or -1) else "classic"
        assert rows["downgraded"]["type"] == expected
        seen.add(expected)
    assert seen == {"consumer", "classic"}


def about(record):
    data = record["key"].get("data", {})
    return data.get("group", data.get("groupId"))


def test_a_piece_of_the_log_that_cannot_tell_a_name_leaves_the_id():
    rows = {row["group_id"]: row for row in state_of(only_partition=5).groups()}
    (member,) = rows["resub"]["members"]
    ids = {t["topic_id"]: t["topic"] for t in member["target_assignment"]}
    assert ids == {"ZqnPlkf_StGS0VNztVXdEA": None, "dGSMfwM5SVOccZQ7fRbg8g": None}
    assert by_topic(member["target_assignment"]) == {
        "ZqnPlkf_StGS0VNztVXdEA": [0, 1, 2, 3],
        "dGSMfwM5SVOccZQ7fRbg8g": [0, 1, 2],
    }
    (member,) = rows["new-range-ck"]["members"]  # subscribed to one topic, assigned one
    assert [t["topic"] for t in member["target_assignment"]] == ["orders"]


# ---- rules, on records of our own ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "target", "members", "state"),
    [
        (3, 2, [], "Empty"),
        (3, 2, [(3, 0)], "Assigning"),
        (3, 3, [(3, 0), (2, 0)], "Reconciling"),
        (3, 3, [(3, 0), (3, 1)], "Reconciling"),
        (3, 3, [(3, 2)], "Reconciling"),
        (3, 3, [(3, 0), (3, 0)], "Stable"),
    ],
)
def test_the_state_is_derived_as_the_broker_does(group, target, members, state):
    log = {}
    epochs(log, group, target)
    for i, (epoch, number) in enumerate(members):
        member(log, f"m{i}", ["t"], epoch=epoch, state=number)
    assert newer_groups(log)["g"]["state"] == state


def test_tombstones_take_members_out_and_a_group_of_nothing_but_tombstones_is_none():
    log = {}
    epochs(log, 1, 1)
    member(log, "m", ["t"], epoch=1)
    for version in (8, 7, 5):
        put(log, version, None, memberId="m")
    row = newer_groups(log)["g"]
    assert (row["members"], row["state"]) == ([], "Empty")
    put(log, 6, None)
    put(log, 3, None)
    assert newer_groups(log) == {}


def test_a_member_whose_record_is_gone_is_none_though_its_assignment_is_left():
    log = {}
    epochs(log, 1, 1)
    member(log, "m", ["t"], epoch=1, current=[A], target=[A])
    member(log, "n", ["t"], epoch=1)
    put(log, 5, None, memberId="m")
    assert [row["member_id"] for row in newer_groups(log)["g"]["members"]] == ["n"]


def test_a_group_is_as_late_as_the_latest_of_its_keys_in_whatever_order_they_were_updated():
    log = {}
    epochs(log, 1, 1)  # under offsets 0 and 1
    first, second = log
    log[first] = (log[first][0], 9, 0)  # written again: it keeps its place in the fold
    assert newer_groups(log, {"g": 5})["g"]["type"] == "consumer"
    log[first], log[second] = (log[first][0], 2, 0), (log[second][0], 9, 0)
    assert newer_groups(log, {"g": 5})["g"]["type"] == "consumer"
    assert newer_groups(log, {"g": 10}) == {}


def test_of_a_classic_and_a_newer_record_the_later_one_decides():
    log = {}
    epochs(log, 1, 1)
    assert newer_groups(log, {"g": 2}) == {}
    assert newer_groups(log, {"g": 0})["g"]["type"] == "consumer"


def test_most_members_choose_the_assignor_and_none_leaves_kafkas_first():
    log = {}
    epochs(log, 1, 1)
    assert newer_groups(log)["g"]["protocol"] == "uniform"
    for i, name in enumerate(["uniform", "range", "range"]):
        member(log, f"m{i}", ["t"], epoch=1, serverAssignor=name)
    assert newer_groups(log)["g"]["protocol"] == "range"


def test_a_member_on_the_classic_protocol_is_not_upgraded_and_keeps_its_session_timeout():
    log = {}
    epochs(log, 1, 1)
    old = {"sessionTimeoutMs": 7, "supportedProtocols": []}
    member(log, "m", ["t"], epoch=1, classicMemberMetadata=old)
    (row,) = newer_groups(log)["g"]["members"]
    assert (row["upgraded"], row["session_timeout_ms"]) == (False, 7)


def names_in(*logs):
    rows = [row for log in logs for row in newer_groups(log).values()]
    name_topics(rows)
    return {
        topic["topic_id"]: topic["topic"]
        for row in rows
        for m in row["members"]
        for kind in ("current_assignment", "target_assignment")
        for topic in m[kind]
    }


def test_one_name_left_for_one_id_is_its_name_across_groups():
    first, other = {}, {}
    epochs(first, 1, 1)
    member(first, "m", ["a"], epoch=1, target=[A])
    epochs(other, 1, 1)
    member(other, "m", ["a", "b"], epoch=1, target=[A, B])
    assert names_in(other) == {A: None, B: None}
    assert names_in(other, first) == {A: "a", B: "b"}


def test_a_target_older_than_the_subscription_tells_no_name():
    log = {}
    epochs(log, 2, 1)  # subscribed to b since, the target still holds a
    member(log, "m", ["b"], epoch=1, target=[A])
    assert names_in(log) == {A: None}


def test_a_regular_expression_that_was_not_resolved_tells_no_name():
    log = {}
    epochs(log, 1, 1)
    member(log, "m", ["a"], epoch=1, target=[B], subscribedTopicRegex="b.*")
    assert names_in(log) == {B: None}
    put(log, 16, {"topics": ["bb"], "version": 1, "timestamp": 0}, regularExpression="b.*")
    member(log, "m", [], epoch=1, target=[B], subscribedTopicRegex="b.*")
    assert names_in(log) == {B: "bb"}


def test_partition_metadata_of_kafka_before_4_1_tells_names_outright():
    log = {}
    epochs(log, 2, 1)
    topic = {"topicId": C, "topicName": "c", "numPartitions": 1, "partitionMetadata": []}
    put(log, 4, {"topics": [topic]})
    member(log, "m", ["x"], epoch=1, current=[C])
    assert names_in(log) == {C: "c"}


def test_the_keys_3_to_8_are_a_consumer_groups_without_its_regular_expressions():
    assert [version for version in range(-1, 30) if is_consumer(version)] == [3, 4, 5, 6, 7, 8]


def test_a_member_s_partitions_have_the_epochs_of_their_assignment_where_the_log_has_them():
    log = {}
    put(log, 3, {"epoch": 7})
    put(log, 6, {"assignmentEpoch": 7, "assignmentTimestamp": 1_795_948_111_840})
    member(log, "m", ["t"], epoch=7)
    held = {
        "memberEpoch": 7, "previousMemberEpoch": 6, "state": 0,
        "assignedPartitions": [
            {"topicId": A, "partitions": [0, 1], "assignmentEpochs": [3, 7]},
            {"topicId": B, "partitions": [4], "assignmentEpochs": [5]},
        ],
        "partitionsPendingRevocation": [
            {"topicId": C, "partitions": [2], "assignmentEpochs": [2]},
        ],
    }  # fmt: skip
    put(log, 8, held, memberId="m")
    row = newer_groups(log)["g"]
    assert row["target_assignment_timestamp"] == 1_795_948_111_840
    (of_member,) = row["members"]
    assert {
        (topic["topic_id"], *topic["partitions"]): topic["assignment_epochs"]
        for name in ("current_assignment", "pending_revocation")
        for topic in of_member[name]
    } == {(A, 0, 1): [3, 7], (B, 4): [5], (C, 2): [2]}


def test_tables_and_views_have_the_fields_of_4_3_and_null_before():
    log = {}
    put(log, 3, {"epoch": 7})
    put(log, 6, {"assignmentEpoch": 7, "assignmentTimestamp": 1_795_948_111_840})
    for name, since_4_3 in (("m", {"assignmentEpochs": [7, 3]}), ("old", {})):
        member(log, name, ["t"], epoch=7)
        held = {
            "memberEpoch": 7, "previousMemberEpoch": 6, "state": 0,
            "assignedPartitions": [{"topicId": A, "partitions": [1, 0], **since_4_3}],
            "partitionsPendingRevocation": [],
        }  # fmt: skip
        put(log, 8, held, memberId=name)
    row = newer_groups(log)["g"] | {"group_id": "g"}
    (of_group,) = from_rows(SCHEMAS["groups"](), [row]).to_pylist()
    assert of_group["target_assignment_timestamp"].isoformat() == "2026-11-29T10:28:31.840000+00:00"
    assert of_group["validated_topology_epoch"] is None
    assert state_row(row)["target_assignment_timestamp"] == 1_795_948_111_840
    rows = [member_of_table("g", each) for each in row["members"]]
    new, old = from_rows(SCHEMAS["members"](), rows).to_pylist()
    (topic,), (epochs_of_topic,) = new["current_assignment"], new["assignment_epochs"]
    assert dict(zip(topic["partitions"], epochs_of_topic, strict=True)) == {0: 3, 1: 7}
    assert old["assignment_epochs"] is None
    assert [each.get("assignment_epochs") for each in member_rows(row)] == [{A: [3, 7]}, None]


def test_a_streams_group_shows_the_epoch_of_its_validated_topology():
    log = {}
    put(log, 17, {"epoch": 7, "metadataHash": 0, "validatedTopologyEpoch": 4})
    row = newer_groups(log)["g"] | {"group_id": "g"}
    (of_group,) = from_rows(SCHEMAS["groups"](), [row]).to_pylist()
    shown = share_state_row(row)["validated_topology_epoch"]
    assert (of_group["validated_topology_epoch"], shown) == (4, 4)
