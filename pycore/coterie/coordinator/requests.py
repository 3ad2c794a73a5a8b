"""Requests as the core takes them: one mapping of fields checked and made a flat tuple.

The fields are those of a trace event. Every error says which field of which op, and what it must
be; where the request stands (the line of a trace) is the caller's to add.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie import arguments
from coterie.arguments import sequence, text, whole
from coterie.errors import ArgumentError, shown
from coterie.log import consumer_protocol as protocol
from coterie.values import Error, OffsetAndMetadata

__all__ = ["OPS", "REQUESTS", "Compiled", "MemberOf", "compile_request", "has_sugar"]

# In the order of the core's own numbers (effects.pxd).
OPS = (
    "advance",
    "join_group",
    "sync_group",
    "heartbeat",
    "leave_group",
    "offset_commit",
    "txn_offset_commit",
    "end_txn",
    "offset_fetch",
    "offset_delete",
    "describe_group",
    "list_groups",
    "delete_groups",
    "delete_partitions",
    "cleanup",
    "failover",
    "fail_append",
)
REQUESTS = frozenset(OPS) - {
    "advance", "end_txn", "delete_partitions", "cleanup", "failover", "fail_append",
}  # fmt: skip
NUMBER = {op: number for number, op in enumerate(OPS)}

_INT16, _SHORT = 2**15, 1000
_MOST_BYTES = 2**31 - 1  # their length is an int32
_ABSENT = object()

# group id, generation, member id, instance id, details
Compiled = tuple[str | None, int, str | None, str | None, tuple[Any, ...] | None]
Fields = Mapping[str, Any]


class MemberOf(str):
    """Sugar: the member id that the answer to a request named; known only while running."""

    __slots__ = ("request_id",)
    request_id: int

    @classmethod
    def make(cls, request_id: int) -> MemberOf:
        """Stand for the id that the answer to this request names."""
        made = cls(f"\0member of request {request_id}")
        made.request_id = request_id
        return made


def integer(fields: Fields, name: str, default: Any = _ABSENT, bits: int = 32) -> Any:
    """Return an integer field of so many bits, or its default."""
    value = fields.get(name)
    if value is None:
        if default is _ABSENT:
            raise ArgumentError(f"needs {name}, an integer")
        return default
    if type(value) is int and -_INT16 <= value < _INT16:  # most are
        return value
    return arguments.integer(value, name, bits)


def string(fields: Fields, name: str, default: Any = _ABSENT) -> Any:
    """Return a string field, or its default."""
    value = fields.get(name)
    if value is None:
        if default is _ABSENT:
            raise ArgumentError(f"needs {name}, a string")
        return default
    if type(value) is str and len(value) < _SHORT and value.isascii():  # most are
        return value
    return text(value, name)


def metadata(fields: Fields) -> str:
    """Return that of a commit, for whose length there is a setting and an answer of Kafka's."""
    value = fields.get("metadata")
    return "" if value is None else text(value, "metadata", _MOST_BYTES)


def boolean(fields: Fields, name: str) -> bool:
    """Return a bool field; absent is false."""
    value = fields.get(name)
    return value is not None and arguments.boolean(value, name)


def binary(value: Any, name: str) -> bytes:
    """Bytes, or the base64 of them."""
    if isinstance(value, bytes | bytearray | memoryview):
        data = arguments.binary(value, name)
        if len(data) > _MOST_BYTES:
            raise ArgumentError(f"{name} must have at most {_MOST_BYTES} bytes, not {len(data)}")
        return data
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    if value is None:
        raise ArgumentError(f"needs {name}, base64 text (or bytes)")
    raise ArgumentError(f"{name} must be base64 text (or bytes), not {shown(value)}")


def entries(fields: Fields, name: str) -> Iterable[Mapping[str, Any]]:
    """Return a list of objects; absent is empty."""
    value = sequence(fields.get(name), name)
    for item in value:
        if not isinstance(item, Mapping):
            raise ArgumentError(f"{name} must be a list of objects, not of {shown(item)}")
    return value


def member_id(fields: Fields) -> str:
    """Return the member id, or the sugar for one."""
    request_id = fields.get("member_id_of")
    if request_id is None:
        return string(fields, "member_id", "")  # type: ignore[no-any-return]
    if fields.get("member_id"):
        raise ArgumentError("member_id and member_id_of exclude each other")
    return MemberOf.make(integer(fields, "member_id_of", bits=64))


def has_sugar(fields: Fields) -> bool:
    """Whether a member id stands for the one in an earlier answer."""
    if "member_id_of" in fields:
        return True
    for name in ("assignments", "members"):
        given = fields.get(name)
        if isinstance(given, list | tuple) and any(
            isinstance(item, Mapping) and "member_id_of" in item for item in given
        ):
            return True
    return False


def refuse_sugar(fields: Fields) -> None:
    """Refuse a request that only a trace may hold: it has the earlier answer, too."""
    if has_sugar(fields):
        raise ArgumentError(
            "member_id_of stands in traces alone: give the member_id that the answer named"
        )


_protocol_lists: dict[Any, tuple[tuple[str, bytes], ...]] = {}


def protocol_list(fields: Fields) -> tuple[tuple[str, bytes], ...]:
    """Return a join's protocols as pairs; equal lists are one object: matching is cheap."""
    value = fields.get("protocols")
    if isinstance(value, Mapping):
        value = [{"name": name, "metadata": data} for name, data in value.items()]
    given = [_as_entry(item) for item in sequence(value, "protocols")]
    pairs = []
    for item in entries({"protocols": given}, "protocols"):
        name = string(item, "name")
        if item.get("topics") is not None:
            topics = item["topics"]
            if item.get("metadata"):
                raise ArgumentError("topics and metadata exclude each other")
            if not isinstance(topics, list | tuple):
                raise ArgumentError(f"topics must be a list of names, not {shown(topics)}")
            pairs.append((name, protocol.subscription([text(t, "topics") for t in topics])))
        else:
            pairs.append((name, binary(item.get("metadata"), "metadata")))
    key = tuple(pairs)
    if len(_protocol_lists) > 100_000:
        _protocol_lists.clear()
    return _protocol_lists.setdefault(key, key)


def _as_entry(item: Any) -> Any:
    """Return a pair (name, bytes) as an object; anything else as it is."""
    if isinstance(item, tuple) and len(item) == 2:
        return {"name": item[0], "metadata": item[1]}
    return item


def assignment_map(fields: Fields) -> dict[str, bytes]:
    """Return a sync's assignments by member id."""
    value = fields.get("assignments")
    if isinstance(value, Mapping):
        value = [{"member_id": key, "assignment": data} for key, data in value.items()]
    out = {}
    for item in entries({"assignments": value}, "assignments"):
        if item.get("assigned") is not None:
            if item.get("assignment"):
                raise ArgumentError("assigned and assignment exclude each other")
            data = protocol.assignment(partitions_by_topic(item["assigned"]))
        else:
            data = binary(item.get("assignment"), "assignment")
        out[member_id(item)] = data
    return out


def partitions_by_topic(value: Any) -> dict[str, list[int]]:
    """Check ``{topic: [partition]}``."""
    if not isinstance(value, Mapping):
        raise ArgumentError(f"assigned must be {{topic: [partition]}}, not {shown(value)}")
    return {
        string({"topic": topic}, "topic"): [
            integer({"partition": number}, "partition") for number in sequence(numbers, "assigned")
        ]
        for topic, numbers in value.items()
    }


def topic_partition(item: Mapping[str, Any]) -> tuple[str, int]:
    """Return the key of a partition."""
    return string(item, "topic"), integer(item, "partition")


def partition_list(fields: Fields, name: str) -> tuple[tuple[str, int], ...]:
    """[{topic, partition}], or pairs, as keys."""
    keyed = [
        {"topic": item[0], "partition": item[1]}
        if isinstance(item, tuple) and len(item) == 2
        else item
        for item in sequence(fields.get(name), name)
    ]
    return tuple(topic_partition(item) for item in entries({name: keyed}, name))


def fetched(fields: Fields) -> tuple[tuple[str, int], ...] | None:
    """Return the partitions of a fetch; None: all."""
    value = fields.get("topics")
    if value is None:
        return None
    if isinstance(value, Mapping):
        value = [{"topic": topic, "partitions": numbers} for topic, numbers in value.items()]
    keys = []
    for item in entries({"topics": value}, "topics"):
        topic = string(item, "topic")
        keys += [
            (topic, integer({"partition": number}, "partition"))
            for number in sequence(item.get("partitions"), "partitions")
        ]
    return tuple(keys)


def committed(fields: Fields) -> tuple[Any, ...]:
    """Return a commit's rows: (key, offset, epoch, metadata, commit time or None, expiry)."""
    value = fields.get("offsets")
    if isinstance(value, Mapping):
        return tuple(_commit_row(key, entry) for key, entry in value.items())
    return tuple(
        (
            topic_partition(item),
            integer(item, "offset", bits=64),
            integer(item, "leader_epoch", -1),
            metadata(item),
            None,
            integer(item, "expire_timestamp", -1, 64),
        )
        for item in entries({"offsets": value}, "offsets")
    )


def _commit_row(key: Any, entry: Any) -> tuple[Any, ...]:
    if not isinstance(key, tuple) or len(key) != 2:
        raise ArgumentError(f"offsets must be {{(topic, partition): offset}}, not of {shown(key)}")
    where = topic_partition({"topic": key[0], "partition": key[1]})
    if not isinstance(entry, OffsetAndMetadata):
        return where, integer({"offset": entry}, "offset", bits=64), -1, "", None, -1
    given = {
        "offset": entry.offset,
        "leader_epoch": entry.leader_epoch,
        "metadata": entry.metadata,
        "commit_timestamp": entry.commit_timestamp,
        "expire_timestamp": entry.expire_timestamp,
    }
    stamped = integer(given, "commit_timestamp", None, 64)
    return (
        where,
        integer(given, "offset", bits=64),
        integer(given, "leader_epoch", -1),
        metadata(given),
        None if stamped == -1 else stamped,  # a request's -1 is the time of the commit
        integer(given, "expire_timestamp", -1, 64),
    )


def strings(fields: Fields, name: str) -> tuple[str, ...]:
    """Return a list of strings; absent is empty."""
    return tuple([text(item, name) for item in sequence(fields.get(name), name)])


def _who(fields: Fields) -> tuple[str | None, int, str, str | None]:
    return (
        string(fields, "group_id", None),
        integer(fields, "generation_id", -1),
        member_id(fields),
        string(fields, "group_instance_id", None),
    )


def _join_group(fields: Fields) -> Compiled:
    details = (
        string(fields, "protocol_type"),
        protocol_list(fields),
        integer(fields, "session_timeout_ms"),
        integer(fields, "rebalance_timeout_ms"),
        string(fields, "client_id"),
        string(fields, "client_host"),
        boolean(fields, "require_known_member_id"),
        boolean(fields, "supports_skipping_assignment"),
    )
    string(fields, "reason", None)
    group_id, _, member, instance = _who(fields)
    return group_id, -1, member, instance, details


def _sync_group(fields: Fields) -> Compiled:
    details = (
        string(fields, "protocol_type", None),
        string(fields, "protocol_name", None),
        assignment_map(fields),
    )
    return *_who(fields), details


def _heartbeat(fields: Fields) -> Compiled:
    return *_who(fields), None


def _leave_group(fields: Fields) -> Compiled:
    given = [_as_leaving(item) for item in sequence(fields.get("members"), "members")]
    leaving = [
        (member_id(entry), string(entry, "group_instance_id", None))
        for entry in entries({"members": given}, "members")
    ]
    return string(fields, "group_id", None), -1, None, None, tuple(leaving)


def _as_leaving(item: Any) -> Any:
    """Return a member id, or a pair of it and the instance id, as an object."""
    if isinstance(item, str):
        return {"member_id": item}
    if isinstance(item, tuple) and len(item) == 2:
        return {"member_id": item[0], "group_instance_id": item[1]}
    return item


def _offset_commit(fields: Fields) -> Compiled:
    return *_who(fields), (committed(fields), -1, -1)


def _txn_offset_commit(fields: Fields) -> Compiled:
    producer = integer(fields, "producer_id", bits=64)
    epoch = integer(fields, "producer_epoch", bits=16)
    return *_who(fields), (committed(fields), producer, epoch)


def _end_txn(fields: Fields) -> Compiled:
    producer = integer(fields, "producer_id", bits=64)
    return None, -1, None, None, (producer, boolean(fields, "committed"))


def _offset_fetch(fields: Fields) -> Compiled:
    group_id = string(fields, "group_id", None)
    return group_id, -1, None, None, (fetched(fields), boolean(fields, "require_stable"))


def _offset_delete(fields: Fields) -> Compiled:
    group_id = string(fields, "group_id", None)
    return group_id, -1, None, None, partition_list(fields, "partitions")


def _describe_group(fields: Fields) -> Compiled:
    return string(fields, "group_id", None), -1, None, None, None


def _fail_append(fields: Fields) -> Compiled:
    error = fields.get("error")
    if isinstance(error, str):
        if error not in Error.__members__:
            raise ArgumentError(
                f"error must be the name of one of Kafka's errors, not {shown(error)}"
            )
        error = Error[error]
    error = error_code(error)
    count = integer(fields, "count", bits=64)
    if count < 0:
        raise ArgumentError(f"count must not be negative, not {count}")
    return None, -1, None, None, (int(error), count)


def error_code(value: Any) -> Error:
    """Return one of Kafka's errors, which may come as its number."""
    try:
        return Error(whole(value, "error"))
    except ValueError:  # as an ArgumentError is
        pass
    raise ArgumentError(f"error must be one of Kafka's errors (coterie.Error), not {shown(value)}")


def _nothing(fields: Fields) -> Compiled:
    return None, -1, None, None, None


_COMPILE: dict[str, Callable[[Fields], Compiled]] = {
    "advance": _nothing,
    "join_group": _join_group,
    "sync_group": _sync_group,
    "heartbeat": _heartbeat,
    "leave_group": _leave_group,
    "offset_commit": _offset_commit,
    "txn_offset_commit": _txn_offset_commit,
    "end_txn": _end_txn,
    "offset_fetch": _offset_fetch,
    "offset_delete": _offset_delete,
    "describe_group": _describe_group,
    "list_groups": lambda fields: (None, -1, None, None, strings(fields, "states")),
    "delete_groups": lambda fields: (None, -1, None, None, strings(fields, "group_ids")),
    "delete_partitions": lambda f: (None, -1, None, None, partition_list(f, "partitions")),
    "cleanup": _nothing,
    "failover": _nothing,
    "fail_append": _fail_append,
}


def compile_request(op: Any, fields: Fields) -> Compiled:
    """Check the fields of one op; ArgumentError says which field is wrong."""
    try:
        compiler = _COMPILE[op]
    except (KeyError, TypeError):
        raise ArgumentError(f"{shown(op)} is no op; the ops are {', '.join(OPS)}") from None
    try:
        return compiler(fields)
    except ArgumentError as error:
        raise ArgumentError(f"{op}: {error}") from None
