"""Settings of clients: Kafka's defaults and bounds (ConsumerConfig, ProducerConfig, 3.9)."""

import pytest

from coterie import ArgumentError, ConfigError
from coterie.testing.client.settings import consumer_settings, producer_settings, timeout_of

INT32, INT64 = 2**31 - 1, 2**63 - 1
CONSUMER = {  # name: default, least, most
    "session.timeout.ms": (45_000, 3001, INT32),  # above the interval of heartbeats
    "heartbeat.interval.ms": (3_000, 1, 44_999),  # below the session
    "max.poll.interval.ms": (300_000, 1, INT32),
    "max.poll.records": (500, 1, INT32),
    "auto.commit.interval.ms": (5_000, 0, INT32),
    "retry.backoff.ms": (100, 0, INT64),
    "retry.backoff.max.ms": (1_000, 0, INT64),
    "default.api.timeout.ms": (60_000, 0, INT32),
    "request.timeout.ms": (30_000, 0, INT32),
    "metadata.max.age.ms": (300_000, 0, INT64),
}
PRODUCER = {
    "transaction.timeout.ms": (60_000, 1, INT32),
    "max.block.ms": (60_000, 0, INT64),
    "delivery.timeout.ms": (120_000, 0, INT32),
    "request.timeout.ms": (30_000, 0, INT32),
    "retry.backoff.ms": (100, 0, INT64),
    "retry.backoff.max.ms": (1_000, 0, INT64),
}
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"


@pytest.mark.parametrize(
    ("settings", "numbers"), [(consumer_settings, CONSUMER), (producer_settings, PRODUCER)]
)
def test_each_number_has_kafkas_default_and_bounds(settings, numbers):
    for name, (default, least, most) in numbers.items():
        assert settings({})[name] == default
        for value in (least, most):
            assert settings({name: value})[name] == value
            assert settings({name: str(value)})[name] == value
        for wrong in (least - 1, most + 1, 1.5, True, None, "five"):
            with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
                settings({name: wrong})


def test_what_is_no_number_has_kafkas_default_too():
    chosen = consumer_settings({"group.id": "g"})
    assert {name: chosen[name] for name in chosen.keys() - CONSUMER.keys()} == {
        "enable.auto.commit": True,
        "group.id": "g",
        "group.instance.id": None,
        "client.id": None,
        "client.rack": None,
        "group.remote.assignor": None,
        "auto.offset.reset": "latest",
        "isolation.level": "read_uncommitted",
        "group.protocol": "classic",
        "partition.assignment.strategy": ["range", "cooperative-sticky"],
    }
    chosen = producer_settings({})
    assert {name: chosen[name] for name in chosen.keys() - PRODUCER.keys()} == {
        "transactional.id": None,
        "client.id": None,
    }


@pytest.mark.parametrize(
    ("name", "value", "chosen"),
    [
        ("enable.auto.commit", False, False),
        ("enable.auto.commit", "True", True),
        ("auto.offset.reset", "EARLIEST", "earliest"),
        ("isolation.level", "read_committed", "read_committed"),
        ("partition.assignment.strategy", f" {RANGE} , sticky ", ["range", "sticky"]),
        ("partition.assignment.strategy", ["roundrobin", "range"], ["roundrobin", "range"]),
        ("client.rack", "", ""),  # no rack
        ("client.id", None, None),
    ],
)
def test_a_setting_may_be_spelled_as_in_a_file(name, value, chosen):
    assert consumer_settings({"group.id": "g", name: value})[name] == chosen


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([("group.id", "g")], "must be a mapping"),
        ({1: "g"}, "1 is no setting of a consumer$"),
        ({"transactional.id": "t"}, "'transactional.id' is no setting of a consumer"),
        ({"heartbeat.interval.ms": 45_000}, "must be below session.timeout.ms"),
        ({"enable.auto.commit": 1}, "must be true or false, not 1"),
        ({"auto.offset.reset": None}, "must be one of latest, earliest, none, not None"),
        ({"group.instance.id": ""}, "group.instance.id must not be empty"),
        ({"group.id": 5}, "group.id"),
        ({"partition.assignment.strategy": ""}, "'' is not known"),
        ({"partition.assignment.strategy": []}, "must name assignors, each once"),
        ({"partition.assignment.strategy": f"range,{RANGE}"}, "must name assignors, each once"),
        ({"partition.assignment.strategy": [5]}, "partition.assignment.strategy"),
        ({"group.protocol": "consumer", "session.timeout.ms": 9000}, "session.timeout.ms cannot"),
        ({"group.remote.assignor": "range"}, "cannot be set when group.protocol is classic"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(given, named):
    with pytest.raises(ConfigError, match=named):
        consumer_settings(given)


def test_a_setting_without_effect_on_a_simulation_is_no_mistake():
    plain = consumer_settings({"group.id": "g"})
    assert consumer_settings({"group.id": "g", "fetch.min.bytes": 5, "check.crcs": "x"}) == plain
    assert producer_settings({"acks": "all", "linger.ms": 7}) == producer_settings({})


def test_without_a_group_nothing_is_committed_automatically():
    # ConsumerConfig.maybeOverrideEnableAutoCommit
    assert consumer_settings({})["enable.auto.commit"] is False
    assert consumer_settings({"enable.auto.commit": "false"})["enable.auto.commit"] is False
    with pytest.raises(ConfigError, match="must be false without a group"):
        consumer_settings({"enable.auto.commit": True})


def test_a_timeout_of_a_call_is_at_most_an_int32():
    assert [timeout_of(0), timeout_of(INT32)] == [0, INT32]
    for wrong in (-1, INT32 + 1, None, 0.5):
        with pytest.raises(ArgumentError, match="timeout_ms"):
            timeout_of(wrong)
