"""The kinds of field of operations: how each is read, and how a trace shows it.

A reader takes the mapping of all fields, the name and the default. Its errors name the field and
say what it must be; the checks of single values are in ``coterie.base.arguments``. The function
that shows a value is the inverse of its reader.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from coterie.base import arguments
from coterie.base import consumer_protocol as protocol
from coterie.base.arguments import did_you_mean, sequence, text, whole
from coterie.base.operations import ABSENT
from coterie.consumer_groups import decode_topic_id, encode_topic_id
from coterie.errors import ArgumentError, shown
from coterie.values import Error, OffsetAndMetadata

_INT16, _SHORT = 2**15, 1000
_MOST_BYTES = 2**31 - 1  # their length is an int32

Fields = Mapping[str, Any]


class MemberOf(str):
    """A reference to the member id in an earlier answer, which is known only during a run."""

    __slots__ = ("request_id",)
    request_id: int

    @classmethod
    def make(cls, request_id: int) -> MemberOf:
        """Make a reference to the id in the answer to this request."""
        reference = cls(f"\0member of request {request_id}")
        reference.request_id = request_id
        return reference


def integer(fields: Fields, name: str, default: Any = ABSENT, bits: int = 32) -> Any:
    """Return an integer field that fits this many bits, or its default."""
    value = fields.get(name)
    if value is None:
        if default is ABSENT:
            raise ArgumentError(f"needs {name}, an integer")
        return default
    if type(value) is int and -_INT16 <= value < _INT16:  # most are
        return value
    return arguments.integer(value, name, bits)


def string(fields: Fields, name: str, default: Any = ABSENT) -> Any:
    """Return a string field, or its default."""
    value = fields.get(name)
    if value is None:
        if default is ABSENT:
            raise ArgumentError(f"needs {name}, a string")
        return default
    if type(value) is str and len(value) < _SHORT and value.isascii():  # most are
        return value
    return text(value, name)


def metadata(fields: Fields) -> str:
    """Return the metadata of a commit; the core answers metadata that the setting forbids."""
    value = fields.get("metadata")
    return "" if value is None else text(value, "metadata", _MOST_BYTES)


def boolean(fields: Fields, name: str, default: bool) -> bool:
    """Return a bool field, or its default."""
    value = fields.get(name)
    return default if value is None else arguments.boolean(value, name)


def binary(value: Any, name: str) -> bytes:
    """Return bytes, which may be given as base64."""
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
    """Return a list of objects; an absent one is empty."""
    value = sequence(fields.get(name), name)
    for item in value:
        if not isinstance(item, Mapping):
            raise ArgumentError(f"{name} must be a list of objects, not of {shown(item)}")
    return value


def member_id(fields: Fields, name: str = "member_id", default: Any = "") -> str:
    """Return the member id, or a reference to one."""
    request_id = fields.get("member_id_of")
    if request_id is None:
        return string(fields, name, default)  # type: ignore[no-any-return]
    if fields.get("member_id"):
        raise ArgumentError("member_id and member_id_of exclude each other")
    return MemberOf.make(integer(fields, "member_id_of", bits=64))


_protocol_lists: dict[Any, tuple[tuple[str, bytes], ...]] = {}


def protocol_list(fields: Fields, name: str, default: Any) -> tuple[tuple[str, bytes], ...]:
    """Return a join's protocols as pairs; equal lists are one object, so comparing is cheap."""
    value = fields.get(name)
    if isinstance(value, Mapping):
        value = [{"name": name, "metadata": data} for name, data in value.items()]
    objects = [_as_entry(item) for item in sequence(value, name)]
    pairs = []
    for item in entries({name: objects}, name):
        protocol_name = string(item, "name")
        if item.get("topics") is not None:
            topics = item["topics"]
            if item.get("metadata"):
                raise ArgumentError("topics and metadata exclude each other")
            if not isinstance(topics, list | tuple):
                raise ArgumentError(f"topics must be a list of names, not {shown(topics)}")
            pairs.append(
                (protocol_name, protocol.subscription([text(t, "topics") for t in topics]))
            )
        else:
            pairs.append((protocol_name, binary(item.get("metadata"), "metadata")))
    key = tuple(pairs)
    if len(_protocol_lists) > 100_000:
        _protocol_lists.clear()
    return _protocol_lists.setdefault(key, key)


def _as_entry(item: Any) -> Any:
    """Return a pair (name, bytes) as an object, anything else unchanged."""
    if isinstance(item, tuple) and len(item) == 2:
        return {"name": item[0], "metadata": item[1]}
    return item


def assignment_map(fields: Fields, name: str, default: Any) -> dict[str, bytes]:
    value = fields.get(name)
    if isinstance(value, Mapping):
        value = [{"member_id": key, "assignment": data} for key, data in value.items()]
    out = {}
    for item in entries({name: value}, name):
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
    return string(item, "topic"), integer(item, "partition")


def partition_list(fields: Fields, name: str, default: Any) -> tuple[tuple[str, int], ...]:
    """Return keys of ``[{topic, partition}]`` or of pairs."""
    keyed = [
        {"topic": item[0], "partition": item[1]}
        if isinstance(item, tuple) and len(item) == 2
        else item
        for item in sequence(fields.get(name), name)
    ]
    return tuple(topic_partition(item) for item in entries({name: keyed}, name))


def fetched(fields: Fields, name: str, default: Any) -> tuple[tuple[str, int], ...] | None:
    """Return the partitions of a fetch; None: all."""
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, Mapping):
        value = [{"topic": topic, "partitions": numbers} for topic, numbers in value.items()]
    keys = []
    for item in entries({name: value}, name):
        topic = string(item, "topic")
        keys += [
            (topic, integer({"partition": number}, "partition"))
            for number in sequence(item.get("partitions"), "partitions")
        ]
    return tuple(keys)


def topic_id(item: Any) -> bytes:
    """Return a topic's id, which may come as its 16 bytes or their text."""
    value = item.get("topic_id")
    if isinstance(value, bytes) and len(value) == 16:
        return value
    try:
        return decode_topic_id(string(item, "topic_id"))
    except ValueError:
        raise ArgumentError(
            f"topic_id must be 16 bytes or their base64, not {shown(value)}"
        ) from None


def committed(fields: Fields, name: str, default: Any) -> tuple[Any, ...]:
    """Return a commit's rows: (key, offset, epoch, metadata, commit time or None, expiry).

    A row ends in the topic's id if it has one.
    """
    value = fields.get(name)
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
            *(() if item.get("topic_id") is None else (topic_id(item),)),
        )
        for item in entries({name: value}, name)
    )


def _commit_row(key: Any, entry: Any) -> tuple[Any, ...]:
    if not isinstance(key, tuple) or len(key) != 2:
        raise ArgumentError(f"offsets must be {{(topic, partition): offset}}, not of {shown(key)}")
    where = topic_partition({"topic": key[0], "partition": key[1]})
    if not isinstance(entry, OffsetAndMetadata):
        return where, integer({"offset": entry}, "offset", bits=64), -1, "", None, -1
    fields = {
        "offset": entry.offset,
        "leader_epoch": entry.leader_epoch,
        "metadata": entry.metadata,
        "commit_timestamp": entry.commit_timestamp,
        "expire_timestamp": entry.expire_timestamp,
    }
    stamped = integer(fields, "commit_timestamp", None, 64)
    return (
        where,
        integer(fields, "offset", bits=64),
        integer(fields, "leader_epoch", -1),
        metadata(fields),
        None if stamped == -1 else stamped,  # a request's -1 is the time of the commit
        integer(fields, "expire_timestamp", -1, 64),
    )


def leaving(fields: Fields, name: str, default: Any) -> tuple[tuple[str, str | None], ...]:
    """Return the leaving members: (member id, group instance id)."""
    objects = [_as_leaving(item) for item in sequence(fields.get(name), name)]
    return tuple(
        [
            (member_id(entry), string(entry, "group_instance_id", None))
            for entry in entries({name: objects}, name)
        ]
    )


def _as_leaving(item: Any) -> Any:
    """Return a member id, or a pair of member id and instance id, as an object."""
    if isinstance(item, str):
        return {"member_id": item}
    if isinstance(item, tuple) and len(item) == 2:
        return {"member_id": item[0], "group_instance_id": item[1]}
    return item


def strings(fields: Fields, name: str, default: Any) -> tuple[str, ...]:
    """Return a list of strings; an absent one is empty."""
    return tuple([text(item, name) for item in sequence(fields.get(name), name)])


def error_code(value: Any) -> Error:
    """Return one of Kafka's errors, which may be given as its number."""
    try:
        return Error(whole(value, "error"))
    except ValueError:  # as an ArgumentError is
        pass
    raise ArgumentError(f"error must be one of Kafka's errors (coterie.Error), not {shown(value)}")


def log_error(fields: Fields, name: str, default: Any) -> int:
    """Return the number of an error, given by name or number."""
    error = fields.get(name)
    if isinstance(error, str):
        if error not in Error.__members__:
            raise ArgumentError(
                f"error must be the name of one of Kafka's errors, not {shown(error)}"
                + did_you_mean(error, Error.__members__)
            )
        error = Error[error]
    return int(error_code(error))


def count(fields: Fields, name: str, default: Any) -> int:
    """Return a number that is not negative."""
    number: int = integer(fields, name, default, 64)
    if number < 0:
        raise ArgumentError(f"{name} must not be negative, not {number}")
    return number


def one_partition(fields: Fields, name: str, default: Any) -> int | None:
    """Return the number of a partition of the offsets topic; None: all."""
    value = fields.get(name)
    return None if value is None else arguments.within(value, name, 0, 2**31 - 1)


# The inverse of the readers, for traces.

Shown = dict[str, Any]


def show(name: str, value: Any) -> Shown:
    """Show the value unchanged; None is left out."""
    return {} if value is None else {name: value}


def show_generation(name: str, value: int) -> Shown:
    """Show a generation; -1 is left out."""
    return {} if value == -1 else {name: value}


def show_member(name: str, value: str | None) -> Shown:
    """Show a member id, or the reference to one."""
    if isinstance(value, MemberOf):
        return {"member_id_of": value.request_id}
    return {name: value} if value else {}


def show_list(name: str, value: tuple[Any, ...]) -> Shown:
    return {name: list(value)}


def show_protocols(name: str, value: tuple[tuple[str, bytes], ...]) -> Shown:
    return {name: [{"name": protocol, "metadata": _text(data)} for protocol, data in value]}


def show_assignments(name: str, value: dict[str, bytes]) -> Shown:
    return {name: [_member(member) | {"assignment": _text(data)} for member, data in value.items()]}


def show_leaving(name: str, value: tuple[tuple[str, str | None], ...]) -> Shown:
    return {name: [_member(member) | show("group_instance_id", at) for member, at in value]}


def show_offsets(name: str, value: tuple[Any, ...]) -> Shown:
    """Show a commit's rows without fields that have their default."""
    offsets = []
    for (topic, partition), offset, epoch, commit_metadata, _, expire, *raw in value:
        entry = {"topic": topic, "partition": partition, "offset": offset}
        if raw:
            entry["topic_id"] = encode_topic_id(*raw)
        rest = (("leader_epoch", epoch, -1), ("metadata", commit_metadata, ""),
                ("expire_timestamp", expire, -1))  # fmt: skip
        offsets.append(
            entry
            | {field: entry_value for field, entry_value, absent in rest if entry_value != absent}
        )
    return {name: offsets}


def show_fetched(name: str, value: tuple[tuple[str, int], ...] | None) -> Shown:
    """Show the partitions of a fetch by topic; a fetch of all is left out."""
    if value is None:
        return {}
    topics: dict[str, list[int]] = {}
    for topic, partition in value:
        topics.setdefault(topic, []).append(partition)
    return {name: [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]}


def show_partitions(name: str, value: tuple[tuple[str, int], ...]) -> Shown:
    return {name: [{"topic": topic, "partition": number} for topic, number in value]}


def show_error(name: str, value: int) -> Shown:
    return {name: Error(value).name}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _member(member: str) -> Shown:
    return show_member("member_id", member) or {"member_id": member}


class Kind(NamedTuple):
    """A kind of field: its reader, and the function that shows it."""

    read: Callable[[Fields, str, Any], Any]
    show: Callable[[str, Any], Shown] = show


KINDS = {
    "string": Kind(string),
    "bool": Kind(boolean),
    "int16": Kind(partial(integer, bits=16)),
    "int32": Kind(integer),
    "int64": Kind(partial(integer, bits=64)),
    "count": Kind(count),
    "error": Kind(log_error, show_error),
    "generation": Kind(integer, show_generation),
    "member": Kind(member_id, show_member),
    "strings": Kind(strings, show_list),
    "protocols": Kind(protocol_list, show_protocols),
    "assignments": Kind(assignment_map, show_assignments),
    "leaving": Kind(leaving, show_leaving),
    "offsets": Kind(committed, show_offsets),
    "topics": Kind(fetched, show_fetched),
    "partitions": Kind(partition_list, show_partitions),
    "partition": Kind(one_partition),
}
