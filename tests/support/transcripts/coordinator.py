"""Transcripts of a coordinator under virtual time: requests of clients, and what they get.

``coordinator KEY=VALUE...`` begins with broker settings, ``advance to=MS`` moves the clock. All
other commands are operations with the fields of docs/traces.md. The output has a line for each
event: an answer with the number of its request, a transition with its cause, a record. Fields that
are empty are left out.
"""

from coterie import Append, Error, GroupCoordinator, Response, Transition, Unanswered
from support.transcripts import words as read

SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"  # version 0: the topic orders
JOIN = {"protocol_type": "consumer", "client_host": "/127.0.0.1"}
KINDS = {
    "protocols": lambda value: dict.fromkeys(value.split(","), SUBSCRIPTION),
    "assignments": lambda value: {
        member: assignment.encode()
        for member, _, assignment in (entry.partition(":") for entry in value.split(","))
    },
    "offsets": read.offsets,
    "partitions": read.places,
    "members": lambda value: value.split(","),
    "group_ids": lambda value: value.split(","),
}


class Coordinator:
    """A coordinator, and the requests of a transcript."""

    def __init__(self, _folder):
        self.coordinator = None

    def run(self, words, _body):
        """Yield a line for each event of a command."""
        op, *rest = words
        if op == "coordinator":
            settings = dict(word.split("=", 1) for word in rest)
            self.coordinator = GroupCoordinator({k: read.plain(v) for k, v in settings.items()})
        elif op == "advance":
            self.coordinator.advance(read.fields_of(rest, {})["to"])
        else:
            fields = read.fields_of(rest, KINDS)
            getattr(self.coordinator, op)(**(JOIN if op == "join_group" else {}) | fields)
        return [f"{event.at} {shown(event)}" for event in self.coordinator.take_events()]


def shown(event):
    match event:
        case Response(id=number, op=op, response=response):
            return f"answer {number} {op} {fields(response)}"
        case Transition():
            cause = f"{event.cause.name} {event.member_id or ''}".rstrip()
            change = f"{event.from_} -> {event.to}"
            return f"group {event.group_id}: {change}, generation {event.generation_id} ({cause})"
        case Append():
            return f"record {record(event.decoded())}"
        case Unanswered():
            return f"no answer {event.id} {event.op}: {event.why}"


def record(decoded):
    key, value = decoded["key"], decoded["value"]
    head = " ".join(str(part) for part in key.values())
    if value is None:
        return f"{head}: tombstone"
    fields = [f"{name}={_value(v)}" for name, v in value.items() if not _empty(v)]
    return f"{head}: {' '.join(fields)}"


def fields(value):
    """The fields of a response: the error first, by its name; nested rows in brackets."""
    if isinstance(value, Error):
        return value.name
    names = [name for name in value.__slots__ if name != "error"]
    shown = [f"{name}={_value(v)}" for name in names if not _empty(v := getattr(value, name))]
    return " ".join([value.error.name, *shown] if hasattr(value, "error") else shown)


def _empty(value):
    return value is None or value is False or (not value and not isinstance(value, int))


def _value(value):
    if isinstance(value, bytes):
        return "SUBSCRIPTION" if value == SUBSCRIPTION else value.decode()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, dict):
        return " ".join(f"{name}={_value(v)}" for name, v in value.items() if not _empty(v))
    return fields(value) if hasattr(value, "__slots__") else str(value)
