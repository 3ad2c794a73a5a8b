"""Rows of share and streams groups say each field of each record, and what a missing one means."""

import pytest

from coterie.state.consumer_protocol_groups import name_topics, newer_groups
from support.state.newer_records import A, B, C, epochs, put

ASTRAL, LAST = "\U00010000", "\uffff"  # Java: the first of D800 DC00 stands before FFFF
NAMES = ["f", LAST, "b", ASTRAL, "d", "a", "e", "c"]
AS_JAVA_SORTS = ["a", "b", "c", "d", "e", "f", ASTRAL, LAST]


def share_member(log, member_id, topics=()):
    own = {"rackId": "r", "clientId": "c", "clientHost": "/h", "subscribedTopicNames": [*topics]}
    put(log, 10, own, memberId=member_id)


def share_assignment(log, member_id, *, state=0):
    held = {"memberEpoch": 5, "previousMemberEpoch": 4, "state": state}
    held["assignedPartitions"] = [{"topicId": A, "partitions": [3, 1]}]
    put(log, 14, held, memberId=member_id)


def streams_member(log, member_id):
    own = {
        "instanceId": "i", "rackId": "r", "clientId": "c", "clientHost": "/h",
        "rebalanceTimeoutMs": 45_001, "topologyEpoch": 6, "processId": "p",
        "userEndpoint": {"host": "e", "port": 9}, "clientTags": [{"key": "zone", "value": "z"}],
    }  # fmt: skip
    put(log, 19, own, memberId=member_id)


def tasks(*partitions):
    """The active, standby and warm-up tasks of so many partitions each."""
    kinds = ("activeTasks", "standbyTasks", "warmupTasks")
    return {
        kind: [{"subtopologyId": "0", "partitions": [number]}]
        for kind, number in zip(kinds, partitions, strict=True)
    }


def with_epochs(tasks):
    """The tasks as Kafka 4.3 writes them."""
    for (task,) in tasks.values():
        task["assignmentEpochs"] = [7]
    return tasks


def streams_assignment(log, member_id, *, state=1):
    held = {"memberEpoch": 5, "previousMemberEpoch": 4, "state": state}
    held |= with_epochs(tasks(1, 2, 3))
    revoked = with_epochs(tasks(4, 5, 6)).items()
    held |= {f"{kind}PendingRevocation": of_kind for kind, of_kind in revoked}
    put(log, 22, held, memberId=member_id)


def topology(log, *sources):
    part = {
        "subtopologyId": "0", "sourceTopics": [*sources], "sourceTopicRegex": [],
        "stateChangelogTopics": [], "repartitionSinkTopics": [], "repartitionSourceTopics": [],
        "copartitionGroups": [],
    }  # fmt: skip
    put(log, 23, {"epoch": 6, "subtopologies": [part]})


def row_of(log):
    return newer_groups(log)["g"]


def test_a_share_groups_row_has_what_each_of_its_records_says():
    log = {}
    put(log, 11, {"epoch": 9, "metadataHash": 0})
    put(log, 12, {"assignmentEpoch": 8})
    share_member(log, "m", ["t"])
    share_assignment(log, "m")
    put(log, 13, {"topicPartitions": [{"topicId": B, "partitions": [2]}]}, memberId="m")
    topics = {"initializing": (A, "t", [0]), "initialized": (B, "u", [1])}
    state = {
        f"{kind}Topics": [{"topicId": topic_id, "topicName": name, "partitions": partitions}]
        for kind, (topic_id, name, partitions) in topics.items()
    }
    put(log, 15, state | {"deletingTopics": [{"topicId": C, "topicName": "v"}]})
    row = row_of(log)
    name_topics([row])
    assert row == {
        "type": "share",
        "state": "Stable",
        "protocol_type": "share",
        "generation": 9,
        "protocol": None,
        "leader": None,
        "current_state_timestamp": None,
        "subscribed_topics": ["t"],
        "group_epoch": 9,
        "target_assignment_epoch": 8,
        "topic_ids": {A: "t", B: "u", C: "v"},
        "initializing_topics": [{"topic": "t", "partitions": [0]}],
        "initialized_topics": [{"topic": "u", "partitions": [1]}],
        "deleting_topics": [{"topic": "v", "partitions": []}],
        "members": [
            {
                "member_id": "m",
                "group_instance_id": None,
                "client_id": "c",
                "client_host": "/h",
                "session_timeout_ms": None,
                "rebalance_timeout_ms": None,
                "subscription": None,
                "assignment": None,
                "rack_id": "r",
                "member_epoch": 5,
                "previous_member_epoch": 4,
                "member_state": "stable",
                "subscribed_topics": ["t"],
                "subscribed_regex": None,
                "server_assignor": None,
                "upgraded": True,
                "current_assignment": [{"topic_id": A, "topic": "t", "partitions": [3, 1]}],
                "pending_revocation": [],
                "target_assignment": [{"topic_id": B, "topic": "u", "partitions": [2]}],
            }
        ],
    }


def test_a_streams_groups_row_has_what_each_of_its_records_says():
    log = {}
    put(log, 17, {"epoch": 9, "metadataHash": 0, "validatedTopologyEpoch": 4})
    put(log, 20, {"assignmentEpoch": 8, "assignmentTimestamp": 1_795_948_111_840})
    topology(log, "in")
    streams_member(log, "m")
    streams_assignment(log, "m")
    put(log, 21, tasks(7, 8, 9), memberId="m")
    row = row_of(log)
    assert row.pop("topology")["epoch"] == 6
    assert row == {
        "type": "streams",
        "state": "Assigning",
        "protocol_type": "streams",
        "generation": 9,
        "protocol": None,
        "leader": None,
        "current_state_timestamp": None,
        "subscribed_topics": ["in"],
        "group_epoch": 9,
        "target_assignment_epoch": 8,
        "target_assignment_timestamp": 1_795_948_111_840,
        "validated_topology_epoch": 4,
        "topic_ids": {},
        "members": [
            {
                "member_id": "m",
                "group_instance_id": "i",
                "client_id": "c",
                "client_host": "/h",
                "session_timeout_ms": None,
                "rebalance_timeout_ms": 45_001,
                "subscription": None,
                "assignment": None,
                "rack_id": "r",
                "member_epoch": 5,
                "previous_member_epoch": 4,
                "member_state": "stable",
                "topology_epoch": 6,
                "process_id": "p",
                "user_endpoint": {"host": "e", "port": 9},
                "client_tags": {"zone": "z"},
                "current_tasks": with_epochs(tasks(1, 2, 3)),
                "pending_revocation_tasks": with_epochs(tasks(4, 5, 6)),
                "target_tasks": tasks(7, 8, 9),
            }
        ],
    }


@pytest.mark.parametrize(("name", "joins"), [("share", share_member), ("streams", streams_member)])
def test_epochs_that_no_record_says_are_those_of_a_new_group_and_member(name, joins):
    log = {}
    joins(log, "m")
    row = row_of(log)
    assert (row["type"], row["group_epoch"], row["target_assignment_epoch"]) == (name, 0, 0)
    (member,) = row["members"]
    epochs_of = member["member_epoch"], member["previous_member_epoch"], member["member_state"]
    assert epochs_of == (0, -1, "stable")


@pytest.mark.parametrize(("assigns", "target"), [(share_assignment, 12), (streams_assignment, 20)])
def test_a_member_known_from_its_assignment_alone_has_no_name_of_a_client(assigns, target):
    log = {}
    put(log, target, {"assignmentEpoch": 5})
    assigns(log, "m")
    (member,) = row_of(log)["members"]
    assert (member["client_id"], member["client_host"], member["rack_id"]) == ("", "", None)
    assert member["member_epoch"] == 5
    if assigns is streams_assignment:
        assert (member["topology_epoch"], member["process_id"]) == (-1, "")
        assert (member["user_endpoint"], member["client_tags"]) == (None, {})


@pytest.mark.parametrize(
    ("joins", "assigns", "own"),
    [(share_member, share_assignment, 10), (streams_member, streams_assignment, 19)],
)
def test_a_member_that_left_is_none_though_its_assignment_is_still_in_the_log(joins, assigns, own):
    log = {}
    for member_id in ("gone", "here"):
        joins(log, member_id)
        assigns(log, member_id)
    put(log, own, None, memberId="gone")
    assert [member["member_id"] for member in row_of(log)["members"]] == ["here"]


@pytest.mark.parametrize(
    ("assigns", "names"),
    [
        (share_assignment, ["stable", "unrevoked_partitions", "unreleased_partitions", "unknown"]),
        (
            streams_assignment,
            ["unknown", "stable", "unrevoked_tasks", "unreleased_tasks", "unknown"],
        ),
    ],
)
def test_the_number_of_a_members_state_is_the_place_of_its_name(assigns, names):
    log = {}
    for number in range(-1, len(names)):
        assigns(log, f"{number}", state=number)
    states = {member["member_id"]: member["member_state"] for member in row_of(log)["members"]}
    assert states == {"-1": "unknown", **{str(n): name for n, name in enumerate(names)}}


def test_members_and_topics_stand_as_java_sorts_them():
    share, streams = {}, {}
    for name in NAMES:
        share_member(share, name, [name])
        streams_member(streams, name)
    topology(streams, *NAMES)
    for row in (row_of(share), row_of(streams)):
        assert [member["member_id"] for member in row["members"]] == AS_JAVA_SORTS
        assert row["subscribed_topics"] == AS_JAVA_SORTS


@pytest.mark.parametrize("last", ["share", "consumer"])
def test_a_group_has_the_type_of_its_last_record(last):
    log = {}
    types = [lambda: put(log, 11, {"epoch": 1, "metadataHash": 0}), lambda: epochs(log, 1, 1)]
    for append in types[:: -1 if last == "share" else 1]:
        append()
    assert row_of(log)["type"] == last


@pytest.mark.parametrize(
    ("epoch", "target", "members", "state"),
    [
        (3, 3, [], "Empty"),
        (6, 5, [1], "Assigning"),
        (5, 5, [1], "Stable"),
        (5, 5, [1, 2], "Reconciling"),
        (4, 4, [1], "Reconciling"),  # the members are in epoch 5
    ],
)
def test_a_streams_groups_state_is_the_first_that_holds(epoch, target, members, state):
    log = {}
    put(log, 17, {"epoch": epoch, "metadataHash": 0})
    put(log, 20, {"assignmentEpoch": target})
    for number in members:
        streams_member(log, f"m{number}")
        streams_assignment(log, f"m{number}", state=number)
    assert row_of(log)["state"] == ("NotReady" if members else "Empty")
    topology(log, "in")
    assert row_of(log)["state"] == state
