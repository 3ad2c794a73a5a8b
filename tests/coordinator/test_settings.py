"""Settings with the defaults and bounds of Kafka's ``GroupCoordinatorConfig``."""

import pytest

from coterie import ConfigError, GroupCoordinator
from coterie.coordinator.config import DEFAULTS, coordinator_config, parse_setting

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


def test_the_servers_assignors_are_some_of_two_in_their_order():
    name = "group.consumer.assignors"
    for value, chosen in (("range", ("range",)), (" range , uniform", ("range", "uniform")),
                          (["uniform"], ("uniform",)), (("range", "uniform"), ("range", "uniform")),
                          (None, ("uniform", "range"))):  # fmt: skip
        assert coordinator_config({name: value})[name] == chosen
    for wrong in ("", "range,", "sticky", ["range", "sticky"], [], (), 5, {"range": 1}):
        with pytest.raises(ConfigError, match=name):
            coordinator_config({name: wrong})


def test_a_choice_is_one_of_its_names_and_nothing_is_its_default():
    for name, value, chosen in (
        ("group.consumer.migration.policy", "UPGRADE", "upgrade"),
        ("coterie.cleanup", "periodic", "periodic"), ("coterie.ties", None, "first"),
        ("group.max.size", None, INT),
    ):  # fmt: skip
        assert coordinator_config({name: value})[name] == chosen
    for name in ("group.consumer.migration.policy", "coterie.cleanup", "coterie.behaviour"):
        for wrong in ("other", 5, ["periodic"]):
            with pytest.raises(ConfigError, match=f"{name} must be one of"):
                coordinator_config({name: wrong})
    for wrong in ([("group.max.size", 5)], 5):
        with pytest.raises(ConfigError, match="must be a mapping"):
            coordinator_config(wrong)
    with pytest.raises(ConfigError, match=r"did you mean 'group\.max\.size'"):
        coordinator_config({"group.max.sizes": 5})


@pytest.mark.parametrize(
    ("text", "setting"),
    [("a=5", ("a", 5)), ("a=-5", ("a", -5)), ("a=b=c", ("a", "b=c")), ("a=", ("a", ""))],
)
def test_a_setting_of_a_command_line_is_a_name_and_a_number_or_text(text, setting):
    assert parse_setting(text) == setting
    with pytest.raises(ConfigError, match="must be KEY=VALUE"):
        parse_setting("a")
