"""The state that a log is folded to is that of the coordinator which wrote it.

``tests/spark/test_spark_engine.py`` shows that Spark gives the same.
"""

import json
from base64 import b64decode

import pytest

from coterie import PartialState
from coterie.state.tables import offsets_table
from support.consumer_groups import golden
from support.consumer_groups.log_of_trace import log_of, played
from support.log_writer import batch

FAILED_LOADS = {  # the coordinator gives its partition up; the fold shows the records
    "scenarios/load-conflict",
    "scenarios/load-member-tombstone-first",
    "scenarios/load-unknown-value-version",
}
# A transaction commits an offset that was removed while it was open, or of a deleted group. The
# fold makes the offset visible, and the group of it, as the loader of Kafka 3.9 does. In Kafka 4.1
# the tombstone of an offset takes the undecided ones along, and a deleted group does not come back.
REMOVED_BEFORE_THE_MARKER = {"scenarios/delete-group-tombstones", "scenarios/delete-partitions"}
NAMES = [name for name in golden.names() if name not in FAILED_LOADS | REMOVED_BEFORE_THE_MARKER]


def default_assignor(name):
    """The assignor of a group whose members chose none, which no log has."""
    config = json.loads(golden.trace(name)[0])["config"]
    return config.get("group.consumer.assignors", ["uniform"])[0]


def described(coordinator, group_ids):
    """What ConsumerGroupDescribe shows of groups, with topic ids."""
    for group in coordinator.consumer_group_describe(group_ids).groups:
        yield (
            (group.group_id, group.state, group.group_epoch, group.assignment_epoch),
            group.assignor_name,
            {
                member.member_id: (
                    member.instance_id, member.rack_id, member.member_epoch, member.client_id,
                    member.client_host, set(member.subscribed_topic_names),
                    member.subscribed_topic_regex, member.member_type == 1,
                )
                for member in group.members
            },
        )  # fmt: skip


def shown(row):
    """The same of a row of the fold."""
    return (
        (row["group_id"], row["state"], row["group_epoch"], row["target_assignment_epoch"]),
        row["protocol"],
        {
            m["member_id"]: (
                m["group_instance_id"], m["rack_id"], m["member_epoch"], m["client_id"],
                m["client_host"], set(m["subscribed_topics"]), m["subscribed_regex"] or "",
                m["upgraded"],
            )
            for m in row["members"]
        },
    )  # fmt: skip


def assignments(coordinator, group_id, existing):
    """Of each member: current and target partitions, of topics that exist."""
    (group,) = coordinator.consumer_group_describe([group_id]).groups
    return {
        member.member_id: [
            {part.topic_id: list(part.partitions) for part in parts if part.topic_id in existing}
            for parts in (member.assignment, member.target_assignment)
        ]
        for member in group.members
    }


def topic_ids(name):
    """Ids of the topics that exist at the end of a trace."""
    header, *events = map(json.loads, golden.trace(name))
    ids = {topic["topic"]: topic["topic_id"] for topic in header.get("topics", ())}
    for event in events:
        if event.get("op") == "metadata":
            for topic in event.get("delete_topics", ()):
                ids.pop(topic, None)
            ids |= {topic["topic"]: topic["topic_id"] for topic in event.get("topics", ())}
    return set(ids.values())


@pytest.fixture(scope="module")
def traces():
    """Of each trace: its name, its coordinator, and the groups of its log by id."""
    found = []
    for name in NAMES:
        coordinator, batches = played(name)
        state = PartialState()
        state.fold(0).scan(log_of(batches), file="log")
        found.append((name, coordinator, {row["group_id"]: row for row in state.groups()}))
    return found


def test_a_log_has_the_groups_that_the_coordinator_lists(traces):
    for name, coordinator, rows in traces:
        listed = {group.group_id: group.type.lower() for group in coordinator.list_groups().groups}
        assert {group_id: row["type"] for group_id, row in rows.items()} == listed, name


def test_a_consumer_group_of_a_log_is_the_one_that_is_described(traces):
    for name, coordinator, rows in traces:
        ids = [group_id for group_id, row in rows.items() if row["type"] == "consumer"]
        for head, assignor, members in described(coordinator, ids):
            row = rows[head[0]]
            voted = any(member["server_assignor"] for member in row["members"])
            assert shown(row)[::2] == (head, members), name
            assert assignor == (row["protocol"] if voted else default_assignor(name)), name


def test_members_of_a_log_have_the_assignments_that_are_described(traces):
    for name, coordinator, rows in traces:
        existing = topic_ids(name)
        for group_id, row in rows.items():
            if row["type"] == "consumer":
                ours = {
                    member["member_id"]: [
                        {part["topic_id"]: part["partitions"] for part in member[kind]
                         if part["topic_id"] in existing}
                        for kind in ("current_assignment", "target_assignment")
                    ]
                    for member in row["members"]
                }  # fmt: skip
                assert ours == assignments(coordinator, group_id, existing), name


def test_offsets_of_a_log_are_those_that_are_fetched(traces):
    for name, coordinator, rows in traces:
        for group_id, row in rows.items():
            ours = {
                (offset["topic"], offset["partition"]): (offset["offset"], offset["metadata"])
                for offset in row["offsets"]
            }
            assert ours == {
                (offset.topic, offset.partition): (offset.offset, offset.metadata)
                for offset in coordinator.offset_fetch(group_id).partitions
            }, name


def test_offsets_have_the_topic_ids_of_kafkas_records():
    ids = set()
    for behaviour, name, path in golden.newer():
        data, expected = b"", {}
        for at, line in enumerate(map(json.loads, golden.read(path))):
            record = line.get("record") or {"type": "a marker"}
            if line["event"] != "append" or record["type"] != "OFFSET_COMMIT":
                continue
            key, value = record["key"], record.get("value")
            place = key["group"], key["topic"], key["partition"]
            expected[place] = None if value is None else (value["offset"], value.get("topicId"))
            raw = None if value is None else b64decode(line["value"])
            data += batch(at, [(line["at"], b64decode(line["key"]), raw)])
        state = PartialState()
        state.fold(0).scan(data, file="log")
        found = {
            (row["group_id"], one["topic"], one["partition"]): (one["offset"], one.get("topic_id"))
            for row in state.groups()
            for one in row["offsets"]
        }
        left = {place: values for place, values in expected.items() if values is not None}
        assert found == left, (behaviour, name)
        table = offsets_table(state.fold(0)).to_pylist()
        assert {
            (row["group_id"], row["topic"], row["partition"]): (row["offset"], row["topic_id"])
            for row in table
        } == left, (behaviour, name)
        ids |= {topic_id for _, topic_id in found.values()}
    assert len(ids) > 2
    assert None in ids
