"""Loading: the state that Kafka's own loader holds after every golden log."""

import base64

import pytest

from coterie import Batch, GroupCoordinator, scan
from coterie._core.coordinator.classic.protocol import groups_of
from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.offsets import fold_log
from coterie._core.structures.offsets import OffsetMap
from coterie.coordinator.batches import read_log
from coterie.coordinator.config import coordinator_config
from coterie.messages import encode_key, encode_value
from support import log_writer
from support.coordinator.caller_log import Log
from support.golden_data import cases, json_of, segments


def text(data):
    return base64.b64encode(data).decode()


def offset(key, entry):
    return {
        "topic": key[0],
        "partition": key[1],
        "offset": entry.offset,
        "leader_epoch": entry.leader_epoch,
        "metadata": entry.metadata,
        "commit_timestamp": entry.commit_timestamp,
        "expire_timestamp": None if entry.expire_timestamp == -1 else entry.expire_timestamp,
        "appended_batch_offset": entry.position,
    }


def view(group, offsets, partition):
    """A loaded group and its offsets in the schema of groups.json."""
    topics = group.subscribed_topics
    since = group.current_state_timestamp
    return {
        "group_id": group.group_id,
        "offsets_partition": partition,
        "state": group.current_state,
        "protocol_type": group.protocol_type,
        "generation": group.generation_id,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
        "current_state_timestamp": None if since == -1 else since,
        "subscribed_topics": None if topics is None else sorted(topics),
        "members": [member_view(m) for m in sorted(group.all_members, key=lambda m: m.member_id)],
        "offsets": sorted((offset(key, entry) for key, entry in offsets.items()), key=place),
        "pending_transactional_offsets": [
            {
                "producer_id": producer,
                "offsets": sorted((offset(*item) for item in undecided.items()), key=place),
            }
            for producer, undecided in sorted(offsets.pending_txn.items())
        ],
    }


def place(item):
    return item["topic"], item["partition"]


def member_view(member):
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "subscription": text(member.protocols[0][1]),
        "assignment": text(member.assignment),
    }


def in_order(group):
    """Kafka's groups.json with its unspecified orders fixed."""
    pending = [
        entry | {"offsets": sorted(entry["offsets"], key=place)}
        for entry in group["pending_transactional_offsets"]
    ]
    return group | {
        "members": sorted(group["members"], key=lambda m: m["member_id"]),
        "offsets": sorted(group["offsets"], key=place),
        "pending_transactional_offsets": sorted(pending, key=lambda x: x["producer_id"]),
        "subscribed_topics": group["subscribed_topics"] and sorted(group["subscribed_topics"]),
    }


def loaded(case):
    """Every group of a case, each partition loaded by a coordinator of its own."""
    partitions = {}
    for segment in segments(case):
        number = int(segment.parent.name.rpartition("-")[2])
        partitions.setdefault(number, []).extend(read_log(segment))
    for number, batches in partitions.items():
        core = Coordinator(coordinator_config(None))
        core.import_log(
            (b.base_offset, b.producer_id, b.producer_epoch, b.transactional, b.control, b.records)
            for b in batches
        )
        assert core.load_error is None
        for group in core.all_groups():
            offsets = core.offsets_of(group.group_id)
            yield view(group, OffsetMap() if offsets is None else offsets, number)


# The groups of kip848 are those of the newer coordinator, which this loader skips.
@pytest.mark.parametrize("case", [case for case in cases() if case != "kip848"])
def test_a_log_loads_as_kafkas_loader_loads_it(case):
    expected = sorted(json_of(case, "groups.json")["groups"], key=lambda g: g["group_id"])
    came = sorted(loaded(case), key=lambda g: g["group_id"])
    names = [group["group_id"] for group in expected]
    assert [group["group_id"] for group in came] == names
    for ours, theirs in zip(came, map(in_order, expected), strict=True):
        now = theirs["state"] == "Empty" and theirs["protocol_type"] is None
        if now:  # a group of offsets alone: Empty since the load
            ours = ours | {"current_state_timestamp": theirs["current_state_timestamp"]}
        assert ours == theirs


def test_a_segment_file_can_be_the_start_of_a_test(tmp_path):
    path = segments("basic")[0]
    coordinator = GroupCoordinator(log=read_log(path))
    assert coordinator.log
    assert coordinator.list_groups().groups


def test_a_member_id_that_comes_twice_is_one_member_to_a_load_and_to_a_replay():
    """GroupMetadata.add puts members by their id; the first one led, as none is stored."""
    members = [
        {
            **{"memberId": name, "groupInstanceId": None, "clientId": client, "clientHost": "/h"},
            **{"rebalanceTimeout": 7, "sessionTimeout": 9, "subscription": b"", "assignment": b""},
        }
        for name, client in (("b", "one"), ("a", "two"), ("b", "three"))
    ]
    data = {"protocolType": "p", "generation": 1, "protocol": "x", "leader": None}
    data |= {"currentStateTimestamp": 3, "members": members}
    key = encode_key({"version": 2, "data": {"group": "g"}})
    value = encode_value(2, {"version": 3, "data": data})
    fold = fold_log([(0, -1, -1, False, False, [(key, value)])])
    (loaded,) = groups_of(fold).values()
    (row,) = scan(log_writer.batch(0, [(1000, key, value)]), partition=0).groups()
    assert loaded.leader_id == row["leader"] == "b"
    found = {m.member_id: m.client_id for m in loaded.all_members}
    assert found == {"a": "two", "b": "three"}
    assert {m["member_id"]: m["client_id"] for m in row["members"]} == found
    assert len(row["members"]) == 2


PROTOCOLS = [("range", b"")]
AT_ONCE = {"group.initial.rebalance.delay.ms": 0}
JOIN = {"protocol_type": "consumer", "protocols": PROTOCOLS}


def loaded_with(*members):
    """A coordinator that has loaded a group with these members: (id, instance)."""
    rows = [
        {
            **{"memberId": name, "groupInstanceId": instance, "clientId": "c", "clientHost": "/h"},
            **{"rebalanceTimeout": 9000, "sessionTimeout": 9000},
            **{"subscription": b"", "assignment": b""},
        }
        for name, instance in members
    ]
    data = {"protocolType": "consumer", "generation": 1, "protocol": "range"}
    data |= {"leader": members[0][0], "currentStateTimestamp": 3, "members": rows}
    key = encode_key({"version": 2, "data": {"group": "g"}})
    value = encode_value(2, {"version": 3, "data": data})
    return GroupCoordinator(AT_ONCE, log=[Batch(0, records=((key, value),))])


@pytest.mark.parametrize("instance", [None, "c"])
def test_an_id_that_is_made_is_none_that_the_log_has_given(instance):
    coordinator = loaded_with(("c-00000001", "c"), ("c-00000003", None))
    coordinator.join_group("g", client_id="c", group_instance_id=instance, **JOIN)
    ids = {member.member_id for member in coordinator.snapshot("g").members}
    left = set() if instance else {"c-00000001"}
    assert ids == {"c-00000002", "c-00000003", *left}
    coordinator.join_group("g", client_id="c", **JOIN)
    ids = {member.member_id for member in coordinator.snapshot("g").members}
    assert ids == {"c-00000002", "c-00000003", "c-00000004", *left}


@pytest.mark.parametrize("behaviour", ["2.4", "4.1"])
def test_a_load_that_failed_does_not_prevent_the_next_one(behaviour):
    group = encode_key({"version": 2, "data": {"group": "g"}})
    offset = log_writer.commit_key(1, b"k", b"t", 0), log_writer.commit_value(5, -1, b"", 0)
    log = Log()
    log.put(Batch(-1, records=((group, b"\0\3"), offset)))
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, log_sink=log)
    assert coordinator.load_error is not None
    assert coordinator.snapshot("k") is None
    log.batches = []
    log.put(Batch(-1, records=(offset,)))
    coordinator.failover()
    assert coordinator.load_error is None
    assert coordinator.snapshot("k").offsets["t", 0].offset == 5
