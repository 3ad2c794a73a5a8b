"""Records of consumer groups that no coordinator wrote end a load with an error, not a crash."""

import base64
import json

import pytest

from coterie import Batch, CorruptData, GroupCoordinator, run_trace
from coterie._core.codec.schema import encode_key, encode_value
from coterie._core.coordinator.consumer.group import ReplayedGroup
from coterie.messages import decode_key
from support.consumer_groups import coordinator as model
from support.consumer_groups import golden
from support.coordinator.caller_log import Log

A = "AAAAAAAAAAAAAAAAAAAAAQ"
FIRST, LAST = -(2**31), 2**31 - 1


def current(partitions):
    """Key and value of the current assignment of member m in group g."""
    data = {
        "memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "partitionsPendingRevocation": [],
        "assignedPartitions": [{"topicId": A, "partitions": partitions}],
    }  # fmt: skip
    key = encode_key({"version": 8, "data": {"groupId": "g", "memberId": "m"}})
    return key, encode_value(8, {"version": 0, "data": data})


def target(partitions):
    """Key and value of the target assignment of member m in group g."""
    data = {"topicPartitions": [{"topicId": A, "partitions": partitions}]}
    key = encode_key({"version": 7, "data": {"groupId": "g", "memberId": "m"}})
    return key, encode_value(7, {"version": 0, "data": data})


@pytest.mark.parametrize("partitions", [[-1], [FIRST], [LAST], [10_000_000], [3, -5, 1], [7, LAST]])
@pytest.mark.parametrize("record", [current, target])
def test_a_partition_that_no_topic_can_have_fails_the_load(record, partitions):
    log = Log()
    log.put(Batch(-1, records=(record(partitions),)))
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, log_sink=log)
    coordinator.failover()
    assert f"partitions {min(partitions)} to {max(partitions)}" in coordinator.load_error


def test_the_last_partition_that_a_topic_can_have_is_loaded():
    log = [Batch(0, records=(target([0, 9_999_999]),))]
    assert GroupCoordinator({"coterie.behaviour": "4.1"}, log=log).load_error is None


GROUP_EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT = 3, 5, 6, 7, 8  # versions of keys
NAMED = (MEMBER, TARGET, CURRENT)


def record(version, member_id="m", **fields):
    """Key and value of a record of group g; without fields a tombstone."""
    name = {"memberId": member_id} if version in NAMED else {}
    key = encode_key({"version": version, "data": {"groupId": "g", **name}})
    if not fields:
        return key, None
    return key, encode_value(version, {"version": 0, "data": fields})


def member(member_id="m", **fields):
    plain = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h",
             "subscribedTopicNames": ["t"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 7,
             "serverAssignor": None}  # fmt: skip
    return record(MEMBER, member_id, **plain | fields)


def owns(member_id, epoch, partitions):
    return record(CURRENT, member_id, memberEpoch=epoch, previousMemberEpoch=epoch - 1, state=0,
                  assignedPartitions=[{"topicId": A, "partitions": partitions}],
                  partitionsPendingRevocation=[])  # fmt: skip


def targets(member_id="m", partitions=(0,)):
    rows = [{"topicId": A, "partitions": list(partitions)}]
    return record(TARGET, member_id, topicPartitions=rows)


def loaded(*records, behaviour="4.1"):
    log = [Batch(0, records=records)]
    return GroupCoordinator({"coterie.behaviour": behaviour}, log=log)


GROUP = (member(), record(GROUP_EPOCH, epoch=4), targets(), record(TARGET_EPOCH, assignmentEpoch=4),
         owns("m", 4, [0]))  # fmt: skip
ENDS = (record(CURRENT), record(TARGET), record(TARGET_EPOCH), record(MEMBER), record(GROUP_EPOCH))
TOO_EARLY = [
    ((record(MEMBER),), "before its assignment"),
    ((record(CURRENT), record(MEMBER)), "before its target"),
    ((record(TARGET_EPOCH),), "target epoch is removed while there"),
    ((record(CURRENT), record(TARGET), record(TARGET_EPOCH), record(GROUP_EPOCH)),
     "while it has members"),
    ((record(CURRENT), record(TARGET), record(MEMBER), record(GROUP_EPOCH)), "a target epoch"),
    ((record(CURRENT), record(TARGET), record(TARGET_EPOCH), record(MEMBER), targets("other"),
      record(GROUP_EPOCH)), "targets"),
    ((record(TARGET), targets("other"), record(TARGET_EPOCH)), "target epoch is removed"),
]  # fmt: skip


@pytest.mark.parametrize(("tombstones", "says"), TOO_EARLY)
def test_what_is_removed_before_what_depends_on_it_fails_the_load(tombstones, says):
    """GroupMetadataManager.replay throws an IllegalStateException."""
    coordinator = loaded(*GROUP, *tombstones)
    assert says in coordinator.load_error
    assert coordinator.snapshot("g") is None


def test_a_group_ends_with_the_tombstones_in_their_order():
    stray = (targets("gone"), record(TARGET, "gone"))  # a target without a member goes, too
    coordinator = loaded(*GROUP, *stray, *ENDS)
    assert (coordinator.load_error, coordinator.snapshot("g")) == (None, None)
    assert loaded(*GROUP).snapshot("g").members[0].member_epoch == 4


@pytest.mark.parametrize("tombstones", [rows for rows, _ in TOO_EARLY])
def test_a_view_of_a_log_refuses_none_of_these(tombstones):
    group = ReplayedGroup()
    for key, value in (*GROUP, *tombstones):
        group.take(key, value)
    removed = {int.from_bytes(key[:2], "big") for key, _ in tombstones}
    assert (group.member("m") is None) == (MEMBER in removed)
    assert group.target_assignment_epoch == (0 if TARGET_EPOCH in removed else 4)


@pytest.mark.parametrize("behaviour", ["4.1", "4.1.2", "4.2", "4.4"])
@pytest.mark.parametrize(("first", "second"), [(4, 3), (4, 4), (4, 5)])
def test_a_partition_of_two_members_fails_the_load_but_for_a_later_epoch(behaviour, first, second):
    """ConsumerGroup.addPartitionEpochs; since 4.1.2 a later epoch takes a partition over."""
    coordinator = loaded(
        member("m"), member("n"), owns("m", first, [1, 2]), owns("n", second, [2, 5]),
        behaviour=behaviour,
    )  # fmt: skip
    takes_over = behaviour != "4.1" and second > first
    assert (coordinator.load_error is None) == takes_over
    if not takes_over:
        assert "partition 2 of a topic has two owners" in coordinator.load_error


def test_a_view_of_a_log_shows_each_record_by_itself():
    """The defaults of ConsumerGroupMember.Builder, and those of a group without an epoch."""
    only_member, only_current = ReplayedGroup(), ReplayedGroup()
    only_member.take(*member(rackId="r", clientId="client"))
    row = only_member.member("m")
    assert (row["member_epoch"], row["previous_member_epoch"]) == (0, -1)
    assert (row["rack_id"], row["client_id"], row["client_host"]) == ("r", "client", "/h")
    assert (row["rebalance_timeout_ms"], row["upgraded"]) == (7, True)
    assert (row["session_timeout_ms"], row["current_assignment"]) == (None, [])
    only_current.take(*owns("m", 6, [3, 1]))
    row = only_current.member("m")
    assert (row["member_epoch"], row["previous_member_epoch"]) == (6, 5)
    assert (row["client_id"], row["client_host"], row["subscribed_regex"]) == ("", "", None)
    assert (row["rebalance_timeout_ms"], row["subscribed_topics"]) == (-1, [])
    assert row["current_assignment"] == [(b"\0" * 15 + b"\x01", [1, 3])]
    assert (only_current.group_epoch, only_current.target_assignment_epoch) == (0, 0)
    assert (only_current.assignor, only_current.votes) == ("uniform", 0)


def test_a_view_of_a_log_takes_the_last_partition_that_a_topic_may_have():
    group = ReplayedGroup()
    group.take(*owns("m", 1, [9_999_999]))
    assert group.member("m")["current_assignment"][0][1] == [9_999_999]
    with pytest.raises(CorruptData, match="10000000"):
        group.take(*owns("m", 1, [10_000_000]))


@pytest.mark.parametrize("kind", [3, 4, 5, 6, 7, 8, 16])
def test_a_key_that_is_only_a_version_is_corrupt_if_the_version_is_known(kind):
    group = ReplayedGroup()
    with pytest.raises(CorruptData):
        group.take(kind.to_bytes(2, "big"), None)
    assert group.take(b"\0\x09", None) is group.take(b"\0\x18", None) is group.take(b"\0", None)


def test_a_target_that_was_removed_before_its_member_came_ends_with_no_tombstone():
    """The end of a group also removes the targets of members that are not there."""
    empty = (record(GROUP_EPOCH, epoch=4), record(TARGET_EPOCH, assignmentEpoch=4))
    for stray, removed in [((targets("gone"),), ["gone"]),
                           ((targets("gone"), record(TARGET, "gone")), [])]:  # fmt: skip
        coordinator = loaded(*empty, *stray)
        coordinator.delete_groups(["g"])
        keys = [decode_key(key) for key, _ in coordinator.log[-1].records]
        assert [key["data"]["memberId"] for key in keys if key["version"] == TARGET] == removed
        assert keys[-1]["version"] == GROUP_EPOCH


RELEASES = ["4.1", "4.1.2", "4.3", "4.4"]
OWNED = (member("m", instanceId="i"), owns("m", 3, [1]))
TAKEN = (member("n"), owns("n", 5, [1]))


@pytest.mark.parametrize("behaviour", RELEASES[1:])
@pytest.mark.parametrize(
    ("records", "fails"),
    [
        ((*OWNED, *TAKEN), False),
        ((*OWNED, *TAKEN, member("m")), True),
        ((*OWNED, *TAKEN, owns("m", 3, [1])), True),
        ((*OWNED, *TAKEN, owns("m", 3, []), member("m")), False),
        ((*OWNED, *TAKEN, member("n")), False),
        ((*OWNED, *TAKEN, record(CURRENT, "n"), member("m")), False),
    ],
)
def test_a_member_record_fails_the_load_if_a_later_owner_took_over(behaviour, records, fails):
    """ConsumerGroup.updateMember: each record of a member lets it own what it has once more."""
    error = loaded(*records, behaviour=behaviour).load_error
    assert (error is not None) == fails
    assert error is None or "partition 1 of a topic has two owners" in error


EPOCHS = (record(GROUP_EPOCH, epoch=5), record(TARGET_EPOCH, assignmentEpoch=5))
WRITES = ({}, {"subscribed_topic_names": ["t", "u"]}, {"member_epoch": -2, "instance_id": "i"})


@pytest.mark.parametrize("behaviour", RELEASES[1:])
def test_a_record_that_would_fail_the_next_load_is_refused_before_it_is_written(behaviour):
    """CoordinatorRuntime.append replays each record first, and takes back what one that throws did.

    The slow model of the tests answers the same.
    """
    topics = [{"topic": name, "topic_id": name * 21 + "A", "partitions": 1} for name in "tu"]
    trace = [{"format": "coterie-trace", "version": 2, "name": "two owners", "topics": topics,
              "config": {"coterie.behaviour": behaviour}}]  # fmt: skip
    for key, value in (*OWNED, *TAKEN, *EPOCHS):
        texts = [base64.b64encode(each).decode() for each in (key, value)]
        trace.append({"op": "append_raw", "key": texts[0], "value": texts[1]})
    trace.append({"op": "failover"})
    beat = {"op": "consumer_group_heartbeat", "group_id": "g", "member_id": "m", "member_epoch": 3}
    trace += [beat | fields for fields in WRITES]
    trace += [beat | {"member_id": "n", "member_epoch": 5}, {"op": "failover"}, beat]
    trace += [beat | {"member_epoch": -1}, beat | {"member_id": "n", "member_epoch": 5}]
    lines = [json.dumps(event | {"id": n, "at": n}) for n, event in enumerate(trace)]
    played = list(run_trace(lines))
    errors = [event["error"] for event in played if event.get("op") == beat["op"]]
    assert errors == ["UNKNOWN_SERVER_ERROR"] * 3 + ["NONE", "UNKNOWN_SERVER_ERROR", "NONE", "NONE"]
    assert golden.by_kind(played) == golden.by_kind(model.run(lines))


HAS = (member("m", instanceId="i"), owns("m", 3, []))
COMES = (member("n", instanceId="i"), owns("n", 4, []))


@pytest.mark.parametrize("behaviour", RELEASES)
@pytest.mark.parametrize(
    ("records", "owner"),
    [
        ((*HAS, *COMES), "n"),
        ((*HAS, *COMES, member("m", instanceId="i")), "m"),
        ((*HAS, *COMES, owns("m", 3, [])), "m"),
        ((*HAS, *COMES, record(CURRENT, "m")), "m"),
        ((*HAS, *COMES, record(CURRENT, "m"), record(MEMBER, "m")), None),
        ((*HAS, record(CURRENT, "m"), record(MEMBER, "m"), *COMES), "n"),
        ((*HAS, member("m"), member("n")), {"4.4": None}),
    ],
)
def test_an_instance_id_belongs_to_the_member_of_its_last_record(behaviour, records, owner):
    """ConsumerGroup.updateStaticMember and removeStaticMember, whoever has the id by now."""
    if isinstance(owner, dict):
        owner = owner.get(behaviour, "m")
    for name, epoch in (("m", 3), ("n", 4)):
        coordinator = loaded(*records, record(GROUP_EPOCH, epoch=4), behaviour=behaviour)
        assert coordinator.load_error is None
        answer = coordinator.consumer_group_heartbeat("g", name, epoch, instance_id="i")
        refusals = {"UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}
        expected = {"UNKNOWN_MEMBER_ID" if owner is None else "FENCED_INSTANCE_ID"}
        assert {answer.error.name} & refusals == (set() if name == owner else expected)
