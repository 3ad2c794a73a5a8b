"""The operations of a coordinator, one row each: its name, its response, its fields.

The rest follows from the row. The core's number of an operation is its place in this table. An
event of a trace has these fields, and so has the method of ``GroupCoordinator`` with that name.
The components of the core register for an operation by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie import consumer_groups, values

ABSENT: Any = object()  # no default: the field is required
# Places in the tuple for the core: (group id, generation, member id, instance id, details).
GROUP_ID, GENERATION, MEMBER, INSTANCE, DETAILS = range(5)
NOWHERE, ALONE = -1, -2  # checked only; the value is all of the details


class Field(NamedTuple):
    """A field: its kind (``KINDS`` in coordinator/fields.py), and its place for the core."""

    name: str
    kind: str
    place: int
    default: Any = ABSENT


class Operation(NamedTuple):
    """An operation.

    ``answer`` makes its response from an error and the core's payload; an operation without one is
    no request and has no id. ``traced``: a trace may have it. ``method``: ``GroupCoordinator`` has
    a method with these fields.
    """

    name: str
    answer: Callable[[values.Error, Any], Any] | None = None
    fields: tuple[Field, ...] = ()
    traced: bool = True
    method: bool = True

    @property
    def blank(self) -> tuple[Any, ...]:
        """The details by default; a place without a field has -1, which is no producer."""
        defaults = {f.place - DETAILS: f.default for f in self.fields if f.place >= DETAILS}
        return tuple([defaults.get(place, -1) for place in range(max(defaults, default=-1) + 1)])


_group = Field("group_id", "string", GROUP_ID, None)
_generation = Field("generation_id", "generation", GENERATION, -1)
_member = Field("member_id", "member", MEMBER, "")
_instance = Field("group_instance_id", "string", INSTANCE, None)
_header = (_group, _generation, _member, _instance)
_offsets = Field("offsets", "offsets", DETAILS, ())
_partitions = Field("partitions", "partitions", ALONE, ())
_partition_field = (Field("partition", "partition", DETAILS, None),)
_JOIN = (
    Field("protocol_type", "string", DETAILS),
    Field("protocols", "protocols", DETAILS + 1, ()),
    Field("session_timeout_ms", "int32", DETAILS + 2),
    Field("rebalance_timeout_ms", "int32", DETAILS + 3),
    Field("client_id", "string", DETAILS + 4),
    Field("client_host", "string", DETAILS + 5),
    Field("require_known_member_id", "bool", DETAILS + 6, False),
    Field("supports_skipping_assignment", "bool", DETAILS + 7, False),
    Field("reason", "string", NOWHERE, None),
)
_SYNC = (
    Field("protocol_type", "string", DETAILS, None),
    Field("protocol_name", "string", DETAILS + 1, None),
    Field("assignments", "assignments", DETAILS + 2, ()),
)
_TXN = (
    Field("producer_id", "int64", DETAILS + 1),
    Field("producer_epoch", "int16", DETAILS + 2),
    Field("version", "txn_version", DETAILS + 3, 4),
)
_END = (
    Field("producer_id", "int64", DETAILS),
    Field("committed", "bool", DETAILS + 1, False),
)
_FETCH = (
    Field("topics", "topics", DETAILS, None),
    Field("require_stable", "bool", DETAILS + 1, False),
    Field("member_id", "fetching_member", DETAILS + 2, None),
    Field("member_epoch", "member_epoch", DETAILS + 3, -1),
)
_COMMIT = (
    Field("version", "commit_version", DETAILS + 3, 9),
    Field("retention_time_ms", "retention", DETAILS + 4, -1),
)
_LIST = (
    Field("states", "strings", DETAILS, ()),
    Field("types", "types", DETAILS + 1, ()),
)
_FAIL = (
    Field("error", "error", DETAILS),
    Field("count", "count", DETAILS + 1),
)

_CONSUMER = (
    Field("rack_id", "string", DETAILS, None),
    Field("rebalance_timeout_ms", "int32", DETAILS + 1, -1),
    Field("subscribed_topic_names", "names", DETAILS + 2, None),
    Field("subscribed_topic_regex", "string", DETAILS + 3, None),
    Field("server_assignor", "string", DETAILS + 4, None),
    Field("topic_partitions", "owned", DETAILS + 5, None),
    Field("client_id", "string", DETAILS + 6, ""),
    Field("client_host", "string", DETAILS + 7, "/127.0.0.1"),
    Field("version", "int16", DETAILS + 8, 1),
)
_METADATA = (
    Field("brokers", "brokers", DETAILS, ()),
    Field("delete_topics", "types", DETAILS + 1, ()),
    Field("topics", "image_topics", DETAILS + 2, ()),
)

_ROWS = (
    Operation("advance", method=False),  # its method takes a time instead of fields
    Operation("join_group", values.joined, (_group, _member, _instance, *_JOIN)),
    Operation("sync_group", values.synced, (*_header, *_SYNC)),
    Operation("heartbeat", values.beaten, _header),
    Operation("leave_group", values.left, (_group, Field("members", "leaving", ALONE, ()))),
    Operation("offset_commit", values.committed, (*_header, _offsets, *_COMMIT)),
    Operation("txn_offset_commit", values.txn_committed, (*_header, _offsets, *_TXN)),
    Operation("end_txn", None, _END),
    Operation("offset_fetch", values.fetched, (_group, *_FETCH)),
    Operation("offset_delete", values.offsets_deleted, (_group, _partitions)),
    Operation(
        "describe_group",
        values.described,
        (_group, Field("version", "describe_version", DETAILS, 5)),
    ),
    Operation("list_groups", values.listed, _LIST),
    Operation("delete_groups", values.groups_deleted, (Field("group_ids", "strings", ALONE, ()),)),
    Operation("delete_partitions", None, (_partitions,)),
    Operation("cleanup"),
    Operation("failover"),
    Operation("fail_append", None, _FAIL),
    Operation(
        "consumer_group_heartbeat",
        consumer_groups.heartbeat_response,
        (
            _group,
            _member,
            Field("member_epoch", "int32", GENERATION, 0),
            Field("instance_id", "string", INSTANCE, None),
            *_CONSUMER,
        ),
    ),
    Operation(
        "consumer_group_describe",
        consumer_groups.describe_response,
        (Field("group_ids", "strings", ALONE, ()),),
    ),
    Operation("metadata", None, _METADATA, method=False),
    Operation(
        "group_config",
        None,
        (Field("group_id", "string", GROUP_ID), Field("config", "group_config", DETAILS, None)),
        method=False,
    ),
    Operation("run_tasks", method=False),
    Operation("hold_commits", method=False),
    Operation("release_commits", method=False),
    Operation(
        "append_raw",
        None,
        (Field("key", "raw", DETAILS, None), Field("value", "raw", DETAILS + 1, None)),
        method=False,
    ),
    Operation("resign", None, _partition_field, traced=False),
    Operation("begin_load", None, _partition_field, traced=False),
    Operation("finish_load", None, _partition_field, traced=False),
)
OPERATIONS = {row.name: row for row in _ROWS}
NUMBER = {row.name: number for number, row in enumerate(_ROWS)}  # of the core, by name
REQUESTS = frozenset(row.name for row in _ROWS if row.answer is not None)
