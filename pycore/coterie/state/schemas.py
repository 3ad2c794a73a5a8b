"""Arrow schemas of the tables of ``coterie replay``; names as in ``groups.json``.

Timestamps are ``timestamp[ms, UTC]``, bytes binary. ``SCHEMAS`` has functions, so that pyarrow is
imported only when a schema is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def _timestamp() -> pa.DataType:
    import pyarrow as pa

    return pa.timestamp("ms", tz="UTC")


def _offset_fields() -> list[pa.Field]:
    import pyarrow as pa

    return [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("metadata", pa.string()),
        pa.field("commit_timestamp", _timestamp()),
        pa.field("expire_timestamp", _timestamp()),
    ]


def _own(*fields: pa.Field) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field("group_id", pa.string()), *fields])


def groups() -> pa.Schema:
    """One row per group; only the newer protocols set the fields from ``group_epoch`` on."""
    import pyarrow as pa

    offset = pa.struct([*_offset_fields(), pa.field("appended_batch_offset", pa.int64())])
    pending = pa.struct([("producer_id", pa.int64()), ("offsets", pa.list_(offset))])
    return _own(
        pa.field("offsets_partition", pa.int32()),
        pa.field("type", pa.string()),
        pa.field("state", pa.string()),
        pa.field("protocol_type", pa.string()),
        pa.field("generation", pa.int32()),
        pa.field("protocol", pa.string()),
        pa.field("leader", pa.string()),
        pa.field("current_state_timestamp", _timestamp()),
        pa.field("subscribed_topics", pa.list_(pa.string())),
        pa.field("pending_transactional_offsets", pa.list_(pending)),
        pa.field("group_epoch", pa.int32()),
        pa.field("target_assignment_epoch", pa.int32()),
        pa.field("target_assignment_timestamp", _timestamp()),
        pa.field("validated_topology_epoch", pa.int32()),
    )


def members() -> pa.Schema:
    """One row per member; only newer protocols set ``rack_id`` and the fields after it.

    ``assignment_epochs`` has those of each topic's partitions in ``current_assignment``.
    """
    import pyarrow as pa

    numbers = pa.list_(pa.int32())
    topic = pa.struct([("topic_id", pa.string()), ("topic", pa.string()), ("partitions", numbers)])

    return _own(
        pa.field("member_id", pa.string()),
        pa.field("group_instance_id", pa.string()),
        pa.field("client_id", pa.string()),
        pa.field("client_host", pa.string()),
        pa.field("session_timeout_ms", pa.int32()),
        pa.field("rebalance_timeout_ms", pa.int32()),
        pa.field("subscription", pa.binary()),
        pa.field("assignment", pa.binary()),
        pa.field("rack_id", pa.string()),
        pa.field("member_epoch", pa.int32()),
        pa.field("member_state", pa.string()),
        pa.field("subscribed_topics", pa.list_(pa.string())),
        pa.field("subscribed_regex", pa.string()),
        pa.field("server_assignor", pa.string()),
        pa.field("current_assignment", pa.list_(topic)),
        pa.field("target_assignment", pa.list_(topic)),
        pa.field("assignment_epochs", pa.list_(numbers)),
    )


def offsets() -> pa.Schema:
    """One row per committed offset; only commits of Kafka 4.2 and later have a ``topic_id``."""
    import pyarrow as pa

    return _own(
        *_offset_fields(),
        pa.field("appended_batch_offset", pa.int64()),
        pa.field("topic_id", pa.string()),
    )


def generations() -> pa.Schema:
    """One row per group metadata record; ``log_offset`` is its offset in the partition."""
    import pyarrow as pa

    names = pa.list_(pa.string())
    replaced = pa.struct(
        [
            ("group_instance_id", pa.string()),
            ("old_member_id", pa.string()),
            ("new_member_id", pa.string()),
        ]
    )
    return _own(
        pa.field("offsets_partition", pa.int32()),
        pa.field("log_offset", pa.int64()),
        pa.field("timestamp", _timestamp()),
        pa.field("tombstone", pa.bool_()),
        pa.field("protocol_type", pa.string()),
        pa.field("generation", pa.int32()),
        pa.field("protocol", pa.string()),
        pa.field("leader", pa.string()),
        pa.field("current_state_timestamp", _timestamp()),
        pa.field("member_count", pa.int32()),
        pa.field("joined", names),
        pa.field("left", names),
        pa.field("replaced", pa.list_(replaced)),
        pa.field("subscription_changed", names),
        pa.field("leader_changed", pa.bool_()),
        pa.field("protocol_changed", pa.bool_()),
        pa.field("previous_generation", pa.int32()),
        pa.field("since_previous_ms", pa.int64()),
    )


def faults() -> pa.Schema:
    """One row per fault; ``position`` is the batch's byte in ``file``, ``offset`` a record's."""
    import pyarrow as pa

    return pa.schema(
        [
            ("file", pa.string()),
            ("position", pa.int64()),
            ("base_offset", pa.int64()),
            ("kind", pa.string()),
            ("offset", pa.int64()),
            ("detail", pa.string()),
            ("offsets_partition", pa.int32()),
        ]
    )


def commits() -> pa.Schema:
    """One row per offset commit or tombstone in the log.

    ``outcome`` is ``committed``, ``aborted`` or ``pending``. Without a transaction, ``producer_id``
    is null; ``topic_id`` is as in ``offsets``.
    """
    import pyarrow as pa

    return _own(
        pa.field("offsets_partition", pa.int32()),
        pa.field("log_offset", pa.int64()),
        pa.field("timestamp", _timestamp()),
        *_offset_fields(),
        pa.field("tombstone", pa.bool_()),
        pa.field("producer_id", pa.int64()),
        pa.field("outcome", pa.string()),
        pa.field("topic_id", pa.string()),
    )


SCHEMAS: dict[str, Callable[[], pa.Schema]] = {
    "groups": groups,
    "members": members,
    "offsets": offsets,
    "generations": generations,
    "faults": faults,
    "commits": commits,
}
