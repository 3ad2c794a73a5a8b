"""The numbers that settings of topics and groups may have: Kafka's LogConfig and GroupConfig."""

import pytest

from coterie.base.settings import InvalidConfig
from coterie.server.topic_configs import read_config, topic_configs_of
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


def test_space_around_a_value_means_nothing():
    known = topic_configs_of("3.9")
    for name, text, value in (
        ("retention.ms", " 42 ", 42),
        ("preallocate", "\ttrue\n", True),
        ("cleanup.policy", " compact ", "compact"),
        ("compression.type", " zstd ", "zstd"),
    ):
        assert read_config(known, name, text) == value


def test_a_number_has_the_form_of_kafkas_numbers():
    for name, text in (("retention.ms", "1_000"), ("min.cleanable.dirty.ratio", "0.1_0")):
        with pytest.raises(InvalidConfig, match="Not a number of type"):
            read_config(topic_configs_of("4.4"), name, text)


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


DEFAULTS = {  # of LogConfig, and the broker settings of ServerTopicConfigSynonyms
    "cleanup.policy": ("delete", "log.cleanup.policy"),
    "compression.gzip.level": ("-1", "compression.gzip.level"),
    "compression.lz4.level": ("9", "compression.lz4.level"),
    "compression.type": ("producer", "compression.type"),
    "compression.zstd.level": ("3", "compression.zstd.level"),
    "delete.retention.ms": ("86400000", "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": ("60000", "log.segment.delete.delay.ms"),
    "flush.messages": (str(LONG), "log.flush.interval.messages"),
    "flush.ms": (str(LONG), "log.flush.interval.ms"),
    "index.interval.bytes": ("4096", "log.index.interval.bytes"),
    "local.retention.bytes": ("-2", "log.local.retention.bytes"),
    "local.retention.ms": ("-2", "log.local.retention.ms"),
    "max.compaction.lag.ms": (str(LONG), "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": ("1048588", "message.max.bytes"),
    "message.timestamp.before.max.ms": (str(LONG), "log.message.timestamp.before.max.ms"),
    "message.timestamp.after.max.ms": (str(LONG), "log.message.timestamp.after.max.ms"),
    "message.timestamp.type": ("CreateTime", "log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": ("0.5", "log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": ("0", "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": ("1", "min.insync.replicas"),
    "preallocate": ("false", "log.preallocate"),
    "retention.bytes": ("-1", "log.retention.bytes"),
    "retention.ms": ("604800000", "log.retention.ms"),
    "segment.bytes": ("1073741824", "log.segment.bytes"),
    "segment.index.bytes": ("10485760", "log.index.size.max.bytes"),
    "segment.jitter.ms": ("0", "log.roll.jitter.ms"),
    "segment.ms": ("604800000", "log.roll.ms"),
    "unclean.leader.election.enable": ("false", "unclean.leader.election.enable"),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_setting_of_a_topic_has_kafkas_default_and_that_of_its_broker(name):
    row = topic_configs_of("3.9")[name]
    assert (row.default, row.server) == DEFAULTS[name]
    of_4_1 = topic_configs_of("4.1")[name]
    changed = name in ("message.timestamp.after.max.ms", "segment.bytes")
    assert (of_4_1 == row) is not changed
