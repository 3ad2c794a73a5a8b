"""Send the same requests to a broker of Kafka and to ours, and compare the responses.

Generated values (member, producer and topic ids) have a common name for both servers. Append times
and addresses are ignored, and lists in the order of Kafka's hash tables are sorted.
"""

import json
import re
import select
import socket
import struct
import time

from coterie import wire
from support.server.playing import play

KEYS = {api.name: key for key, api in wire.APIS.items()}
CLOSED = b"closed"
READY = (0, 25)  # else the coordinator is not there yet; 25: it knows no such member
PATIENT_S, BRIEF_S, PARKED_S = 8.0, 1.5, 0.35
HEAD = struct.Struct(">qiibIhiqqqhii")
CONTROL = 0x20
MEMBER = re.compile(r"^(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
LEFT_OUT = {"host", "port", "clusterId", "throttleTimeMs", "rack", "logAppendTimeMs", "clientHost"}
LEFT_OUT |= {"nodeEndpoints", "controllerId", "lastTimestamp"}
NAMES = ("name", "topic", "groupId", "memberId", "index", "partition", "partitionIndex")
ALSO_UNORDERED = {
    "OffsetForLeaderEpoch": {"topics", "partitions"},
    "DescribeProducers": {"activeProducers", "topics", "partitions"},
    "DescribeConfigs": {"synonyms"},
    "ConsumerGroupHeartbeat": {"topicPartitions", "partitions"},
    "ConsumerGroupDescribe": {
        *("groups", "members", "topicPartitions", "partitions", "subscribedTopicNames"),
    },
}


class Drawn:
    """A value that each server generated for itself; ``of`` has both."""

    def __init__(self, theirs, ours):
        self.of = (theirs, ours)


class Batch:
    """A record batch of a producer: what ``play.batch`` takes, the producer id perhaps drawn."""

    def __init__(self, records, producer_id=-1, *rest):
        self.records, self.producer_id, self.rest = records, producer_id, rest

    def bytes_for(self, side):
        producer_id = concrete(self.producer_id, side)
        return play().batch(self.records, producer_id, *self.rest)


def concrete(value, side):
    """Return a request's value for one side."""
    if isinstance(value, Drawn):
        return value.of[side]
    if isinstance(value, Batch):
        return value.bytes_for(side)
    if isinstance(value, dict):
        return {name: concrete(inner, side) for name, inner in value.items()}
    if isinstance(value, list):
        return [concrete(inner, side) for inner in value]
    return value


class Connections:
    """Connections to one server, by name."""

    def __init__(self, address):
        self.address = address
        self.open = {}

    def send(self, name, frame):
        if name not in self.open:
            self.open[name] = [socket.create_connection(self.address), b""]
        self.open[name][0].sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, name, patience_s):
        """The next frame, ``CLOSED``, or None if nothing comes in time."""
        connection, until = self.open[name], time.monotonic() + patience_s
        while True:
            if len(connection[1]) >= 4:
                end = 4 + int.from_bytes(connection[1][:4], "big")
                if len(connection[1]) >= end:
                    frame, connection[1] = connection[1][4:end], connection[1][end:]
                    return frame
            left = until - time.monotonic()
            if left <= 0 or not select.select([connection[0]], [], [], left)[0]:
                return None
            try:
                data = connection[0].recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                return CLOSED
            connection[1] += data

    def ask(self, name, api, version, body):
        self.send(name, wire.encode_request(KEYS[api], version, body, client_id="cl"))
        return wire.decode_response(KEYS[api], version, self.receive(name, PATIENT_S)).body

    def close(self, *names):
        for name in names or list(self.open):
            if name in self.open:
                self.open.pop(name)[0].close()


class Both:
    """Two servers; ``differences`` has the request, the place of a difference, and both values."""

    def __init__(self, theirs, ours):
        self.sides = (Connections(theirs), Connections(ours))
        self.names = ({}, {})  # of each side: what it drew -> its name
        self.parked = []
        self.differences = []

    def close(self):
        for side in self.sides:
            side.close()

    def ask(self, connection, api, version, body, *, client="cl", parks=False):
        """Ask both; return both bodies, or None if neither answers or both close."""
        for number, side in enumerate(self.sides):
            fields = concrete(body, number)
            frame = wire.encode_request(KEYS[api], version, fields, client_id=client)
            side.send(connection, frame)
        found = self._frames(connection, PARKED_S if parks else PATIENT_S)
        if found == [None, None]:
            self.parked.append((connection, api, version, body))
            return None
        return self._compare(connection, api, version, body, found)

    def ask_until_decided(self, api, version, body):
        """Ask each server until it no longer answers CONCURRENT_TRANSACTIONS."""
        found = []
        for number, side in enumerate(self.sides):
            fields = concrete(body, number)
            for _ in range(60 if number == 0 else 4):
                frame = wire.encode_request(KEYS[api], version, fields, client_id="cl")
                side.send("main", frame)
                response = side.receive("main", PATIENT_S)
                if response in (None, CLOSED) or not _is_concurrent(_body(api, version, response)):
                    break
                time.sleep(0.05)
            found.append(response)
        return self._compare("main", api, version, body, found)

    def settle(self):
        """Yield the responses to parked requests: connection, api, both bodies."""
        for request in list(self.parked):
            connection, api, version, body = request
            found = self._frames(connection, 0.12)
            if found != [None, None]:
                self.parked.remove(request)
                yield connection, api, self._compare(connection, api, version, body, found)

    def _frames(self, connection, patience_s):
        theirs, ours = self.sides
        found = [theirs.receive(connection, patience_s), ours.receive(connection, 0.1)]
        if found.count(None) == 1:
            late = found.index(None)
            found[late] = self.sides[late].receive(connection, BRIEF_S)
        return found

    def _compare(self, connection, api, version, body, found):
        silent = [each if each in (None, CLOSED) else "answers" for each in found]
        if silent != ["answers"] * 2:
            if silent[0] != silent[1]:
                self.differences.append((api, version, body, "", *silent))
            for side in self.sides:
                side.close(connection)
            return None
        bodies = [_body(api, version, frame) for frame in found]
        self._learn(api, *bodies)
        theirs, ours = (alike(each, api, "", self.names[n]) for n, each in enumerate(bodies))
        for place, one, other in unequal(theirs, ours):
            self.differences.append((api, version, body, place, one, other))
        return bodies

    def _learn(self, api, theirs, ours):
        if api == "JoinGroup":
            self._draw(theirs["memberId"], ours["memberId"], MEMBER.match)
        elif api == "InitProducerId":
            self._draw(theirs["producerId"], ours["producerId"], lambda drawn: drawn >= 0)
        elif api in ("CreateTopics", "Metadata"):
            own = {topic["name"]: topic.get("topicId") for topic in ours["topics"]}
            for topic in theirs["topics"]:
                self._draw(topic.get("topicId"), own.get(topic["name"]), bool)

    def _draw(self, theirs, ours, is_drawn):
        if theirs and ours and is_drawn(theirs) and is_drawn(ours) and theirs not in self.names[0]:
            name = f"<{len(self.names[0])}>"
            self.names[0][theirs] = self.names[1][ours] = name


def _body(api, version, frame):
    return wire.decode_response(KEYS[api], version, frame).body


def _is_concurrent(value):
    if isinstance(value, dict):
        return any(
            (name.endswith("rrorCode") and each == 51) or _is_concurrent(each)
            for name, each in value.items()
        )
    return isinstance(value, list) and any(map(_is_concurrent, value))


def alike(value, api, field, names):
    """Return a response in the form for the comparison."""
    if isinstance(value, dict):
        return {k: alike(v, api, k, names) for k, v in value.items() if k not in LEFT_OUT}
    if isinstance(value, list):
        found = [alike(each, api, field, names) for each in value]
        if field in play().UNORDERED.get(api, set()) | ALSO_UNORDERED.get(api, set()):
            found.sort(key=_place)
        return found
    if isinstance(value, bytes):
        return _batches(value, names) if field == "records" else value.hex()
    if isinstance(value, str):
        if field == "topicId":
            return names.get(value, "<topic>")
        return names.get(value) or MEMBER.sub(r"\1-<?>", value)
    return names.get(value, value) if field == "producerId" else value


def _place(value):
    if not isinstance(value, dict):
        return [str(value)]
    return [*(str(value.get(name)) for name in NAMES), json.dumps(value, sort_keys=True)]


def _batches(data, names):
    """Return the batches of a Fetch, with the producer's name and without times of markers."""
    found = []
    while len(data) >= HEAD.size:
        base, length, epoch, magic, _, bits, last, first_ms, max_ms, producer, *rest = (
            HEAD.unpack_from(data)
        )
        body = data[HEAD.size : 12 + length].hex()
        if bits & CONTROL:
            first_ms = max_ms = 0
            body = ""
        producer = names.get(producer, producer)
        head = [base, epoch, magic, bits, last, first_ms, max_ms, producer, *rest]
        found.append([*head, body])
        data = data[12 + length :]
    return [*found, data.hex()]


def unequal(one, other, place=""):
    """Yield where two values differ: place, value, value."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one:
            yield from unequal(one[name], other.get(name), f"{place}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for pair in zip(one, other, strict=True):
            yield from unequal(*pair, f"{place}[]")
    elif one != other:
        yield place, one, other


def until(question, seconds=60):
    """Ask until it is so."""
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


def make_ready(side):
    """Have the broker make its internal topics, and load them."""
    for number in range(12):
        name = f"ready{number}"
        begin = {"transactionalId": name, "transactionTimeoutMs": 60000}
        for api, body in (
            ("FindCoordinator", {"key": name, "keyType": 0}),
            ("FindCoordinator", {"key": name, "keyType": 1}),
            ("Heartbeat", {"groupId": name, "generationId": 1, "memberId": "m"}),
            ("InitProducerId", begin),
        ):
            until(lambda api=api, body=body: side.ask("main", api, 1, body)["errorCode"] in READY)


def make_topics(side, names):
    topics = [{"name": each, "numPartitions": 2, "replicationFactor": 1} for each in names]
    side.ask("main", "CreateTopics", 5, {"topics": topics, "timeoutMs": 5000})
    partitions = [{"partitionIndex": number, "timestamp": -1} for number in (0, 1)]
    fields = {"topics": [{"name": each, "partitions": partitions} for each in names]}
    fields["replicaId"] = -1
    until(lambda: not any(
        each["errorCode"]
        for topic in side.ask("main", "ListOffsets", 1, fields)["topics"]
        for each in topic["partitions"]
    ))  # fmt: skip
