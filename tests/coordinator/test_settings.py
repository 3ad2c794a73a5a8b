"""Settings with the defaults and bounds of Kafka's ``GroupCoordinatorConfig``."""

import pytest

from coterie import ConfigError, GroupCoordinator
from coterie.coordinator.config import DEFAULTS, coordinator_config

INT, LONG = 2**31 - 1, 2**63 - 1
KAFKAS = {  # name -> default, least, largest
    "group.initial.rebalance.delay.ms": (3_000, 0, INT),  # a negative one means nothing
    "group.min.session.timeout.ms": (6_000, -INT - 1, INT),
    "group.max.session.timeout.ms": (1_800_000, -INT - 1, INT),
    "group.max.size": (INT, 1, INT),
    "group.consumer.session.timeout.ms": (45_000, 1, INT),
    "group.consumer.min.session.timeout.ms": (45_000, 1, INT),
    "group.consumer.max.session.timeout.ms": (60_000, 1, INT),
    "group.consumer.heartbeat.interval.ms": (5_000, 1, INT),
    "group.consumer.min.heartbeat.interval.ms": (5_000, 1, INT),
    "group.consumer.max.heartbeat.interval.ms": (15_000, 1, INT),
    "group.consumer.max.size": (INT, 1, INT),
    "offset.metadata.max.bytes": (4_096, -INT - 1, INT),
    "offsets.retention.minutes": (7 * 24 * 60, 1, INT),
    "offsets.retention.check.interval.ms": (600_000, 1, LONG),
    "offsets.topic.num.partitions": (50, 1, INT),
    "offsets.topic.segment.bytes": (100 * 1024 * 1024, 1, INT),
    "offsets.commit.timeout.ms": (5_000, 1, INT),
    "offsets.load.buffer.size": (5 * 1024 * 1024, 1, INT),
}


@pytest.mark.parametrize(("name", "bounds"), KAFKAS.items(), ids=KAFKAS)
def test_a_setting_has_kafkas_default_and_bounds(name, bounds):
    default, least, largest = bounds
    assert coordinator_config(None)[name] == DEFAULTS[name] == default
    for value in (least, largest):
        assert coordinator_config({name: value})[name] == value
    for value in (least - 1, largest + 1, str(default), float(default), True):
        with pytest.raises(ConfigError, match=name):
            coordinator_config({name: value})


@pytest.mark.parametrize(
    ("behaviour", "has_them"),
    [("2.4", False), ("3.9", False), ("4.1", True), ("4.1.2", True), ("4.2", True)],
)
def test_consumer_groups_are_of_kafka_4(behaviour, has_them):
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    for request in (
        lambda: coordinator.consumer_group_heartbeat("g", "m", 0),
        lambda: coordinator.consumer_group_describe(["g"]),
        lambda: coordinator.set_topics({"t": 1}),
    ):
        if has_them:
            request()
        else:
            with pytest.raises(ConfigError, match="consumer groups need coterie"):
                request()
