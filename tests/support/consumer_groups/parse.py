"""Records that others wrote, from their bytes: what a load meets beside the model's own."""

from __future__ import annotations

import struct

from . import records
from .groups import Member, Resolved
from .replay import (
    Broken,
    consumer_group,
    replay_current,
    replay_epoch,
    replay_member,
    replay_regex,
    replay_target,
    replay_target_epoch,
)  # fmt: skip

OTHER_GROUPS = range(9, 24)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def unpack(self, form):
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return values[0] if len(values) == 1 else values

    def take(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def short(self):
        return self.take(self.unpack("h")).decode()

    def varint(self):
        value = shift = 0
        while True:
            byte = self.unpack("B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text(self):
        length = self.varint()
        return None if length == 0 else self.take(length - 1).decode()

    def items(self, read):
        return [read() for _ in range(self.varint() - 1)]

    def tags(self):
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}

    def numbers(self):
        return self.items(lambda: self.unpack("i"))

    def topic_partitions(self, member_epoch):
        """Partitions by topic id, each with its epoch, or that of the member."""

        def one():
            topic, numbers = self.take(16), self.numbers()
            tag = self.tags().get(0)
            epochs = Reader(tag).numbers() if tag and tag != b"\0" else []
            if len(epochs) != len(numbers):
                epochs = [max(member_epoch, 0)] * len(numbers)
            return topic, dict(zip(numbers, epochs, strict=True))

        return dict(self.items(one))


def replay_bytes(state, record, position):
    key = Reader(record.key)
    kind = key.unpack("h")
    value = None if record.value is None else Reader(record.value)
    if kind not in (0, *range(1, 9), *OTHER_GROUPS):
        return
    group_id = key.short()
    if value is not None and (version := value.unpack("h")) != 0 and kind > 2:
        raise Broken(f"value version {version}")
    if kind in (10, 11, 12, 13, 14) and value is not None:
        state.groups[group_id] = OtherGroup(group_id)
        return
    if kind == records.MEMBER:
        name = key.short()
        member = None
        if value is not None:
            member = Member(name, instance_id=value.text(), rack_id=value.text(),
                            client_id=value.text(), client_host=value.text())  # fmt: skip
            member.names = frozenset(value.items(value.text))
            member.regex = value.text()
            member.rebalance_timeout_ms = value.unpack("i")
            member.assignor = value.text()
        replay_member(group_id, name, member)(state)
    elif kind == records.EPOCH:
        read = None
        if value is not None:
            epoch = value.unpack("i")
            tagged = value.tags().get(0)
            read = (epoch, struct.unpack(">q", tagged)[0] if tagged else 0)
        replay_epoch(group_id, read)(state)
    elif kind == records.PARTITION_METADATA:
        group = consumer_group(state, group_id, create=value is not None)
        if group is not None:
            group.has_partition_metadata = value is not None
    elif kind == records.TARGET_EPOCH:
        epoch, tag = (None, None) if value is None else (value.unpack("i"), value.tags().get(0))
        at_ms = struct.unpack(">q", tag)[0] if tag else 0
        replay_target_epoch(group_id, epoch, at_ms)(state)
    elif kind == records.TARGET:
        name = key.short()
        target = None if value is None else {
            topic: {*partitions} for topic, partitions in value.topic_partitions(0).items()
        }  # fmt: skip
        replay_target(group_id, name, target)(state)
    elif kind == records.CURRENT:
        name = key.short()
        member = None
        if value is not None:
            epoch, previous, number = value.unpack("iib")
            number = number if number in (0, 1, 2) else 127
            own = epoch if state.release >= (4, 3) else 0
            member = Member(name, epoch, previous, number, assigned=value.topic_partitions(own),
                            revoking=value.topic_partitions(own))  # fmt: skip
        replay_current(group_id, name, member)(state)
    elif kind == records.REGEX:
        regex = key.short()
        resolved = None
        if value is not None:
            resolved = Resolved(frozenset(value.items(value.text)), *value.unpack("qq"))
        replay_regex(group_id, regex, resolved)(state)


class OtherGroup:
    """A share or streams group: its id is taken."""

    def __init__(self, group_id):
        self.id = group_id
