"""The numbers that settings of topics and groups may have: Kafka's LogConfig and GroupConfig."""

import pytest

from coterie.server.services.data.topic_configs import (
    InvalidConfig,
    read_config,
    topic_configs_of,
)
from support.server.asking import ask
from support.server.playing import BROKER, Server

INT, LONG = 2**31 - 1, 2**63 - 1
BOUNDS = {  # the least and the largest
    "compression.lz4.level": (1, 17),
    "compression.zstd.level": (-131072, 22),
    "delete.retention.ms": (0, LONG),
    "file.delete.delay.ms": (0, LONG),
    "flush.messages": (1, LONG),
    "flush.ms": (0, LONG),
    "index.interval.bytes": (0, INT),
    "local.retention.bytes": (-2, LONG),
    "local.retention.ms": (-2, LONG),
    "max.compaction.lag.ms": (1, LONG),
    "max.message.bytes": (0, INT),
    "message.timestamp.after.max.ms": (0, LONG),
    "message.timestamp.before.max.ms": (0, LONG),
    "min.cleanable.dirty.ratio": (0, 1),
    "min.compaction.lag.ms": (0, LONG),
    "min.insync.replicas": (1, INT),
    "retention.bytes": (-LONG - 1, LONG),
    "retention.ms": (-1, LONG),
    "segment.index.bytes": (4, INT),
    "segment.jitter.ms": (0, LONG),
    "segment.ms": (1, LONG),
}


@pytest.mark.parametrize("release", ["3.9", "4.1"])
@pytest.mark.parametrize(("name", "bounds"), BOUNDS.items(), ids=BOUNDS)
def test_a_number_is_taken_from_the_least_to_the_largest(release, name, bounds):
    known = topic_configs_of(release)
    least, largest = bounds
    for value in bounds:
        assert read_config(known, name, str(value)) == value
    for value in (least - 1, largest + 1):
        with pytest.raises(InvalidConfig, match=f"configuration {name}: "):
            read_config(known, name, str(value))


def test_a_segment_of_kafka_4_has_at_least_a_mebibyte():
    for release, least in (("3.9", 14), ("4.1", 1 << 20)):
        known = topic_configs_of(release)
        assert read_config(known, "segment.bytes", str(least)) == least
        with pytest.raises(InvalidConfig, match=f"Value must be at least {least}"):
            read_config(known, "segment.bytes", str(least - 1))


@pytest.mark.parametrize("level", range(-2, 11))
def test_a_level_of_gzip_is_1_to_9_or_that_of_the_library(level):
    # CompressionType.GZIP.levelValidator
    known = topic_configs_of("3.9")
    if level == -1 or 1 <= level <= 9:
        assert read_config(known, "compression.gzip.level", str(level)) == level
    else:
        with pytest.raises(InvalidConfig) as refused:
            read_config(known, "compression.gzip.level", str(level))
        assert str(refused.value) == (
            f"Invalid value {level} for configuration compression.gzip.level: "
            "Value must be between 1 and 9 or equal to -1"
        )


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("consumer.session.timeout.ms", (45_000, 60_000)),
        ("consumer.heartbeat.interval.ms", (5_000, 15_000)),
    ],
)
def test_a_group_may_have_what_the_broker_allows_at_the_most_and_at_the_least(name, bounds):
    peer = Server(BROKER, kafka="4.1").connect()
    errors = []
    for value in (bounds[0] - 1, *bounds, bounds[1] + 1):
        entries = [{"name": name, "value": str(value), "configOperation": 0}]
        resource = {"resourceType": 32, "resourceName": "g", "configs": entries}
        (found,) = ask(peer, "IncrementalAlterConfigs", 1, {"resources": [resource]})["responses"]
        errors.append(found["errorCode"])
    assert errors == [40, 0, 0, 40]
