"""Settings of a broker 4.1: those of topics, of brokers and of groups."""

import socket

import pytest

from coterie.server import Broker
from support.server.asking import ask, request
from support.server.playing import Server, server_of_kafka_4
from support.server.writing import batch


@pytest.fixture
def server():
    return server_of_kafka_4()


@pytest.fixture
def peer(server):
    return server.connect()


TOPIC, BROKER_TYPE, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def described(peer, kind, name):
    resource = {"resourceType": kind, "resourceName": name, "configurationKeys": None}
    (found,) = ask(peer, "DescribeConfigs", 4, {"resources": [resource]})["results"]
    assert found["errorCode"] == 0
    return {row["name"]: (row["value"], row["configSource"]) for row in found["configs"]}


def altered(peer, kind, name, **configs):
    entries = [
        {"name": key.replace("_", "."), "value": value, "configOperation": 0}
        for key, value in configs.items()
    ]
    body = {"resources": [{"resourceType": kind, "resourceName": name, "configs": entries}]}
    (found,) = ask(peer, "IncrementalAlterConfigs", 1, body)["responses"]
    return found["errorCode"], found["errorMessage"]


def test_topics_have_the_settings_of_kafka_4(peer):
    settings = described(peer, TOPIC, "t")
    assert len(settings) == 33  # LogConfig of 4.1.1 without its internal one
    assert settings["message.timestamp.after.max.ms"] == ("3600000", 5)
    assert not [name for name in settings if "format" in name or "downconversion" in name]
    assert altered(peer, TOPIC, "t", segment_bytes="1000") == (
        40,
        "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576",
    )
    assert altered(peer, TOPIC, "t", message_format_version="3.0") == (
        40,
        "Unknown topic config name: message.format.version",
    )


# Defaults of AbstractKafkaConfig.CONFIG_DEF of 4.1.1, and of KafkaConfig of 3.9.1.
@pytest.mark.parametrize(
    ("kafka", "defaults", "hidden"),
    [
        (
            "4.1",
            {
                "group.consumer.assignors": "uniform,range",
                "group.consumer.migration.policy": "bidirectional",
                "log.message.timestamp.after.max.ms": "3600000",
                "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
                "num.recovery.threads.per.data.dir": "2",
            },
            {"group.consumer.regex.refresh.interval.ms", "offsets.commit.required.acks"},
        ),
        (
            "3.9",
            {
                "group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor."
                "UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor",
                "num.recovery.threads.per.data.dir": "1",
            },
            {"group.consumer.regex.refresh.interval.ms", "group.consumer.migration.policy"},
        ),
    ],
)
def test_a_broker_shows_the_defaults_of_its_release(kafka, defaults, hidden):
    settings = described(Server({}, kafka=kafka).connect(), BROKER_TYPE, "1")
    assert {name: settings[name] for name in defaults} == {
        name: (value, 5) for name, value in defaults.items()
    }
    assert not hidden & settings.keys()


def test_the_cluster_has_min_insync_replicas_which_stays(peer):
    """Of ConfigurationControlManager, where eligible leader replicas are on."""
    assert described(peer, TOPIC, "t")["min.insync.replicas"] == ("1", 3)
    assert altered(peer, BROKER_TYPE, "1", min_insync_replicas="2") == (
        40,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    assert altered(peer, BROKER_TYPE, "", min_insync_replicas="2") == (0, None)
    assert described(peer, TOPIC, "t")["min.insync.replicas"] == ("2", 3)


@pytest.mark.parametrize("kafka", ["3.9", "4.1"])
def test_a_record_of_the_wall_clock_is_taken_by_a_broker_with_a_virtual_clock(kafka):
    with Broker(topics={"t": 1}, clock="virtual", kafka=kafka) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port))) as connection:
            records = batch(b"v", time_ms=1_760_000_000_000)
            topics = [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]
            connection.sendall(request("Produce", 9, {"acks": -1, "topicData": topics}))
            assert connection.recv(4)
        (log,) = broker._thread.call(lambda running: running.cluster.topics.get("t").partitions)
        assert log.log_end_offset == 1


def test_groups_have_settings_of_their_own(server, peer):
    settings = described(peer, GROUP, "g")
    assert settings["consumer.heartbeat.interval.ms"] == ("5000", 5)
    assert len(settings) == 10
    change = {"consumer_heartbeat_interval_ms": "6000", "consumer_session_timeout_ms": "50000"}
    assert altered(peer, GROUP, "g", **change) == (0, None)
    assert described(peer, GROUP, "g")["consumer.heartbeat.interval.ms"] == ("6000", 8)
    body = {
        "groupId": "g", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 1000,
        "subscribedTopicNames": ["t"], "topicPartitions": [],
    }  # fmt: skip
    joined = ask(peer, "ConsumerGroupHeartbeat", 1, body)
    assert joined["heartbeatIntervalMs"] == 6000
    server.run(49_999)
    assert server.cluster.groups.snapshot("g").state == "Stable"
    server.run(1)
    assert server.cluster.groups.snapshot("g").state == "Empty"


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"x": "1"}, "Unknown group config name: x"),
        (
            {"consumer_session_timeout_ms": "1"},
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer_session_timeout_ms": "60001"},
            "consumer.session.timeout.ms must be less than or equal to "
            "group.consumer.max.session.timeout.ms",
        ),
        (
            {"consumer_heartbeat_interval_ms": "15001"},
            "consumer.heartbeat.interval.ms must be less than or equal to "
            "group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {"consumer_heartbeat_interval_ms": "x"},
            "Invalid value x for configuration consumer.heartbeat.interval.ms: Not a number of "
            "type INT",
        ),
    ],
)
def test_wrong_settings_of_groups_are_refused(peer, configs, message):
    assert altered(peer, GROUP, "g", **configs)[1] == message
    assert described(peer, GROUP, "g")["consumer.session.timeout.ms"] == ("45000", 5)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"consumer_session_timeout_ms": "1"}, "session.timeout.ms must be in the range 45000 to "),
        ({"consumer_heartbeat_interval_ms": "15001"}, "heartbeat.interval.ms must be in the range"),
        ({"consumer_assignment_interval_ms": "15001"}, "in the range 0 to 15000 inclusive."),
    ],
)
def test_settings_of_groups_out_of_the_brokers_bounds_are_refused_by_4_4_too(configs, message):
    peer = Server({}, kafka="4.4").connect()
    error, text = altered(peer, GROUP, "g", **configs)
    assert error != 0
    assert message in text


def test_resources_with_settings_are_listed_by_their_type(peer):
    altered(peer, GROUP, "g", consumer_heartbeat_interval_ms="6000")

    def listed(version, *types):
        found = ask(peer, "ListConfigResources", version, {"resourceTypes": list(types)})
        rows = found["configResources"]
        return found["errorCode"], {(row["resourceType"], row["resourceName"]) for row in rows}

    everything = {(TOPIC, "t"), (BROKER_TYPE, "1"), (LOGGER, "1"), (GROUP, "g")}
    assert listed(1) == (0, everything)
    assert listed(1, TOPIC, BROKER_TYPE, LOGGER, 16, GROUP) == (0, everything)
    assert listed(1, GROUP) == (0, {(GROUP, "g")})
    assert listed(1, 77) == (35, set())
    assert listed(0) == (0, set())


@pytest.mark.parametrize(
    ("session_ms", "heartbeat_ms"), [(45_000, 5000), (60_000, 15_000), (45_000, 15_000)]
)
def test_settings_of_groups_reach_to_the_bounds_of_the_broker(peer, session_ms, heartbeat_ms):
    change = {"consumer_session_timeout_ms": str(session_ms),
              "consumer_heartbeat_interval_ms": str(heartbeat_ms)}  # fmt: skip
    assert altered(peer, GROUP, "g", **change) == (0, None)


@pytest.mark.parametrize(("session_ms", "error"), [(5000, 40), (5001, 0)])
def test_a_session_is_longer_than_the_interval_of_heartbeats(session_ms, error):
    peer = Server({"group.consumer.min.session.timeout.ms": 5000}, kafka="4.1").connect()
    found = altered(peer, GROUP, "g", consumer_session_timeout_ms=str(session_ms))
    assert found[0] == error
