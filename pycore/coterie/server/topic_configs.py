"""Topic settings: types, defaults and bounds.

Source: LogConfig, TopicConfig, ServerTopicConfigSynonyms and ConfigDef of Kafka 3.9, 4.1 and 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from coterie.errors import CoterieError
from coterie.server.topic_settings import LogSettings

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7  # as DescribeConfigs has them
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
_TYPES = {INT: "INT", LONG: "LONG", DOUBLE: "DOUBLE"}


class InvalidConfig(CoterieError):
    """A setting that does not exist or has a wrong value; the message is Kafka's."""


class TopicConfig(NamedTuple):
    """A topic setting.

    ``server``: the broker setting that is its default. ``or_else``: a valid number out of range.
    """

    name: str
    type: int
    default: str
    server: str | None = None
    least: float | None = None
    most: float | None = None
    words: tuple[str, ...] = ()
    or_else: int | None = None


TOPIC_CONFIGS: Mapping[str, TopicConfig] = {
    row.name: row
    for row in (
        TopicConfig(
            "cleanup.policy", LIST, "delete", "log.cleanup.policy", words=("compact", "delete")
        ),
        TopicConfig("compression.gzip.level", INT, "-1", "compression.gzip.level", 1, 9, (), -1),
        TopicConfig("compression.lz4.level", INT, "9", "compression.lz4.level", 1, 17),
        TopicConfig("compression.type", STRING, "producer", "compression.type", words=_CODECS),
        TopicConfig("compression.zstd.level", INT, "3", "compression.zstd.level", -131072, 22),
        TopicConfig(
            "delete.retention.ms", LONG, "86400000", "log.cleaner.delete.retention.ms", 0
        ),
        TopicConfig("file.delete.delay.ms", LONG, "60000", "log.segment.delete.delay.ms", 0),
        TopicConfig("flush.messages", LONG, _MAX, "log.flush.interval.messages", 1),
        TopicConfig("flush.ms", LONG, _MAX, "log.flush.interval.ms", 0),
        TopicConfig("follower.replication.throttled.replicas", LIST, ""),
        TopicConfig("index.interval.bytes", INT, "4096", "log.index.interval.bytes", 0),
        TopicConfig("leader.replication.throttled.replicas", LIST, ""),
        TopicConfig("local.retention.bytes", LONG, "-2", "log.local.retention.bytes", -2),
        TopicConfig("local.retention.ms", LONG, "-2", "log.local.retention.ms", -2),
        TopicConfig("max.compaction.lag.ms", LONG, _MAX, "log.cleaner.max.compaction.lag.ms", 1),
        TopicConfig("max.message.bytes", INT, "1048588", "message.max.bytes", 0),
        TopicConfig(
            "message.downconversion.enable", BOOLEAN, "true", "log.message.downconversion.enable"
        ),
        TopicConfig("message.format.version", STRING, "3.0-IV1", "log.message.format.version"),
        TopicConfig(
            "message.timestamp.after.max.ms", LONG, _MAX, "log.message.timestamp.after.max.ms", 0
        ),
        TopicConfig(
            "message.timestamp.before.max.ms", LONG, _MAX, "log.message.timestamp.before.max.ms", 0
        ),
        TopicConfig(
            "message.timestamp.difference.max.ms", LONG, _MAX,
            "log.message.timestamp.difference.max.ms", 0,
        ),
        TopicConfig(
            "message.timestamp.type", STRING, "CreateTime", "log.message.timestamp.type",
            words=("CreateTime", "LogAppendTime"),
        ),
        TopicConfig(
            "min.cleanable.dirty.ratio", DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", 0, 1
        ),
        TopicConfig("min.compaction.lag.ms", LONG, "0", "log.cleaner.min.compaction.lag.ms", 0),
        TopicConfig("min.insync.replicas", INT, "1", "min.insync.replicas", 1),
        TopicConfig("preallocate", BOOLEAN, "false", "log.preallocate"),
        TopicConfig("remote.log.copy.disable", BOOLEAN, "false"),
        TopicConfig("remote.log.delete.on.disable", BOOLEAN, "false"),
        TopicConfig("remote.storage.enable", BOOLEAN, "false"),
        TopicConfig("retention.bytes", LONG, "-1", "log.retention.bytes"),
        TopicConfig("retention.ms", LONG, "604800000", "log.retention.ms", -1),
        TopicConfig("segment.bytes", INT, "1073741824", "log.segment.bytes", 14),
        TopicConfig("segment.index.bytes", INT, "10485760", "log.index.size.max.bytes", 4),
        TopicConfig("segment.jitter.ms", LONG, "0", "log.roll.jitter.ms", 0),
        TopicConfig("segment.ms", LONG, "604800000", "log.roll.ms", 1),
        TopicConfig(
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
        TopicConfig("errors.deadletterqueue.group.enable", BOOLEAN, "false"),
        TopicConfig(
            "max.decompressed.message.bytes", INT, "2147483639", "max.decompressed.message.bytes",
            1, 2147483639,
        ),
        TopicConfig("remote.copy.lag.bytes", LONG, "-1", "log.remote.copy.lag.bytes", -1),
        TopicConfig("remote.copy.lag.ms", LONG, "0", "log.remote.copy.lag.ms", -1),
    )
}  # fmt: skip
_BY_RELEASE = {"3.9": TOPIC_CONFIGS, "4.1": _OF_4_1, "4.4": _OF_4_4}


def topic_configs_of(release: str) -> Mapping[str, TopicConfig]:
    """Return the settings of topics in a release of Kafka."""
    return _BY_RELEASE[release]


def read_config(known: Mapping[str, TopicConfig], name: str, text: str) -> Any:
    """Parse the value of a setting."""
    row = known.get(name)
    if row is None:
        raise InvalidConfig(f"Unknown topic config name: {name}")
    return parse_value(row, text)


def parse_value(row: TopicConfig, text: str) -> Any:
    """Parse the value of a known setting."""
    text = text.strip()
    if row.type == BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise _wrong(row, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if row.type in _TYPES:
        return _number(row, text)
    words = [text]
    if row.type == LIST:  # an empty list is valid
        words = [word.strip() for word in text.split(",")] if text else []
    for word in words if row.words else ():
        if word not in row.words:
            raise _wrong(row, word, f"String must be one of: {', '.join(row.words)}")
    return text


def check_configs(known: Mapping[str, TopicConfig], configs: Mapping[str, str]) -> None:
    """Refuse unknown settings and invalid values."""
    for name, text in configs.items():
        read_config(known, name, text)


def _number(row: TopicConfig, text: str) -> float:
    try:
        value: float = float(text) if row.type == DOUBLE else int(text)
        if row.type != DOUBLE and not -(2**63) <= value < 2**63:
            raise ValueError(text)
        if row.type == INT and not -(2**31) <= value < 2**31:
            raise ValueError(text)
    except ValueError:
        raise _wrong(row, text, f"Not a number of type {_TYPES[row.type]}") from None
    if row.least is not None and value < row.least:
        limit = f"at least {row.least}"
    elif row.most is not None and value > row.most:
        limit = f"no more than {row.most}"
    else:
        return value
    if row.or_else is not None:
        if value == row.or_else:
            return value
        limit = f"between {row.least} and {row.most} or equal to {row.or_else}"
    raise _wrong(row, value, f"Value must be {limit}")


def _wrong(row: TopicConfig, text: str | float, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {text} for configuration {row.name}: {why}")


def log_settings(
    known: Mapping[str, TopicConfig], configs: Mapping[str, str], defaults: Mapping[str, str]
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
