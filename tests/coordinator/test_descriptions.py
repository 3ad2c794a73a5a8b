"""What DescribeGroups and ListGroups show of a group in each state.

Rules: docs/rules/coordinator.md#describe-and-list; ClassicGroup.describe since Kafka 4.
"""

import pytest

from coterie import Batch, GroupCoordinator
from support.coordinator.classic_group import RANGE, join

STATES = ["PreparingRebalance", "CompletingRebalance", "Stable"]
WHO = {"a": ("a", "/10.0.0.1", "i"), "b": ("b", "/10.0.0.2", None)}


def joined(coordinator, client, **fields):
    client_id, client_host, instance = WHO[client]
    return join(coordinator, client_id=client_id, client_host=client_host,
                group_instance_id=instance, **fields)  # fmt: skip


def group_in(behaviour, state):
    """A group with assignments in a state of its second generation, or before it."""
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    joins = {client: joined(coordinator, client) for client in WHO}
    ids = {client: coordinator.run_until(each, limit_ms=9_000).member_id
           for client, each in joins.items()}  # fmt: skip
    plan = {member_id: client.encode() for client, member_id in ids.items()}
    for member_id in ids.values():
        coordinator.sync_group("g", 1, member_id, assignments=plan)
    if state != "Stable":
        join(coordinator, ids["a"], group_instance_id="i")
    if state == "CompletingRebalance":
        join(coordinator, ids["b"])
    return coordinator, ids


@pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
@pytest.mark.parametrize("state", STATES)
def test_members_are_described_in_every_state_and_before_kafka_4_their_plan_in_one(
    behaviour, state
):
    coordinator, ids = group_in(behaviour, state)
    described = coordinator.describe_group("g")
    stable = state == "Stable"
    assert (described.state, described.protocol_type) == (state, "consumer")
    assert described.protocol_name == ("range" if stable else "")
    rows = {member.member_id: member for member in described.members}
    assert rows.keys() == {*ids.values()}
    for client, (client_id, client_host, instance) in WHO.items():
        row = rows[ids[client]]
        assert (row.client_id, row.client_host, row.group_instance_id) == (
            client_id, client_host, instance)  # fmt: skip
        assert row.metadata == (RANGE["range"] if stable else b"")
        assert row.assignment == (client.encode() if stable or behaviour == "4.1" else b"")


def test_each_type_of_group_is_listed_with_its_protocol_type_and_state():
    share, streams = ((version.to_bytes(2, "big") + b"\0\1" + name, b"\0\0\0\0\0\1\0")
                      for version, name in ((11, b"s"), (17, b"z")))  # fmt: skip
    coordinator = GroupCoordinator(
        {"coterie.behaviour": "4.1"}, log=[Batch(0, records=(streams, share))]
    )
    coordinator.offset_commit("offsets", {("t", 0): 5})
    join(coordinator)
    coordinator.set_topics({"t": 1})
    coordinator.consumer_group_heartbeat(
        "consumers", "m", 0, rebalance_timeout_ms=5_000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    rows = [(row.group_id, row.protocol_type, row.state, row.type)
            for row in coordinator.list_groups().groups]  # fmt: skip
    assert rows == [
        ("consumers", "consumer", "Stable", "consumer"),
        ("g", "consumer", "PreparingRebalance", "classic"),
        ("offsets", "", "Empty", "classic"),
        ("s", "share", "Empty", "share"),
        ("z", "streams", "Empty", "streams"),
    ]
    for states, types, names in [
        (["empty"], [], ["offsets", "s", "z"]), (["empty"], ["Share", "classic"], ["offsets", "s"]),
        ([], ["STREAMS"], ["z"]), (["stable"], ["classic"], []),
    ]:  # fmt: skip
        listed = coordinator.list_groups(states, types).groups
        assert [row.group_id for row in listed] == names
