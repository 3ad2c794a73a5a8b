"""The log of the broker of golden/request-log, rebuilt from its server and request logs.

Its own segments were not recorded. Kafka writes a record when a leader's assignment arrives: the
members of the leader's JoinGroup response with the generation, at the time of the SyncGroup.
"""

import base64
import gzip
import json
import re
import struct
from datetime import UTC, datetime

from support.golden_data import GOLDEN
from support.log_writer import batch, group_key, text

FOLDER = GOLDEN / "request-log"
REQUESTS, SERVER = FOLDER / "kafka-request.log.gz", FOLDER / "server.log.gz"
NONE = struct.pack(">h", -1)


def ms_of(stamp):
    moment = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.startswith("["):
                yield ms_of(line[1:24]), line


def member(number, who, assignment):
    instance = NONE if who["instance"] is None else text(who["instance"].encode())
    subscription = base64.b64decode(who["metadata"])
    return (
        text(number.encode())
        + instance
        + text(who["client"].encode())
        + text(b"/127.0.0.1")
        + struct.pack(">iii", 10000, 6000, len(subscription))
        + subscription
        + struct.pack(">i", len(assignment))
        + assignment
    )


def value(generation, at_ms, protocol, leader, members):
    named = NONE if protocol is None else text(protocol.encode())
    led = NONE if leader is None else text(leader.encode())
    head = struct.pack(">h", 3) + text(b"consumer") + struct.pack(">i", generation) + named + led
    return head + struct.pack(">qi", at_ms, len(members)) + b"".join(members)


class Session:
    """Reads the two logs in order of time; ``records`` are (time, group, value)."""

    def __init__(self):
        self.members, self.head, self.records = {}, {}, []
        self.assigned = {}
        events = [*lines(REQUESTS), *lines(SERVER)]
        for at_ms, line in sorted(events, key=lambda event: event[0]):
            if "Completed request:" in line:
                self.request(at_ms, json.loads(line[line.index("{") : line.rindex("}") + 1]))
            else:
                self.server_line(at_ms, line)

    def request(self, at_ms, logged):
        api, request_body, answer = (logged["requestHeader"], logged["request"], logged["response"])
        name, group = api["requestApiKeyName"], request_body.get("groupId")
        if answer.get("errorCode") != 0:
            return
        if name == "JOIN_GROUP":
            who = {
                "client": api["clientId"],
                "instance": request_body.get("groupInstanceId"),
                "metadata": request_body["protocols"][0]["metadata"],
            }
            self.members.setdefault(group, {})[answer["memberId"]] = who
            self.replace(at_ms, group, who["instance"], answer)
            if answer["members"]:
                ids = [row["memberId"] for row in answer["members"]]
                place = answer["generationId"], answer["protocolName"], answer["leader"], ids
                self.head[group] = place
        elif name == "SYNC_GROUP" and request_body["assignments"]:
            self.assigned[group] = {
                one["memberId"]: base64.b64decode(one["assignment"])
                for one in request_body["assignments"]
            }
            self.write(at_ms, group)

    def replace(self, at_ms, group, instance, answer):
        """Write the replacement of a static member, in the same generation."""
        generation, *_, ids = self.head.get(group, (None, []))
        known, new = self.members[group], answer["memberId"]
        if instance is None or generation != answer["generationId"] or new in ids:
            return
        (old,) = [other for other in ids if known[other]["instance"] == instance]
        ids[ids.index(old)] = new
        known[new]["client"] = known[old]["client"]  # a member keeps its first client id
        self.assigned[group][new] = self.assigned[group].pop(old)
        self.write(at_ms, group)

    def server_line(self, at_ms, line):
        empty = re.search(r"Group (\S+) with generation (\d+) is now empty", line)
        if empty:
            body = value(int(empty[2]), at_ms, None, None, [])
            self.records.append((at_ms, empty[1], body))

    def write(self, at_ms, group):
        generation, protocol, leader, ids = self.head[group]
        parts = [member(i, self.members[group][i], self.assigned[group].get(i, b"")) for i in ids]
        self.records.append((at_ms, group, value(generation, at_ms, protocol, leader, parts)))


def made_log(folder):
    """Write the session's group metadata as one partition; return the folder of the topic."""
    place = folder / "log" / "__consumer_offsets-0"
    place.mkdir(parents=True)
    records = sorted(Session().records, key=lambda record: record[0])
    data = b"".join(
        batch(offset, [(at_ms, group_key(group.encode()), body)])
        for offset, (at_ms, group, body) in enumerate(records)
    )
    (place / f"{0:020}.log").write_bytes(data)
    return place.parent
