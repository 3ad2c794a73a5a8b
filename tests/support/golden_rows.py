"""Kafka's own decode of golden records as rows of the data source."""

import gzip
import json

from support.golden_data import LOGS


def golden(case):
    with gzip.open(LOGS / case / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def ms(value):
    """Milliseconds of a timestamp column, which Spark gives in the session's time zone."""
    return None if value is None else round(value.timestamp() * 1000)


def shown(value):
    """A time in ms as a timestamp column can show it: in the years 1 to 9999, or not at all."""
    return (
        value if value is not None and -62_135_596_800_000 <= value < 253_402_300_800_000 else None
    )


def expected_row(known):
    """A golden record as the data source has it."""
    batch, key, value = known["batch"], known.get("key") or {}, known.get("value") or {}
    key_data, data = key.get("data", {}), value.get("data", {})
    is_offset, is_group = key.get("type") == "offset_commit", key.get("type") == "group_metadata"
    expire = data.get("expireTimestamp", -1)
    return {
        "offsets_partition": known["partition"],
        "segment": known["segment"],
        "log_offset": known["offset"],
        "timestamp": None if known["timestamp"] < 0 else known["timestamp"],
        "timestamp_type": known["timestamp_type"],
        "type": "control" if "control" in known else key.get("type"),
        "group_id": key_data.get("group", key_data.get("groupId")),
        "topic": key_data.get("topic") if is_offset else None,
        "partition": key_data.get("partition") if is_offset else None,
        "offset": data.get("offset") if is_offset else None,
        "leader_epoch": data.get("leaderEpoch", -1) if is_offset and data else None,
        "metadata": data.get("metadata") if is_offset else None,
        "commit_timestamp": shown(data.get("commitTimestamp")) if is_offset else None,
        "expire_timestamp": shown(None if not is_offset or expire == -1 else expire),
        "tombstone": "control" not in known and known.get("value") is None,
        "protocol_type": data.get("protocolType") if is_group else None,
        "generation": data.get("generation") if is_group else None,
        "protocol": data.get("protocol") if is_group else None,
        "leader": data.get("leader") if is_group else None,
        "members": len(data["members"]) if is_group and data else None,
        "producer_id": batch["producer_id"],
        "producer_epoch": batch["producer_epoch"],
        "is_transactional": batch["is_transactional"],
        "is_control": batch["is_control"],
        "marker": known["control"]["type"] if "control" in known else None,
        "batch_position": batch["position"],
    }
