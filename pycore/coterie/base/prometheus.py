"""Rows of ``metrics`` in Prometheus' text format, under the names of known exporters.

``FAMILIES`` lists the metrics: the exporter, the name, the labels, and the rows with their values.
Integers are exact. An unknown value has no sample.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Row = dict[str, Any]
TOPIC, PARTITION = GRANULARITIES = ("topic", "partition")
NAMES = ("kafka_exporter", "braedon", "kminion", "coterie")
STABLE = "Stable"
LABELS_CACHED = 4096  # a group and its topics repeat


class Family(NamedTuple):
    """A metric of one exporter.

    ``level`` selects the rows: "group", "topic", "partition", or "each" for the requested
    granularity. ``labels`` maps a label to the row field with its value.
    """

    of: str
    name: str
    kind: str
    level: str
    labels: dict[str, str]
    value: Callable[[Row], Any]
    help: str


def field(name: str) -> Callable[[Row], Any]:
    return lambda row: row[name]


def seconds(name: str) -> Callable[[Row], Any]:
    """Return a getter of a time field, in seconds with three decimals."""

    def value(row: Row) -> str | None:
        ms = row[name]
        return None if ms is None else f"{ms // 1000}.{ms % 1000:03d}"

    return value


GROUP = {"consumergroup": "group_id"}
OF_TOPIC = {**GROUP, "topic": "topic"}
OF_PARTITION = {**OF_TOPIC, "partition": "partition"}
BRAEDON = {"group": "group_id", "topic": "topic"}
KMINION = {"group_id": "group_id"}
INFO = {**KMINION, **{name: name for name in ("protocol", "protocol_type", "state")}}
COUNTED = "since its log is whole (compaction drops superseded ones)"

FAMILIES = (
    Family(
        *("kafka_exporter", "kafka_consumergroup_current_offset", "gauge", PARTITION),
        *(OF_PARTITION, field("offset"), "Committed offset of a consumer group at a partition"),
    ),
    Family(
        *("kafka_exporter", "kafka_consumergroup_current_offset_sum", "gauge", TOPIC),
        *(OF_TOPIC, field("offset"), "Committed offsets of a consumer group, sum over a topic"),
    ),
    Family(
        *("kafka_exporter", "kafka_consumergroup_lag", "gauge", PARTITION),
        *(OF_PARTITION, field("lag"), "End offset less committed offset, where both are known"),
    ),
    Family(
        *("kafka_exporter", "kafka_consumergroup_lag_sum", "gauge", TOPIC),
        *(OF_TOPIC, field("lag"), "Lag of a consumer group, sum over a topic, where all is known"),
    ),
    Family(
        *("kafka_exporter", "kafka_consumergroup_members", "gauge", "group"),
        *(GROUP, field("members"), "Members of a consumer group"),
    ),
    Family(
        *("kafka_exporter", "kafka_consumergroup_rebalances_total", "counter", "group"),
        *(GROUP, field("rebalances"), f"Rebalances of a consumer group {COUNTED}"),
    ),
    Family(
        *("braedon", "kafka_consumer_group_offset", "gauge", PARTITION),
        *({**BRAEDON, "partition": "partition"}, field("offset"), "Committed offset of a group"),
    ),
    Family(
        *("braedon", "kafka_consumer_group_lag", "gauge", PARTITION),
        *({**BRAEDON, "partition": "partition"}, field("lag")),
        "End offset less committed offset, where both are known",
    ),
    Family(
        *("braedon", "kafka_consumer_group_commits_total", "counter", "each"),
        *(BRAEDON, field("commits"), f"Commits of a group {COUNTED}"),
    ),
    Family(
        *("braedon", "kafka_consumer_group_commit_timestamp", "gauge", "each"),
        *(BRAEDON, seconds("commit_timestamp")),
        "When a group committed last, in seconds since January 1, 1970 UTC",
    ),
    Family(
        *("kminion", "kminion_kafka_consumer_group_info", "gauge", "group"),
        *(INFO, lambda row: int(row["state"] == STABLE)),
        "1 where the state of a group is Stable, else 0",
    ),
    Family(
        *("kminion", "kminion_kafka_consumer_group_members", "gauge", "group"),
        *(KMINION, field("members"), "Members of a group"),
    ),
    Family(
        *("kminion", "kminion_kafka_consumer_group_empty_members", "gauge", "group"),
        *(KMINION, field("empty_members"), "Members of a group that have no partition"),
    ),
    Family(
        *("kminion", "kminion_kafka_consumer_group_topic_offset_sum", "gauge", TOPIC),
        *({**KMINION, "topic_name": "topic"}, field("offset")),
        "Committed offsets of a group, sum over a topic",
    ),
    Family(
        *("kminion", "kminion_kafka_consumer_group_topic_partition_lag", "gauge", PARTITION),
        *({**KMINION, "topic_name": "topic", "partition_id": "partition"}, field("lag")),
        "End offset less committed offset, where both are known",
    ),
    Family(
        *("kminion", "kminion_kafka_consumer_group_topic_lag", "gauge", TOPIC),
        *({**KMINION, "topic_name": "topic"}, field("lag")),
        "Lag of a group, sum over a topic, where all is known",
    ),
    Family(
        *("kminion", "kminion_kafka_consumer_group_offset_commits_total", "counter", "group"),
        *(KMINION, field("commits"), f"Commits of a group {COUNTED}"),
    ),
    Family(
        *("coterie", "coterie_consumergroup_skipped_records_total", "counter", TOPIC),
        *(OF_TOPIC, field("skipped"), f"Records that a group passed over {COUNTED}"),
    ),
    Family(
        *("coterie", "coterie_consumergroup_stalled_partitions", "gauge", "group"),
        *(GROUP, field("stalled"), "Partitions that stand still while others of the topic move"),
    ),
    Family(
        *("coterie", "coterie_consumergroup_stall_start_timestamp_seconds", "gauge", PARTITION),
        *(OF_PARTITION, seconds("stalled_since")),
        "Since when a partition stands still, in seconds since January 1, 1970 UTC",
    ),
    Family(
        *("coterie", "coterie_consumergroup_unreconciled_members", "gauge", "group"),
        *(GROUP, field("unreconciled"), "Members that do not have their target assignment yet"),
    ),
    Family(
        "coterie",
        *("coterie_consumergroup_revocation_start_timestamp_seconds", "gauge", "group"),
        *(GROUP, seconds("revoking_since")),
        "Since when a member has not given up partitions, in seconds since January 1, 1970 UTC",
    ),
    Family(
        *("coterie", "coterie_consumergroup_revocation_timeouts_total", "counter", "group"),
        *(GROUP, field("revocation_timeouts")),
        f"Members fenced because they did not give up partitions {COUNTED}",
    ),
    Family(
        *("coterie", "coterie_consumergroup_open_transactions", "gauge", "group"),
        *(GROUP, field("open_transactions"), "Transactions that hold offsets of a group"),
    ),
    Family(
        "coterie",
        *("coterie_consumergroup_open_transaction_start_timestamp_seconds", "gauge", "group"),
        *(GROUP, seconds("open_since")),
        "Since when a transaction holds offsets, in seconds since January 1, 1970 UTC",
    ),
)


def text_lines(
    rows: Sequence[Row], names: Sequence[str] = NAMES, granularity: str = PARTITION
) -> Iterator[str]:
    """Yield the lines of Prometheus' text format, each family under its HELP and TYPE.

    A family without samples is omitted.

    Parameters
    ----------
    rows
        The rows of ``metrics.rows``.
    names
        The exporters whose names to use, of ``NAMES``.
    granularity
        ``topic`` omits families of single partitions, and sums commits by topic.
    """
    by_level = {
        "group": [row for row in rows if row["topic"] is None],
        TOPIC: topic_rows(rows),
        PARTITION: [row for row in rows if row["topic"] is not None],
    }
    for family in FAMILIES:
        level = granularity if family.level == "each" else family.level
        if family.of not in names or (level == PARTITION and granularity == TOPIC):
            continue
        labels = dict(family.labels)
        if family.level == "each" and level == PARTITION:
            labels["partition"] = "partition"
        head = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
        line = f"{family.name}{{{label_text(dict.fromkeys(labels, '%s'))}}} %s\n"
        fields = list(labels.values())
        for row in by_level[level]:
            value = family.value(row)
            if value is not None:
                yield head + line % (*[escaped(row[name]) for name in fields], value)
                head = ""


def topic_rows(rows: Sequence[Row]) -> list[Row]:
    """Return one row per group and topic: sums, and the latest commit time.

    A topic's lag is known only if it is known for every partition with an offset.
    """
    by_topic: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["topic"] is not None:
            by_topic.setdefault((row["group_id"], row["topic"]), []).append(row)
    return [
        {
            "group_id": group,
            "topic": topic,
            "offset": total(row["offset"] for row in partitions if row["offset"] is not None),
            "lag": total(row["lag"] for row in partitions if row["offset"] is not None),
            "commits": total(row["commits"] for row in partitions),
            "skipped": total(row["skipped"] for row in partitions),
            "commit_timestamp": max(
                (ms for row in partitions if (ms := row["commit_timestamp"]) is not None),
                default=None,
            ),
        }
        for (group, topic), partitions in by_topic.items()
    ]


def total(values: Iterable[int | None]) -> int | None:
    """Return the sum; None if there are no values or one is unknown."""
    terms = list(values)
    known = [value for value in terms if value is not None]
    return sum(known) if known and len(known) == len(terms) else None


def label_text(labels: Mapping[str, Any]) -> str:
    """Return labels with their values, as they are written between braces."""
    return ",".join(f'{label}="{escaped(value)}"' for label, value in labels.items())


@functools.lru_cache(LABELS_CACHED, typed=True)
def escaped(value: Any) -> str:
    """Return a label's value, escaped; None becomes the empty text."""
    text = "" if value is None else str(value)
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
