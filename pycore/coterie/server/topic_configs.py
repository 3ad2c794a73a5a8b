"""Topic settings: types, defaults and bounds; those that partitions read.

Source: LogConfig, TopicConfig, ServerTopicConfigSynonyms and ConfigDef of Kafka 3.9, 4.1 and 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.base.settings import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    InvalidConfig,
    Setting,
    parse_value,
)
from coterie.server.topic_settings import LogSettings

_MAX = str(2**63 - 1)
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
# The settings that partitions read (log_settings).
EFFECTIVE_TOPIC_CONFIGS = frozenset(
    {
        "cleanup.policy",
        "index.interval.bytes",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.ms",
    }
)
TOPIC_CONFIGS: Mapping[str, Setting] = {
    row.name: row
    for row in (
        Setting(
            "cleanup.policy", LIST, "delete", "log.cleanup.policy", words=("compact", "delete")
        ),
        Setting("compression.gzip.level", INT, "-1", "compression.gzip.level", 1, 9, (), -1),
        Setting("compression.lz4.level", INT, "9", "compression.lz4.level", 1, 17),
        Setting("compression.type", STRING, "producer", "compression.type", words=_CODECS),
        Setting("compression.zstd.level", INT, "3", "compression.zstd.level", -131072, 22),
        Setting(
            "delete.retention.ms", LONG, "86400000", "log.cleaner.delete.retention.ms", 0
        ),
        Setting("file.delete.delay.ms", LONG, "60000", "log.segment.delete.delay.ms", 0),
        Setting("flush.messages", LONG, _MAX, "log.flush.interval.messages", 1),
        Setting("flush.ms", LONG, _MAX, "log.flush.interval.ms", 0),
        Setting("follower.replication.throttled.replicas", LIST, ""),
        Setting("index.interval.bytes", INT, "4096", "log.index.interval.bytes", 0),
        Setting("leader.replication.throttled.replicas", LIST, ""),
        Setting("local.retention.bytes", LONG, "-2", "log.local.retention.bytes", -2),
        Setting("local.retention.ms", LONG, "-2", "log.local.retention.ms", -2),
        Setting("max.compaction.lag.ms", LONG, _MAX, "log.cleaner.max.compaction.lag.ms", 1),
        Setting("max.message.bytes", INT, "1048588", "message.max.bytes", 0),
        Setting(
            "message.downconversion.enable", BOOLEAN, "true", "log.message.downconversion.enable"
        ),
        Setting("message.format.version", STRING, "3.0-IV1", "log.message.format.version"),
        Setting(
            "message.timestamp.after.max.ms", LONG, _MAX, "log.message.timestamp.after.max.ms", 0
        ),
        Setting(
            "message.timestamp.before.max.ms", LONG, _MAX, "log.message.timestamp.before.max.ms", 0
        ),
        Setting(
            "message.timestamp.difference.max.ms", LONG, _MAX,
            "log.message.timestamp.difference.max.ms", 0,
        ),
        Setting(
            "message.timestamp.type", STRING, "CreateTime", "log.message.timestamp.type",
            words=("CreateTime", "LogAppendTime"),
        ),
        Setting(
            "min.cleanable.dirty.ratio", DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", 0, 1
        ),
        Setting("min.compaction.lag.ms", LONG, "0", "log.cleaner.min.compaction.lag.ms", 0),
        Setting("min.insync.replicas", INT, "1", "min.insync.replicas", 1),
        Setting("preallocate", BOOLEAN, "false", "log.preallocate"),
        Setting("remote.log.copy.disable", BOOLEAN, "false"),
        Setting("remote.log.delete.on.disable", BOOLEAN, "false"),
        Setting("remote.storage.enable", BOOLEAN, "false"),
        Setting("retention.bytes", LONG, "-1", "log.retention.bytes"),
        Setting("retention.ms", LONG, "604800000", "log.retention.ms", -1),
        Setting("segment.bytes", INT, "1073741824", "log.segment.bytes", 14),
        Setting("segment.index.bytes", INT, "10485760", "log.index.size.max.bytes", 4),
        Setting("segment.jitter.ms", LONG, "0", "log.roll.jitter.ms", 0),
        Setting("segment.ms", LONG, "604800000", "log.roll.ms", 1),
        Setting(
            "unclean.leader.election.enable", BOOLEAN, "false", "unclean.leader.election.enable"
        ),
    )
}  # fmt: skip
_DROPPED_BY_4 = {
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
}
_OF_4_1 = {row.name: row for row in TOPIC_CONFIGS.values() if row.name not in _DROPPED_BY_4}
_OF_4_1["message.timestamp.after.max.ms"] = _OF_4_1["message.timestamp.after.max.ms"]._replace(
    default="3600000"
)
_OF_4_1["segment.bytes"] = _OF_4_1["segment.bytes"]._replace(least=1048576)


_OF_4_4 = _OF_4_1 | {
    row.name: row
    for row in (
        Setting("errors.deadletterqueue.group.enable", BOOLEAN, "false"),
        Setting(
            "max.decompressed.message.bytes", INT, "2147483639", "max.decompressed.message.bytes",
            1, 2147483639,
        ),
        Setting("remote.copy.lag.bytes", LONG, "-1", "log.remote.copy.lag.bytes", -1),
        Setting("remote.copy.lag.ms", LONG, "0", "log.remote.copy.lag.ms", -1),
    )
}  # fmt: skip
_BY_RELEASE = {"3.9": TOPIC_CONFIGS, "4.1": _OF_4_1, "4.4": _OF_4_4}


def topic_configs_of(release: str) -> Mapping[str, Setting]:
    """Return the settings of topics in a release of Kafka."""
    return _BY_RELEASE[release]


def read_config(known: Mapping[str, Setting], name: str, text: str) -> Any:
    """Parse the value of a setting."""
    row = known.get(name)
    if row is None:
        raise InvalidConfig(f"Unknown topic config name: {name}")
    return parse_value(row, text)


def check_configs(known: Mapping[str, Setting], configs: Mapping[str, str]) -> None:
    """Refuse unknown settings and invalid values."""
    for name, text in configs.items():
        read_config(known, name, text)


def log_settings(
    known: Mapping[str, Setting], configs: Mapping[str, str], defaults: Mapping[str, str]
) -> LogSettings:
    """Return the settings that partitions read, from the topic's settings and the defaults."""

    def value(name: str) -> Any:
        text = configs.get(name, defaults.get(name, known[name].default))
        return read_config(known, name, text)

    policies = value("cleanup.policy").replace(" ", "").split(",")
    return LogSettings(
        max_message_bytes=value("max.message.bytes"),
        append_time=value("message.timestamp.type") == "LogAppendTime",
        compacted="compact" in policies,
        deleted="delete" in policies,
        timestamp_before_max_ms=value("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=value("message.timestamp.after.max.ms"),
        retention_ms=value("retention.ms"),
        retention_bytes=value("retention.bytes"),
        segment_bytes=value("segment.bytes"),
        segment_ms=value("segment.ms"),
        segment_index_bytes=value("segment.index.bytes"),
        index_interval_bytes=value("index.interval.bytes"),
    )
