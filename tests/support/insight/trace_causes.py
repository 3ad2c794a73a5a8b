"""What caused each epoch of a golden trace of consumer groups, by the requests of the trace.

Kafka's own appends are the log; the trace says who asked for what. Nothing here comes from coterie.
"""

import base64
import json
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from coterie.errors import CorruptData
from coterie.messages import decode_key, decode_value
from support.consumer_groups import golden
from support.insight.lives import written

CLASSIC, EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 2, 3, 5, 6, 7, 8, 16
PENDING = "partitionsPendingRevocation"
TASK = "task"  # of the coordinator: expressions were resolved
UPGRADE = "upgrade"  # of a classic group: its last generation is the first epoch
START_MS = 1_000_000


class Append(NamedTuple):
    """What Kafka wrote at once, and what made it: a line of the trace, a timer's key, or TASK."""

    at_ms: int
    records: list  # (version of the key, key, value), decoded
    by: object


class Epoch(NamedTuple):
    """What caused an epoch: who did what. ``metadata``: the topics changed since the one before.

    ``by``: as of ``Append``; None: not known, since Kafka had not answered yet.
    """

    group: str
    number: int
    at_ms: int
    by: object
    joined: set
    replaced: set
    left: set
    subscribed: set
    resolved: bool
    metadata: bool


def key_of(line):
    """The version and the data of a record's key."""
    key = decode_key(base64.b64decode(line["key"]))
    return key["version"], key["data"]


def records_of(lines):
    """The readable records of groups, decoded: (version of the key, key, value)."""
    records = []
    for line in lines:
        with suppress(CorruptData):
            version, key = key_of(line)
            value = line.get("value")
            if value is not None and version > 1:
                value = decode_value(version, base64.b64decode(value))["data"]
            records += [(version, key, value)] if version > 1 else []
    return records


def fenced(timer, records):
    """Whether a timer can have made these records: it removes its member."""
    return any(
        version == MEMBER and value is None and timer.endswith(f"-{key['memberId']}")
        for version, key, value in records
    )


@cache
def appends(name, behaviour="4.1"):
    """Return what Kafka wrote of groups, without commits, and the lines of it."""
    return tuple(parsed_appends(name, behaviour))


def parsed_appends(name, behaviour):
    trace = list(map(json.loads, golden.trace(name)[1:]))
    events = {line.get("id"): line for line in trace}
    behind = [(number, line) for number, line in enumerate(trace) if line["op"] == "append_raw"]
    batch, timer = [], ""
    for line in map(json.loads, golden.expected(name, behaviour)):
        if line["event"] == "append" and (not batch or batch[-1]["at"] == line["at"]):
            batch.append(line)
            continue
        if batch:
            records = records_of(batch)
            by = None
            if any(version == REGEX and value for version, _, value in records):
                by = TASK
            elif fenced(timer, records):
                by = timer
            elif line["event"] == "response":  # a request's records come before its response
                by = events[line["id"]]
            # What was put into the log behind Kafka's back, before this event.
            until = trace.index(by) if isinstance(by, dict) else len(trace)
            while behind and behind[0][0] < until:
                _, raw = behind.pop(0)
                yield Append(START_MS + raw["at"], records_of([raw]), None), [raw]
            yield Append(START_MS + batch[0]["at"], records, by), batch
            batch = [line] if line["event"] == "append" else []
        if line["event"] != "transition":
            timer = line["key"] if line["event"] == "timer" else ""


def log_of(folder, name, behaviour="4.1"):
    """Write Kafka's records of a trace as a log, a batch for each append; return the folder."""
    batches = [
        [
            (
                append.at_ms,
                base64.b64decode(line["key"]),
                None if line.get("value") is None else base64.b64decode(line["value"]),
            )
            for line in lines
            if base64.b64decode(line["key"])[:2] not in (b"\x00\x00", b"\x00\x01")
        ]
        for append, lines in appends(name, behaviour)
    ]
    return written(folder, *filter(None, batches))


def epochs(name, behaviour="4.1"):
    """Yield the cause of each epoch that Kafka wrote while its group had one before."""
    images = sorted(
        START_MS + line["at"]
        for line in map(json.loads, golden.trace(name)[1:])
        if line["op"] in ("metadata", "append_raw", "failover")
    )
    members = {}  # of each group: id -> the value of its record
    before_ms = {}
    for append, _ in appends(name, behaviour):
        then = {group: dict(of_group) for group, of_group in members.items()}
        for version, key, value in append.records:
            of_group = members.setdefault(key.get("groupId"), {})
            if version == MEMBER and value is None:
                of_group.pop(key["memberId"], None)
            elif version == MEMBER:
                of_group[key["memberId"]] = value
            elif version == EPOCH and value is not None:
                group, at_ms = key["groupId"], append.at_ms
                if upgrades(append) and all(map(is_classic, of_group.values())):
                    then[group] = dict(of_group)  # as the classic group was
                    before_ms[group] = at_ms
                    nobody = [set() for _ in range(4)]
                    yield Epoch(group, value["epoch"], at_ms, UPGRADE, *nobody, False, False)
                    continue
                since_ms = before_ms.get(group, 0)
                before_ms[group] = at_ms
                changed = any(since_ms <= image_ms <= at_ms for image_ms in images)
                yield Epoch(group, value["epoch"], at_ms, append.by,
                            *done(append.by, then.get(group, {}), of_group),
                            append.by == TASK, changed)  # fmt: skip
            elif version == EPOCH:
                before_ms.pop(key["groupId"], None)


def upgrades(append):
    """Whether a classic group ends with an append."""
    return any(version == CLASSIC and value is None for version, _, value in append.records)


def is_classic(member):
    return member["classicMemberMetadata"] is not None


def done(by, before, now):
    """Who joined, was replaced, left and subscribed to something else, as the request asked."""
    joined, replaced, left, subscribed = set(), set(), set(), set()
    if isinstance(by, str) and by != TASK:
        left = before.keys() - now.keys()
    elif isinstance(by, dict):
        gone = before.keys() - now.keys()
        came = now.keys() - before.keys()
        same = {now[new]["instanceId"]: new for new in came if now[new]["instanceId"] is not None}
        for old in gone:
            new = same.get(before[old]["instanceId"])
            if new is None:
                left.add(old)
            else:
                replaced.add(new)
                before = {**before, new: before[old]}
        joined = came - replaced
        for member in now.keys() & before.keys():
            if topics_of(before[member]) != topics_of(now[member]):
                subscribed.add(member)
    return joined, replaced, left, subscribed


def topics_of(value):
    return set(value["subscribedTopicNames"]), value["subscribedTopicRegex"] or ""


def states(name, behaviour="4.1"):
    """Yield (group, time, state, epoch, epoch of the target) whenever Kafka said so."""
    for line in map(json.loads, golden.expected(name, behaviour)):
        if line["event"] == "group" and line["type"] == "consumer":
            yield (line["group_id"], START_MS + line["at"], line["state"], line["group_epoch"],
                   line["assignment_epoch"])  # fmt: skip


def unowned_ms(name, behaviour="4.1"):
    """Group -> how long partitions had no owner until they had one again, by each append.

    From the moment when a partition was given up; only if some target had it all the time, and
    while the group had members.
    """
    groups = {}
    total = {}
    for append, _ in appends(name, behaviour):
        for version, key, value in append.records:
            group = groups.setdefault(key.get("groupId"), ({}, {}, set(), {}))
            owned, targets, members, lost = group
            if version == CURRENT:
                before = owned.pop(key["memberId"], set())
                now = places(value, "assignedPartitions") | places(value, PENDING)
                owned[key["memberId"]] = now
                lost |= dict.fromkeys(before - now, append.at_ms)
                for place in now - before:
                    since_ms = lost.pop(place, append.at_ms)
                    total[key["groupId"]] = total.get(key["groupId"], 0) + append.at_ms - since_ms
            elif version == TARGET:
                targets[key["memberId"]] = places(value, "topicPartitions")
            elif version == TARGET_EPOCH and value is not None:
                every = set().union(*targets.values())
                for place in lost.keys() - every:
                    del lost[place]
            elif version == MEMBER:
                (members.discard if value is None else members.add)(key["memberId"])
                if not members:
                    lost.clear()
    return total


def places(value, name):
    topics = () if value is None else value[name]
    return {(topic["topicId"], number) for topic in topics for number in topic["partitions"]}


def downgrades(name, behaviour="4.1"):
    """Yield the group whenever a consumer group became a classic one."""
    for line in map(json.loads, golden.expected(name, behaviour)):
        if line["event"] == "group" and line["type"] == "classic":
            yield line["group_id"]
