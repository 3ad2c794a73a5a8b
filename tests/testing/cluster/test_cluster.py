"""A cluster: its defaults, its topics, what an admin does, and its coordinator with fast paths."""

import inspect

import pytest

from coterie import ArgumentError, Error, GroupCoordinator, OffsetAndMetadata
from coterie.base.schedule import Schedule
from coterie.testing import Cluster, Consumer, KafkaTimeoutError
from coterie.testing.cluster_coordinator import CountedCoordinator
from coterie.testing.topic_log import OffsetsLog
from support.consumers import Story

FIRST, SECOND = ("orders", 0), ("orders", 1)


def reader(cluster, **settings):
    return Consumer(cluster, {"client.id": "r", **settings})


def run(cluster, ms):
    cluster.schedule.run_until(cluster.now_ms + ms)


def test_by_default_a_partition_gets_a_record_a_second_and_a_way_takes_a_millisecond():
    cluster = Cluster({"orders": 2})
    cluster.create_topic("more", 1)
    assert (cluster.now_ms, cluster.node, cluster.loading, cluster.latency_ms) == (0, 0, False, 1)
    run(cluster, 2999)
    ends = [log.end_offset(2999) for log in cluster.topics["orders"].logs]
    assert ends == [3, 2]  # from 500 ms, and from 1000 ms
    assert cluster.topics["more"].logs[0].end_offset(2999) == 2
    consumer = reader(cluster)
    assert consumer.end_offsets([FIRST]) == {FIRST: 3}
    assert cluster.now_ms == 2999 + 2


def test_a_cluster_begins_at_the_time_of_its_clock():
    schedule = Schedule()
    schedule.run_until(70_000)
    cluster = Cluster({"orders": 1}, schedule=schedule, interval_ms=2000, latency_ms=30)
    assert (cluster.now_ms, cluster.coordinator.now_ms) == (70_000, 70_000)
    assert cluster.topics["orders"].logs[0].next_record_ms(70_000) == 72_000
    consumer = reader(cluster)
    consumer.end_offsets([FIRST])
    assert cluster.now_ms == 70_000 + 2 * 30


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"interval_ms": 0}, "interval_ms must be from 1"),
        ({"latency_ms": -1}, "latency_ms"),
        ({"schedule": 5}, "schedule must be a Schedule"),
        ({"racks": [["r"]]}, "racks must map topics"),
        ({"racks": {5: [["r"]]}}, "a topic of racks"),
        ({"racks": {"orders": [[5]]}}, "a rack"),
        ({"make_coordinator": 5}, "make_coordinator"),
        ({"make_coordinator": lambda *args, **options: 5}, "must make a GroupCoordinator, not 5"),
        ({"topics": {"orders": -1}}, "partitions"),
    ],
)
def test_options_that_no_cluster_has_are_refused(options, named):
    with pytest.raises(ArgumentError, match=named):
        Cluster(**{"topics": {"orders": 1}} | options)


def test_topics_are_created_once_grow_and_are_deleted_by_name():
    cluster = Cluster({"orders": 1}, interval_ms=None)
    with pytest.raises(ArgumentError, match="'orders' exists"):
        cluster.create_topic("orders", 2)
    for call in (
        lambda: cluster.add_partitions("none", 2),
        lambda: cluster.delete_topic("none"),
        lambda: cluster.produce("none", 5),
        lambda: cluster.delete_records("none", 0, 0),
    ):
        with pytest.raises(ArgumentError, match="there is no topic 'none'"):
            call()
    cluster.create_topic("more", 3, None)
    assert {name: len(topic.logs) for name, topic in cluster.topics.items()} == {
        "orders": 1, "more": 3,
    }  # fmt: skip
    cluster.topics.clear()  # of a copy
    cluster.add_partitions("orders", 4)
    cluster.delete_topic("more")
    assert {name: len(topic.logs) for name, topic in cluster.topics.items()} == {"orders": 4}
    with pytest.raises(ArgumentError, match="interval_ms"):
        cluster.produce("orders", 0)


def test_a_deleted_topic_takes_its_committed_offsets_with_it_and_no_others():
    cluster = Cluster({"orders": 2, "more": 1}, interval_ms=None)
    cluster.call("offset_commit", "g", {FIRST: 5, SECOND: 6, ("more", 0): 7})
    cluster.delete_topic("orders")
    found = cluster.call("offset_fetch", "g").partitions
    assert [(one.topic, one.offset) for one in found] == [("more", 7)]


def test_deleted_records_move_the_begin_up_to_the_end_and_never_back():
    cluster = Cluster({"orders": 2}, interval_ms=100)
    run(cluster, 1000)
    log = cluster.topics["orders"].logs[1]
    for before, begin in ((4, 4), (2, 4), (10, 10)):
        cluster.delete_records("orders", 1, before)
        assert log.log_start_offset == begin
    assert cluster.topics["orders"].logs[0].log_start_offset == 0
    for partition, before in ((1, 11), (1, -1), (2, 0), (-1, 0)):
        with pytest.raises(ArgumentError):
            cluster.delete_records("orders", partition, before)


def test_offsets_are_listed_by_partition_for_the_begin_the_end_and_a_time():
    cluster = Cluster({"orders": 2}, interval_ms=100)
    run(cluster, 1000)
    cluster.delete_records("orders", 1, 4)
    consumer = reader(cluster)
    both = [FIRST, SECOND]
    assert consumer.beginning_offsets(both) == {FIRST: 0, SECOND: 4}
    cluster.produce("orders", None)
    assert consumer.end_offsets(both) == {FIRST: 10, SECOND: 10}
    times = {FIRST: 950, SECOND: 0}  # records of the second one come at 100, 200, ...
    assert consumer.offsets_for_times(times) == {FIRST: (9, 950), SECOND: (4, 500)}
    assert consumer.offsets_for_times({FIRST: 951, SECOND: 10**6}) == {FIRST: None, SECOND: None}
    assert consumer.offsets_for_times({}) == {}


@pytest.mark.parametrize("unknown", [("orders", 2), ("none", 0)])
def test_a_partition_that_does_not_exist_is_looked_up_until_the_timeout(unknown):
    cluster = Cluster({"orders": 2})
    consumer = reader(cluster)
    for call in (consumer.beginning_offsets, consumer.end_offsets):
        began_ms = cluster.now_ms
        with pytest.raises(KafkaTimeoutError, match="offsets were not found in time"):
            call([unknown], timeout_ms=2500)
        assert cluster.now_ms - began_ms == 2500
    began_ms = cluster.now_ms
    with pytest.raises(KafkaTimeoutError):
        consumer.end_offsets([unknown])
    assert cluster.now_ms - began_ms == 60_000  # default.api.timeout.ms


def test_partitions_of_a_topic_are_known_at_once():
    consumer = reader(Cluster({"orders": 2}))
    assert consumer.partitions_for("orders") == [FIRST, SECOND]
    assert consumer.partitions_for("none") == []


@pytest.mark.parametrize(("options", "load_ms"), [({}, 100), ({"load_ms": 2500}, 2500)])
def test_a_fail_over_makes_another_node_the_coordinator_which_loads_for_its_time(options, load_ms):
    cluster = Cluster({"orders": 1})
    cluster.call("offset_commit", "g", {FIRST: 5})
    run(cluster, 10)
    cluster.fail_over(**options)
    assert (cluster.node, cluster.loading) == (1, True)

    def fetch():
        return cluster.call("offset_fetch", "g", {"orders": [0]})

    assert fetch().error == Error.COORDINATOR_LOAD_IN_PROGRESS
    run(cluster, load_ms - 1)
    assert cluster.loading
    run(cluster, 1)
    assert not cluster.loading
    assert fetch().partitions[0].offset == 5
    cluster.fail_over(300)
    run(cluster, 200)
    cluster.fail_over(300)  # the load of the second node does not matter any more
    run(cluster, 299)
    assert (cluster.node, cluster.loading) == (3, True)
    run(cluster, 1)
    assert not cluster.loading
    with pytest.raises(ArgumentError, match="load_ms"):
        cluster.fail_over(-1)


def test_an_admin_calls_operations_of_a_coordinator_and_nothing_else():
    cluster = Cluster({"orders": 1})
    run(cluster, 4321)
    cluster.call("offset_commit", "g", {FIRST: 5})
    assert cluster.coordinator.now_ms == 4321
    for op in ("advance", "take_rows", "none", 5):
        with pytest.raises(ArgumentError, match="op must be an operation"):
            cluster.call(op)


def test_the_end_of_a_classic_group_is_reported_by_its_id():
    cluster, ended = Cluster({"orders": 1}), []
    cluster.on_group_end = ended.append
    for group in ("g", "h"):
        cluster.call("offset_commit", group, {FIRST: 5})
    story = Story(1)
    story.cluster.on_group_end = ended.append
    story.start("a")
    story.poll()
    story.consumers.pop("a").close()
    story.pass_time(10)
    story.cluster.call("offset_commit", "g", {FIRST: 5, SECOND: 6})
    story.cluster.call("offset_delete", "g", [FIRST])
    assert ended == []  # an empty group is still there, with an offset
    story.cluster.call("delete_groups", ["g"])
    assert ended == ["g"]


CALLS = [
    ("join_group", ("g", "a-1"), {"protocol_type": "consumer", "protocols": {"range": b"x"},
                                  "session_timeout_ms": 7000, "client_id": "a"}),
    ("join_group", ("g",), {"protocol_type": "consumer", "protocols": {"range": b"x"},
                            "session_timeout_ms": 7000, "client_id": "a"}),
    ("advance", (3000,), {}),
    ("sync_group", ("g", 1, "MEMBER"), {"assignments": {"MEMBER": b"y"}}),
    ("heartbeat", ("g", 1, "MEMBER"), {}),
    ("heartbeat", ("g", 2, "MEMBER"), {}),
    ("heartbeat", ("h", 1, "MEMBER"), {"group_instance_id": "i"}),
    ("advance", (4000,), {}),
    ("offset_commit", ("g", {FIRST: OffsetAndMetadata(5, 3, "five"), SECOND: OffsetAndMetadata(6)}),
     {"generation_id": 1, "member_id": "MEMBER"}),
    ("offset_commit", ("g", {FIRST: OffsetAndMetadata(7)}),
     {"generation_id": 2, "member_id": "MEMBER"}),
    ("offset_commit", ("k", {FIRST: 9, SECOND: OffsetAndMetadata(8)}), {}),
    ("offset_commit", ("m", {FIRST: OffsetAndMetadata(8)}), {"version": 2,
                                                           "retention_time_ms": 5000}),
    ("consumer_group_heartbeat", ("n", "b-1", 0), {
        "rebalance_timeout_ms": 9000, "subscribed_topic_names": ["orders"],
        "topic_partitions": [], "client_id": "b", "instance_id": "i"}),
    ("consumer_group_heartbeat", ("n", "b-1", 1), {"client_id": "b", "instance_id": "i"}),
    ("consumer_group_heartbeat", ("n", "b-1", 5), {"client_id": "b"}),
    ("consumer_group_heartbeat", ("n", "b-2", 3), {}),
    ("advance", (9000,), {}),
    ("heartbeat", ("g", 1, "MEMBER"), {}),
    ("advance", (15_999,), {}),
    ("heartbeat", ("g", 1, "MEMBER"), {}),
    ("advance", (22_999,), {}),
    ("heartbeat", ("g", 1, "MEMBER"), {}),
    ("consumer_group_heartbeat", ("n", "b-1", 1), {"client_id": "b", "instance_id": "i"}),
    ("advance", (23_000 + 45_000,), {}),
    ("consumer_group_heartbeat", ("n", "b-1", 1), {"client_id": "b", "instance_id": "i"}),
    ("advance", (10**9,), {}),
]  # fmt: skip


def test_the_fast_paths_of_a_cluster_answer_and_write_as_the_coordinator_does():
    outcomes = []
    for kind in (CountedCoordinator, GroupCoordinator):
        log, answers, member = OffsetsLog(), [], None
        coordinator = kind({"coterie.behaviour": "4.1"}, log_sink=log)
        coordinator.set_topics({"orders": 2})
        for op, given, fields in CALLS:
            if op == "sync_group":
                (member,) = (m.member_id for m in coordinator.snapshot("g").members)
                fields = {"assignments": {member: b"y"}}
            args = [member if value == "MEMBER" else value for value in given]
            fields = {k: member if v == "MEMBER" else v for k, v in fields.items()}
            answers.append(getattr(coordinator, op)(*args, **fields))
        outcomes.append(
            ([getattr(answer, "response", answer) for answer in answers], [*log.read()])
        )
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("op", ["offset_commit", "heartbeat", "consumer_group_heartbeat"])
def test_a_fast_path_has_the_defaults_of_the_coordinator(op):
    fast, plain = (
        inspect.signature(getattr(kind, op)).parameters
        for kind in (CountedCoordinator, GroupCoordinator)
    )
    named = fast.keys() - {"changed"}
    assert len(named) > 4
    assert {name: fast[name].default for name in named} == {
        name: plain[name].default for name in named
    }


def test_requests_are_counted():
    coordinator = CountedCoordinator()
    assert coordinator.requests == 0
    coordinator.heartbeat("g", 1, "m")
    coordinator.offset_commit("g", {FIRST: OffsetAndMetadata(5)})
    coordinator.offset_commit("g", {FIRST: 5})
    coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    assert coordinator.requests == 4


def test_a_cluster_keeps_no_events_of_its_coordinator():
    story = Story(1, {"coterie.behaviour": "4.1"})
    story.start("a")
    story.start("b", {"group.id": "h", "group.protocol": "consumer"})
    story.poll(30_000)
    story.pass_time(30_000)
    assert story.cluster.coordinator.events == []
