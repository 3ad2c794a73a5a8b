"""The operations of a coordinator: the fields that each has, and where the core takes them.

One row an operation. A trace event, the method of ``GroupCoordinator`` of that name and a recording
have the same fields. The core's number and answer of each stand in its own table (effects.pyx).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from coterie.coordinator import fields as f
from coterie.coordinator.fields import ABSENT

__all__ = ["OPERATIONS", "Field", "Operation"]

# Places in what the core takes: (group id, generation, member id, instance id, details).
GROUP_ID, GENERATION, MEMBER, INSTANCE, DETAILS = range(5)
NOWHERE, ALONE = -1, -2  # read, and not needed; the details are this one value


class Field(NamedTuple):
    """A field: how it is read, where the core takes it, and how a trace shows it."""

    name: str
    read: Callable[[f.Fields, str, Any], Any]
    place: int
    default: Any = ABSENT
    show: Callable[[str, Any], f.Shown] = f.show


class Operation(NamedTuple):
    """An operation: its fields, and whether it is a request, which has an id and an answer.

    ``blank`` are the details as they are where no field tells.
    """

    fields: tuple[Field, ...] = ()
    blank: tuple[Any, ...] = ()
    is_request: bool = True


_long, _short = partial(f.integer, bits=64), partial(f.integer, bits=16)
_group = Field("group_id", f.string, GROUP_ID, None)
_generation = Field("generation_id", f.integer, GENERATION, -1, f.show_generation)
_member = Field("member_id", f.member_id, MEMBER, "", f.show_member)
_instance = Field("group_instance_id", f.string, INSTANCE, None)
_who = (_group, _generation, _member, _instance)
_offsets = Field("offsets", f.committed, DETAILS, (), f.show_offsets)
_partitions = Field("partitions", f.partition_list, ALONE, (), f.show_partitions)
_JOIN = (
    Field("protocol_type", f.string, DETAILS),
    Field("protocols", f.protocol_list, DETAILS + 1, (), f.show_protocols),
    Field("session_timeout_ms", f.integer, DETAILS + 2),
    Field("rebalance_timeout_ms", f.integer, DETAILS + 3),
    Field("client_id", f.string, DETAILS + 4),
    Field("client_host", f.string, DETAILS + 5),
    Field("require_known_member_id", f.boolean, DETAILS + 6, False),
    Field("supports_skipping_assignment", f.boolean, DETAILS + 7, False),
    Field("reason", f.string, NOWHERE, None),
)
_SYNC = (
    Field("protocol_type", f.string, DETAILS, None),
    Field("protocol_name", f.string, DETAILS + 1, None),
    Field("assignments", f.assignment_map, DETAILS + 2, (), f.show_assignments),
)
_TXN = (
    Field("producer_id", _long, DETAILS + 1),
    Field("producer_epoch", _short, DETAILS + 2),
)
_END = (
    Field("producer_id", _long, DETAILS),
    Field("committed", f.boolean, DETAILS + 1, False),
)
_FETCH = (
    Field("topics", f.fetched, DETAILS, None, f.show_fetched),
    Field("require_stable", f.boolean, DETAILS + 1, False),
)
_FAIL = (
    Field("error", f.log_error, DETAILS, ABSENT, f.show_error),
    Field("count", f.count, DETAILS + 1),
)

OPERATIONS: dict[str, Operation] = {
    "advance": Operation(is_request=False),
    "join_group": Operation((_group, _member, _instance, *_JOIN), (None,) * 8),
    "sync_group": Operation((*_who, *_SYNC), (None,) * 3),
    "heartbeat": Operation(_who),
    "leave_group": Operation(
        (_group, Field("members", f.leaving, ALONE, (), f.show_leaving)),
    ),
    "offset_commit": Operation((*_who, _offsets), (None, -1, -1)),
    "txn_offset_commit": Operation((*_who, _offsets, *_TXN), (None,) * 3),
    "end_txn": Operation(_END, (None,) * 2, is_request=False),
    "offset_fetch": Operation((_group, *_FETCH), (None,) * 2),
    "offset_delete": Operation((_group, _partitions)),
    "describe_group": Operation((_group,)),
    "list_groups": Operation((Field("states", f.strings, ALONE, (), f.show_list),)),
    "delete_groups": Operation((Field("group_ids", f.strings, ALONE, (), f.show_list),)),
    "delete_partitions": Operation((_partitions,), is_request=False),
    "cleanup": Operation(is_request=False),
    "failover": Operation(is_request=False),
    "fail_append": Operation(_FAIL, (None,) * 2, is_request=False),
}
