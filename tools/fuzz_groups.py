"""Groups of both protocols, drawn by a number: conversions, transactions, held and failed writes.

Clients follow their answers, as real ones do, and sometimes ask wrongly. Whatever they do, each
request is answered. Without classic clients the slow model of the tests answers the same.
"""

import base64
import contextlib
import hashlib
import json
import random
import sys
from pathlib import Path

from coterie import Error, GroupCoordinator, run_trace
from coterie.testing import subscription

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

TOPICS, GROUPS, REGEXES = ("t", "u", "v"), ("g", "h"), ("t|u", "[uv]", ".*")
BEHAVIOURS = ("4.1", "4.1", "4.1.2", "4.2", "4.3", "4.3.1", "4.4", "4.4")
FAILURES = ("NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "MESSAGE_TOO_LARGE")


def topic(name, count):
    """Describe a topic as an event does."""
    raw = hashlib.sha256(name.encode()).digest()[:16]
    topic_id = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return {"topic": name, "topic_id": topic_id, "partitions": count}


class Client:
    """A member, by the last response to it."""

    def __init__(self, rng, number):
        self.rng, self.name, self.group = rng, f"m{number}", rng.choice(GROUPS)
        self.instance = rng.choice([None, None, "i", "j"])
        self.classic = None
        self.forget()

    def forget(self):
        """Begin anew."""
        self.assignment = None
        self.member_id, self.epoch = ("" if self.classic else self.name), 0

    def consumer_request(self):
        """Join, keep alive, acknowledge or leave."""
        request = {"op": "consumer_group_heartbeat", "group_id": self.group,
                   "member_id": self.member_id or self.name, "instance_id": self.instance,
                   "member_epoch": self.epoch}  # fmt: skip
        if self.rng.random() < 0.1:
            request["member_epoch"] = self.rng.choice([-1, -2, 0, self.epoch + 1])
        if request["member_epoch"] == 0:
            names = self.rng.sample(TOPICS, self.rng.randint(0, 2))
            request |= {"rebalance_timeout_ms": self.rng.choice([5000, 60000]),
                        "topic_partitions": [], "subscribed_topic_names": names}  # fmt: skip
            if self.rng.random() < 0.3:
                request |= {"subscribed_topic_regex": self.rng.choice(REGEXES)}
            request["server_assignor"] = self.rng.choice([None, "uniform", "range"])
        elif self.assignment is not None and self.rng.random() < 0.7:
            request["topic_partitions"] = self.assignment
        return request

    def classic_request(self):
        """Join, sync, keep alive or leave."""
        request = {"group_id": self.group, "member_id": self.member_id,
                   "group_instance_id": self.instance}  # fmt: skip
        ask = self.rng.choice(["join", "sync", "sync", "beat", "beat", "leave"])
        if not self.member_id or not self.epoch or ask == "join":
            names = self.rng.sample(["range", "roundrobin"], self.rng.randint(1, 2))
            metadata = subscription(self.rng.sample(TOPICS, 2))
            return request | {
                "op": "join_group", "protocol_type": "consumer", "client_id": self.name,
                "client_host": "/127.0.0.1",
                "session_timeout_ms": 10000, "rebalance_timeout_ms": 20000,
                "require_known_member_id": self.instance is None,
                "protocols": [{"name": name, "metadata": base64.b64encode(metadata).decode()}
                              for name in names],
            }  # fmt: skip
        if ask == "leave":
            return {"op": "leave_group", "group_id": self.group, "members": [
                {"member_id": self.member_id, "group_instance_id": self.instance}]}  # fmt: skip
        op = "sync_group" if ask == "sync" else "heartbeat"
        return request | {"op": op, "generation_id": self.epoch}

    def take(self, answer):
        """Follow an answer."""
        error = answer.error
        if error is Error.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif error in (Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH, Error.FENCED_INSTANCE_ID,
                       Error.UNRELEASED_INSTANCE_ID, Error.GROUP_ID_NOT_FOUND):  # fmt: skip
            self.forget()
        elif error is Error.NONE:
            self.member_id = getattr(answer, "member_id", self.member_id)
            self.epoch = max(getattr(answer, "generation_id",
                                     getattr(answer, "member_epoch", self.epoch)), 0)  # fmt: skip
            rows = getattr(answer, "assignment", None)
            if rows is not None and not isinstance(rows, bytes):
                self.assignment = [{"topic_id": row.topic_id, "partitions": list(row.partitions)}
                                   for row in rows]  # fmt: skip


def response_of(answer):
    """Return the response of an answer; None: it is pending."""
    if not hasattr(answer, "done"):
        return answer
    return answer.response if answer.done else None


def other_event(rng, clients):
    """Draw an event of no member's life."""
    who = rng.choice(clients)
    named = topic(rng.choice(TOPICS), 0)
    offsets = [{"topic": named["topic"], "partition": rng.randrange(3), "offset": 1}]
    if rng.random() < 0.7:
        offsets[0]["topic_id"] = named["topic_id"]
    epoch = max(who.epoch - rng.choice([0, 0, 1, 2]), -1)
    member = {"group_id": who.group, "member_id": who.member_id, "generation_id": epoch,
              "offsets": offsets}  # fmt: skip
    producer = {"producer_id": rng.randint(1, 2), "producer_epoch": 0}
    txn_version = {"version": rng.choice([5, 6])}
    settings = {"consumer.assignment.interval.ms": rng.choice([0, 5000, 20000]),
                "consumer.session.timeout.ms": rng.choice([45000, 90000])}  # fmt: skip
    return rng.choice([
        {"op": "offset_commit", **member},
        {"op": "txn_offset_commit", **member, **producer, **txn_version},
        {"op": "end_txn", **producer, "committed": rng.random() < 0.5},
        {"op": "offset_fetch", "group_id": who.group, "require_stable": rng.random() < 0.5},
        {"op": "offset_commit", "group_id": "s", "offsets": offsets},
        {"op": "delete_groups", "group_ids": rng.sample([*GROUPS, "s"], 2)},
        {"op": "delete_partitions", "partitions": [{"topic": "t", "partition": 0}]},
        {"op": "consumer_group_describe", "group_ids": [*GROUPS]}, {"op": "list_groups"},
        {"op": "hold_commits"}, {"op": "release_commits"}, {"op": "failover"}, {"op": "cleanup"},
        {"op": "fail_append", "error": rng.choice(FAILURES), "count": 1},
        {"op": "metadata", "topics": [topic(rng.choice(TOPICS), rng.randint(1, 6))]},
        {"op": "metadata", "delete_topics": [rng.choice(TOPICS)]},
        {"op": "group_config", "group_id": who.group, "config": settings},
        {"op": "metadata", "brokers": [{"id": 0, "rack": rng.choice("rs")}]},
    ])  # fmt: skip


def drawn_trace(rng, classic):
    """Draw a trace of some clients: each event is handled before the next one is drawn."""
    config = {"coterie.behaviour": rng.choice(BEHAVIOURS),
              "group.consumer.assignment.interval.ms": rng.choice([0, 1000, 5000]),
              "group.consumer.migration.policy": rng.choice(["bidirectional"] * 4 + ["disabled"]),
              "offsets.topic.num.partitions": 1, "group.max.size": rng.choice([2, 100]),
              "offsets.retention.minutes": rng.choice([1, 10080])}  # fmt: skip
    lines = [{"format": "coterie-trace", "version": 2, "name": "fuzz", "config": config,
              "topics": [topic("t", 4), topic("u", 3)]}]  # fmt: skip
    coordinator = GroupCoordinator(config)
    coordinator.handle({"op": "metadata", "topics": lines[0]["topics"]})
    clients, in_flight, at = [Client(rng, number) for number in range(4)], {}, 0
    for number in range(rng.randint(20, 150)):
        at += rng.choice([0, 0, 1, 500, 3000, 3000, 20000])
        who = rng.choice(clients)
        if rng.random() < 0.3:
            event, who = other_event(rng, clients), None
        elif who in in_flight and response_of(in_flight[who]) is None and rng.random() < 0.8:
            continue
        else:
            if classic and who.classic in (None, rng.random() < 0.1):
                who.classic = rng.random() < 0.5
                who.forget()
            event = who.classic_request() if who.classic else who.consumer_request()
        coordinator.advance(at)
        for each, pending in list(in_flight.items()):
            if response_of(pending) is not None:
                each.take(response_of(in_flight.pop(each)))
        lines.append({"at": at, "id": number, **event})
        answer = coordinator.handle({"at": at, **event})
        if who is not None:
            in_flight[who] = answer
    lines.append({"at": at + 100_000, "op": "advance"})
    return lines


def one_trace(number):
    """Draw the trace of a number and play it again."""
    rng = random.Random(number)
    classic = rng.random() < 0.7
    lines = [json.dumps(line) for line in drawn_trace(rng, classic)]
    played = list(run_trace(lines))
    if classic:
        return
    with contextlib.suppress(ImportError):  # the model needs re2 and xxhash
        from support.consumer_groups import coordinator, golden

        known = [line for line in played if line["event"] != "transition"]
        assert golden.by_kind(known) == golden.by_kind(coordinator.run(lines)), "the model differs"
