"""Rules of the low-level consumer of 0.8.2 at their bounds, without the golden scenarios."""

import pytest

from coterie.designs import simple08
from coterie.designs.simple08 import HIGHEST_BROKER, MOST_AT_ONCE, OffsetStore, broker_ids
from coterie.errors import ArgumentError
from coterie.values import Error

BYTES = 36  # of a message of the scenarios: Kafka's 26 of a header, and a value of 10


def started(topics, *brokers):
    cluster = simple08.Cluster(topics, brokers)
    cluster.start(brokers)
    return cluster


def ask(cluster, broker, api, **fields):
    return simple08.SimpleConsumer(cluster, broker).ask(api, **fields)


def fetch(cluster, broker, offset, size=10**6, **place):
    fields = {"topic": "t", "partition": 0, "offset": offset, "fetch_size": size} | place
    return ask(cluster, broker, "fetch", **fields)


@pytest.mark.parametrize(
    ("offset", "size", "offsets", "total"),
    [
        (0, 4 * BYTES, [0, 1, 2, 3], 4 * BYTES),
        (0, 4 * BYTES - 1, [0, 1, 2], 4 * BYTES - 1),
        (1, 10**6, [1, 2, 3], 3 * BYTES),
        (3, BYTES, [3], BYTES),
        (3, BYTES - 1, [], BYTES - 1),
        (4, 10**6, [], 0),
    ],
)
def test_a_fetch_has_the_bytes_that_fit_and_the_messages_that_are_whole(
    offset, size, offsets, total
):
    cluster = started({"t": [[0, 1]]}, 0, 1)
    assert cluster.produce("t", 0, 4)
    assert fetch(cluster, 0, offset, size) == {
        "error": 0,
        "high_watermark": 4,
        "offsets": offsets,
        "bytes": total,
        "valid_bytes": len(offsets) * BYTES,
    }


@pytest.mark.parametrize("offset", [-1, 5])
def test_an_offset_outside_the_log_is_out_of_range(offset):
    cluster = started({"t": [[0, 1]]}, 0, 1)
    cluster.produce("t", 0, 4)
    empty = {"high_watermark": -1, "offsets": [], "bytes": 0, "valid_bytes": 0}
    assert fetch(cluster, 0, offset) == {"error": Error.OFFSET_OUT_OF_RANGE, **empty}
    for broker, partition, error in [
        (1, 0, Error.NOT_LEADER_OR_FOLLOWER),
        (0, 1, Error.UNKNOWN_TOPIC_OR_PARTITION),
        (0, -1, Error.UNKNOWN_TOPIC_OR_PARTITION),
    ]:
        refused = fetch(cluster, broker, 0, partition=partition)
        assert refused == {"error": error, **empty}
        fields = {"topic": "t", "partition": partition, "time": -1, "max_offsets": 1}
        assert ask(cluster, broker, "offsets", **fields) == {"error": error, "offsets": []}


@pytest.mark.parametrize(
    ("time", "most", "offsets"),
    [(-1, 2, [4, 0]), (-1, 1, [4]), (-1, 0, []), (-1, -1, []), (-2, 9, [0]), (5, 9, [])],
)
def test_offsets_before_a_time_are_at_most_so_many_the_latest_first(time, most, offsets):
    cluster = started({"t": [[0]], "empty": [[0]]}, 0)
    cluster.produce("t", 0, 4)
    fields = {"partition": 0, "time": time, "max_offsets": most}
    assert ask(cluster, 0, "offsets", topic="t", **fields) == {"error": 0, "offsets": offsets}
    of_empty = ask(cluster, 0, "offsets", topic="empty", **fields)["offsets"]
    assert of_empty == ([0] if offsets else [])


def test_a_compressed_set_is_one_entry_of_consecutive_offsets():
    cluster = started({"t": [[0]]}, 0)
    cluster.produce("t", 0, 2)
    assert "bytes" in fetch(cluster, 0, 0)
    cluster.produce("t", 0, 3, "gzip")
    cluster.produce("t", 0, 0, "lz4")
    cluster.produce("t", 0, 1)
    found = fetch(cluster, 0, 3)
    assert found == {"error": 0, "high_watermark": 6, "offsets": [2, 3, 4, 5]}
    assert fetch(cluster, 0, 5)["offsets"] == [5]


def test_messages_are_counted_up_to_a_million_at_once():
    cluster = started({"t": [[0]]}, 0)
    assert cluster.produce("t", 0, MOST_AT_ONCE, "gzip")
    assert fetch(cluster, 0, MOST_AT_ONCE)["high_watermark"] == MOST_AT_ONCE == 1_000_000
    assert not cluster.produce("t", 1, 1)
    assert not cluster.produce("u", 0, 1)
    for count in (-1, MOST_AT_ONCE + 1):
        with pytest.raises(ArgumentError, match="count must be from 0 to 1000000"):
            cluster.produce("t", 0, count)


@pytest.mark.parametrize(
    ("ids", "known", "is_taken"),
    [
        ([], None, True),
        ([0, HIGHEST_BROKER], None, True),
        ([-1], None, False),
        ([HIGHEST_BROKER + 1], None, False),
        ([1, 1], None, False),
        ([2, 1], [1, 2], True),
        ([1], [1, 2], True),
        ([3], [1, 2], False),
    ],
)
def test_broker_ids_are_different_known_and_of_31_bits(ids, known, is_taken):
    assert HIGHEST_BROKER == 2_147_483_647
    if is_taken:
        assert broker_ids(ids, "brokers", known) == tuple(ids)
    else:
        with pytest.raises(ArgumentError, match="brokers must be"):
            broker_ids(ids, "brokers", known)


def test_metadata_are_of_the_topics_that_are_named_or_of_all_sorted():
    cluster = started({"u": [[0]], "t": [[1, 0], [0]]}, 0, 1)

    def topics(*names):
        response = ask(cluster, 1, "metadata", topics=list(names))
        return [(one["topic"], one["error"], len(one["partitions"])) for one in response["topics"]]

    assert topics() == [("t", 0, 2), ("u", 0, 1)]
    assert topics("v", "u", "u") == [("u", 0, 1), ("v", Error.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    first, second = ask(cluster, 1, "metadata", topics=["t"])["topics"][0]["partitions"]
    assert first == {"partition": 0, "error": 0, "leader": 1, "replicas": [1, 0], "isr": [1, 0]}
    assert (second["partition"], second["leader"]) == (1, 0)


def test_the_first_broker_to_start_is_the_controller_and_the_lowest_live_one_the_next():
    cluster = simple08.Cluster({"t": [[3, 1, 2]]}, [1, 2, 3])
    assert cluster.controller is None
    cluster.start([3])
    assert (cluster.controller, cluster.controller_epoch) == (3, 1)
    cluster.start([2, 1])
    assert (cluster.controller, cluster.controller_epoch) == (3, 1)
    cluster.kill(3)
    assert (cluster.controller, cluster.partitions[0].state.leader) == (3, 3)
    cluster.settle()
    assert (cluster.controller, cluster.controller_epoch) == (1, 2)
    assert cluster.partitions[0].state.leader == 1
    for broker in (1, 2):
        cluster.kill(broker)
    cluster.settle()
    assert cluster.controller is None
    cluster.start([2, 3])
    assert (cluster.controller, cluster.controller_epoch) == (2, 3)


def test_the_replicas_that_were_in_sync_remain_so_under_a_new_leader():
    cluster = started({"t": [[0, 1, 2]]}, 0, 1, 2)
    cluster.kill(0)
    cluster.settle()
    state = cluster.partition("t", 0).state
    assert (state.leader, state.isr) == (1, (1, 2))


def test_replicas_that_come_back_together_are_in_sync_with_the_one_that_leads():
    cluster = started({"t": [[0, 1, 2]]}, 0, 1, 2, 3)
    for broker in (1, 2, 0):
        cluster.kill(broker)
        cluster.settle()
        cluster.produce("t", 0, 3)
    cluster.start([1, 2])
    state = cluster.partition("t", 0).state
    assert (state.leader, state.isr) == (1, (1, 2))


def test_a_partition_whose_replicas_start_later_has_no_leader_before():
    cluster = simple08.Cluster({"t": [[1]], "u": [[0]]}, [0, 1])
    cluster.start([0])
    states = [partition.state for partition in cluster.partitions]
    assert (states[0].leader, states[0].isr, states[0].leader_epoch) == (-1, (), -1)
    assert (states[1].leader, states[1].isr, states[1].leader_epoch) == (0, (0,), 0)
    (partition,) = ask(cluster, 0, "metadata", topics=["t"])["topics"][0]["partitions"]
    assert (partition["leader"], partition["error"]) == (None, Error.LEADER_NOT_AVAILABLE)
    cluster.start([1])
    assert cluster.partitions[0].state.leader == 1


# ---- stored offsets

COMMIT = {"group": "g", "topic": "t", "partition": 0, "offset": 7, "metadata": "m"}


def coordinated(topics=None):
    """A cluster of three, its offsets, and a group's coordinator."""
    cluster, offsets = started(topics or {"t": [[0]]}, 0, 1, 2), OffsetStore()
    assert offsets.coordinator(cluster, "g") is None
    found = [offsets.consumer_metadata(cluster, 0, {"group": "g"}) for _ in range(2)]
    assert found == [
        {"error": Error.COORDINATOR_NOT_AVAILABLE},
        {"error": 0, "same_from_both": True},
    ]
    return cluster, offsets, offsets.coordinator(cluster, "g")


@pytest.mark.parametrize("version", [0, 1])
def test_a_stored_offset_is_read_in_its_own_version_alone(version):
    """In ZooKeeper there is no metadata, and no offset is an error."""
    cluster, offsets, coordinator = coordinated()
    assert offsets.commit(cluster, coordinator, COMMIT | {"version": version}) == {"error": 0}
    unknown = {"error": Error.UNKNOWN_TOPIC_OR_PARTITION, "offset": -1, "metadata": ""}
    none = {"error": 0, "offset": -1, "metadata": ""}
    stored = {"error": 0, "offset": 7, "metadata": "" if version == 0 else "m"}

    def read(version, **fields):
        return offsets.fetch(cluster, coordinator, COMMIT | {"version": version} | fields)

    assert read(version) == stored
    assert read(1 - version) == (none if version == 0 else unknown)
    assert read(version, group="h")["offset"] == -1
    for version in (0, 1):
        assert read(version, topic="u") == unknown
        assert read(version, partition=1) == unknown


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4096, 0),
        ("x" * 4097, Error.OFFSET_METADATA_TOO_LARGE),
        ("4096 characters", 0),
        ("4097 characters", Error.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_metadata_are_of_4096_characters_at_most(metadata, error):
    """offset.metadata.max.bytes; a scenario writes a long text by its length."""
    for version in (0, 1):
        cluster, offsets, coordinator = coordinated()
        request = COMMIT | {"version": version, "metadata": metadata}
        assert offsets.commit(cluster, coordinator, request) == {"error": error}
        stored = offsets.in_kafka or offsets.in_zookeeper
        assert bool(stored) == (not error)


def test_only_the_coordinator_has_offsets_of_kafka_and_any_broker_those_of_zookeeper():
    cluster, offsets, coordinator = coordinated()
    other = (coordinator + 1) % 3
    refused = Error.NOT_COORDINATOR
    assert offsets.commit(cluster, other, COMMIT | {"version": 1}) == {"error": refused}
    assert offsets.commit(cluster, other, COMMIT | {"version": 0}) == {"error": 0}
    assert offsets.commit(cluster, other, COMMIT | {"version": 0, "topic": "u"}) == {
        "error": Error.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert offsets.fetch(cluster, other, COMMIT | {"version": 0})["offset"] == 7
    assert offsets.fetch(cluster, other, COMMIT | {"version": 1}) == {
        "error": refused, "offset": -1, "metadata": ""
    }  # fmt: skip
    cluster.kill(coordinator)
    assert offsets.coordinator(cluster, "g") in {0, 1, 2} - {coordinator}
    for broker in range(3):
        cluster.kill(broker)
    assert offsets.coordinator(cluster, "g") is None


# ---- the reader


def test_the_reader_counts_its_requests_and_reads_what_is_new():
    cluster = started({"t": [[0, 1], [1, 0]]}, 0, 1, 2)
    cluster.produce("t", 1, 3)
    reader = simple08.SimpleReader(cluster, "t", 1, seeds=[2, 0])
    assert (reader.read(), reader.offset, reader.leader) == ([0, 1, 2], 3, 1)
    assert reader.requests == 3  # metadata, the first offset, a fetch
    assert (reader.read(), reader.offset, reader.requests) == ([], 3, 4)
    cluster.produce("t", 1, 1)
    assert (reader.read(), reader.offset, reader.requests) == ([3], 4, 5)
    latest = simple08.SimpleReader(cluster, "t", 1, seeds=[2], offset=simple08.LATEST)
    assert (latest.read(), latest.offset) == ([], 4)
    given = simple08.SimpleReader(cluster, "t", 1, seeds=[2], offset=2)
    assert (given.read(), given.requests) == ([2, 3], 2)


def test_the_reader_goes_on_at_the_end_of_a_log_that_was_cut():
    """An unclean leader has fewer messages than were read."""
    cluster = started({"t": [[0, 1]]}, 0, 1, 2)
    reader = simple08.SimpleReader(cluster, "t", 0, seeds=[2])
    cluster.produce("t", 0, 2)
    cluster.kill(1)
    cluster.settle()
    cluster.produce("t", 0, 3)
    assert reader.read() == [0, 1, 2, 3, 4]
    cluster.kill(0)
    cluster.settle()
    with pytest.raises(simple08.NoLeader):
        reader.read()
    assert reader.leader is None
    cluster.start([1])
    assert (reader.read(), reader.offset, reader.leader) == ([], 2, 1)
    cluster.produce("t", 0, 1)
    assert reader.read() == [2]


def test_the_reader_of_a_partition_that_is_not_there_finds_no_leader():
    cluster = started({"t": [[0]]}, 0)
    for topic, partition in (("t", 1), ("u", 0)):
        reader = simple08.SimpleReader(cluster, topic, partition, seeds=[0])
        assert (reader.find_leader(), reader.leader, reader.replicas) == (None, None, [])
    cluster.kill(0)
    reader = simple08.SimpleReader(cluster, "t", 0, seeds=[0])
    assert (reader.find_leader(), reader.requests) == (None, 1)


# ---- steps of a scenario


def run(*steps, topics=None, brokers=(0, 1, 2)):
    """The responses of steps: an event, or a request if it has an ``api``; ``doc`` may be given."""
    numbered = [
        {"step": at, "doc": step.pop("doc", ""), **({"request": step} if "api" in step else step)}
        for at, step in enumerate(map(dict, steps), 1)
    ]
    config = {"topics": topics or {"t": [[0, 1]], "other": [[1]]}, "brokers": list(brokers)}
    played = simple08.run({"config": config, "steps": numbered})
    assert [step["step"] for step in played] == list(range(1, len(steps) + 1))
    return [step["response"] for step in played if "request" in step]


START = {"event": "start", "brokers": [0, 1, 2]}
FIND = {"api": "consumer_metadata", "broker": 0, "group": "g"}
CLOSED = {"exception": "java.nio.channels.ClosedChannelException"}


def stored(api, broker, version=1, **fields):
    place = {"group": "g", "topic": "t", "partition": 0}
    return {"api": api, "broker": broker, "version": version, **place, **fields}


def test_a_request_goes_to_a_broker_by_its_id_or_to_the_coordinator_or_to_another():
    commit = {"offset": 5, "metadata": "m"}
    find, again, refused, taken, read, other = run(
        START,
        *(FIND, FIND),
        stored("offset_commit", "not the coordinator", **commit),
        stored("offset_commit", "coordinator", **commit),
        stored("offset_fetch", "coordinator"),
        stored("offset_fetch", "not the coordinator"),
    )
    assert (find["error"], again["error"]) == (Error.COORDINATOR_NOT_AVAILABLE, 0)
    assert (refused["error"], taken["error"]) == (Error.NOT_COORDINATOR, 0)
    assert read == {"error": 0, "offset": 5, "metadata": "m"}
    assert other["error"] == Error.NOT_COORDINATOR


def test_a_dead_broker_takes_no_connection_and_one_that_is_alone_is_no_other():
    found = run(
        {"event": "started", "broker": 1},
        *(FIND, FIND | {"broker": 1}, FIND | {"broker": 1}),
        stored("offset_fetch", "not the coordinator"),
        {"event": "stopped", "broker": 1},
        FIND | {"broker": 1},
        stored("offset_fetch", "coordinator"),
    )
    assert [one == CLOSED for one in found] == [True, False, False, True, True, True]


def states(response):
    return sorted({path.split("/")[3] for path in response})


@pytest.mark.parametrize(
    ("request_before", "doc", "topics"),
    [
        (None, "", ["t"]),  # the first topic
        (None, "the leaders of topic other", ["other"]),
        (None, "states of other.", ["t"]),  # with the full stop it is another name
        (None, "states of other now", ["other"]),
        ({"api": "metadata", "broker": 0, "topics": ["other"]}, "", ["other"]),
        ({"api": "metadata", "broker": 0, "topics": ["other"]}, "topic t", ["t"]),
        ({"api": "metadata", "broker": 0, "topics": ["nope"]}, "", ["t"]),
    ],
)
def test_nodes_of_partitions_are_those_of_the_topic_in_the_text_or_of_the_last_request(
    request_before, doc, topics
):
    before = [request_before] if request_before else []
    *_, found = run(START, *before, {"api": "znodes", "doc": doc})
    assert states(found) == topics


@pytest.mark.parametrize(
    ("version", "doc", "is_offsets"),
    [
        (0, "", True),
        (1, "", False),
        (0, "the state of the partition", False),
        (1, "the stored offset", True),
        (0, "the offsets and the leader", True),  # both: as without words
        (1, "the offsets and the leader", False),
    ],
)
def test_nodes_are_offsets_after_a_request_of_version_0_or_if_the_text_says_so(
    version, doc, is_offsets
):
    request = stored("offset_commit", 0, 0, offset=5, metadata="")
    last = stored("offset_fetch", 0, version)
    other = stored("offset_commit", 0, 0, offset=6, metadata="") | {"group": "a"}
    *_, found = run(START, request, other, last, {"api": "znodes", "doc": doc})
    if is_offsets:
        assert list(found.items()) == [
            ("/consumers/a/offsets/t/0", "6"),
            ("/consumers/g/offsets/t/0", "5"),
        ]
    else:
        assert found["/brokers/topics/t/partitions/0/state"] == {
            "controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 0, "isr": [0, 1]
        }  # fmt: skip


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"event": "produce", "topic": "t", "partition": True, "count": 1}, "produce needs"),
        ({"event": "produce", "topic": "t", "partition": 0, "count": True}, "produce needs"),
        ({"event": "produce", "topic": "t", "partition": -1, "count": 1}, "produce needs"),
        ({"event": "produce", "topic": 5, "partition": 0, "count": 1}, "produce needs"),
        ({"event": "produce", "topic": "t", "partition": 1, "count": 0}, "nothing to produce to"),
        ({"event": "kill", "broker": True}, "broker True is not one of"),
        ({"event": "kill"}, "brokers must be a list, not None"),
        ({"event": "later", "broker": 1}, "event 'later' is not known"),
        ({"event": None}, "event None is not known"),
        ({**FIND, "broker": True}, "broker True is not one of"),
    ],
)
def test_a_step_that_is_none_is_refused(step, why):
    with pytest.raises(ArgumentError, match=f"step 2: {why}"):
        run(START, step)


def test_messages_may_be_none_and_an_event_without_fields_ends_sessions():
    fields = {"topic": "t", "partition": 0, "offset": 0, "fetch_size": 999}
    found = run(
        START,
        {"event": "produce", "topic": "t", "partition": 0, "count": 0},
        {"event": "produce", "topic": "t", "partition": 0, "count": 2},
        {"event": "stop", "broker": 0},
        {"api": "fetch", "broker": 1, **fields},
        {"event": "all sessions have ended"},
        {"api": "fetch", "broker": 1, **fields},
    )
    assert [one["error"] for one in found] == [Error.NOT_LEADER_OR_FOLLOWER, 0]
    assert found[1]["offsets"] == [0, 1]
