"""A slow coordinator of consumer groups, written from the rules alone: ``run(lines) -> lines``.

Every write copies the whole state first and puts it back if the append fails. Classic groups are
there only as far as their offsets go.
"""

from __future__ import annotations

import base64
import copy
import heapq
from dataclasses import dataclass, field

from .groups import (
    Group,
)  # fmt: skip
from .image import Image, group_hash
from .records import utf16
from .replay import Broken

MAX_INT = 2147483647
DEFAULTS = {
    "group.consumer.session.timeout.ms": 45000,
    "group.consumer.min.session.timeout.ms": 45000,
    "group.consumer.max.session.timeout.ms": 60000,
    "group.consumer.heartbeat.interval.ms": 5000,
    "group.consumer.min.heartbeat.interval.ms": 5000,
    "group.consumer.max.heartbeat.interval.ms": 15000,
    "group.consumer.assignment.interval.ms": 1000,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.max.assignment.interval.ms": 15000,
    "group.consumer.max.size": MAX_INT,
    "group.consumer.assignors": "uniform,range",
    "group.consumer.regex.refresh.interval.ms": 600000,
    "offset.metadata.max.bytes": 4096,
    "offsets.retention.minutes": 10080,
    "offsets.retention.check.interval.ms": 600000,
    "offsets.commit.timeout.ms": 5000,
}
AS_ANSWERED = {
    "UNKNOWN_TOPIC_OR_PARTITION": "COORDINATOR_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS": "COORDINATOR_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT": "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER": "NOT_COORDINATOR",
    "KAFKA_STORAGE_ERROR": "NOT_COORDINATOR",
    "MESSAGE_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    "RECORD_LIST_TOO_LARGE": "UNKNOWN_SERVER_ERROR",
    "INVALID_FETCH_SIZE": "UNKNOWN_SERVER_ERROR",
    "NETWORK_EXCEPTION": "COORDINATOR_LOAD_IN_PROGRESS",
}


class Refused(Exception):
    """A request's error."""


@dataclass
class State:
    """What replaying records makes."""

    release: tuple  # of Kafka, by whose rules they are replayed
    groups: dict = field(default_factory=dict)
    offsets: dict = field(default_factory=dict)  # group -> (topic, partition) -> Offset
    pending: dict = field(default_factory=dict)  # producer -> group -> key -> Offset


@dataclass(frozen=True)
class Record:
    """A record as an object: the bytes, and what to do with it."""

    group_id: str
    key: bytes
    value: bytes | None
    apply: object  # function(state)
    offset_of: tuple | None = None  # the topic and partition of a committed offset


class Model:
    def __init__(self, header):
        self.config = {**DEFAULTS, **header.get("config", {})}
        self.release = tuple(map(int, self.config.get("coterie.behaviour", "4.1").split(".")))
        self.image = Image()
        self.image.add(header)
        self.state = self.last = self.committed = State(self.release)  # newest, written, read
        self.held = None  # what waits for a commit, while commits are held
        self.uncommitted = False  # something was written since
        self.now, self.lines, self.timers, self.armed, self.turn = 0, [], [], {}, 0
        self.deadlines, self.hashes, self.group_config = {}, {}, {}
        self.log, self.ids, self.failures, self.twice = [], 0, [], (0, {})
        self.tasks, self.resolving = [], set()
        self.failed_load, self.shapes = False, {}
        self.arm_cleanup()

    # ---- time ------------------------------------------------------------------------------------
    def arm(self, name, delay_ms, action):
        self.turn += 1
        self.armed[name] = self.turn
        heapq.heappush(self.timers, (self.now + max(delay_ms, 0), self.turn, name, action))

    def cancel(self, *name):
        self.armed.pop(name, None)

    def advance(self, at):
        while self.timers and self.timers[0][0] <= at:
            deadline, turn, name, action = heapq.heappop(self.timers)
            if self.armed.get(name) == turn:
                del self.armed[name]
                self.now = max(self.now, deadline)
                action()
                self.show_groups()
        self.now = at

    def arm_cleanup(self):
        if self.config.get("coterie.cleanup") == "periodic":
            interval = int(self.config["offsets.retention.check.interval.ms"])
            self.arm(("cleanup",), interval, self.clean_up_in_time)

    def clean_up_in_time(self):
        self.on_cleanup()
        self.wait(lambda error: self.arm_cleanup() if error == "REQUEST_TIMED_OUT" else None)

    # ---- writes ----------------------------------------------------------------------------------
    def line(self, **fields):
        self.lines.append({"at": self.now, **fields})

    def write(self, made):
        """Append records and replay them; the error, NONE if they are written."""
        if not made:
            return "NONE"
        before = {name: self.shape(name) for name in dict.fromkeys(r.group_id for r in made)}
        after = copy.deepcopy(self.state)
        for record in made:  # what is forgotten stays so, whatever comes of the write
            read = self.read_topics(after)
            try:
                record.apply(after)
            except Broken:
                self.state = self.last
                return "UNKNOWN_SERVER_ERROR"
            for name in read - self.read_topics(after):
                self.hashes.pop(name, None)
        if self.failures:
            error = self.failures.pop()
            if error != "NONE":
                self.state = self.last
                self.list_twice(made)
                return error
        self.written(after)
        for record in made:
            self.log.append(record)
            self.line(event="append", group_id=record.group_id, key=record.key,
                      value=record.value)  # fmt: skip
        for name, was in before.items():
            self.shapes.setdefault(name, was)
        return "NONE"

    def list_twice(self, made):
        """List the offsets that a failed append would have changed twice until the next write.

        Kafka's tables of the newest and of the written state both have what is taken back; so with
        a topic whose last offset was removed.
        """
        if self.twice[0] != len(self.log):
            self.twice = (len(self.log), {})
        for record in made:
            there = self.state.offsets.get(record.group_id, {})
            if record.offset_of in there:
                found = self.twice[1].setdefault(record.group_id, set())
                found.add(record.offset_of)
                topic = record.offset_of[0]
                if record.value is None and found >= {at for at in there if at[0] == topic}:
                    found.add(topic)

    def listed(self, group_id, offsets):
        """The keys of all offsets, as a reader finds them."""
        found = self.twice[1].get(group_id, ()) if self.twice[0] == len(self.log) else ()
        return [at for at in sorted(offsets)
                for _ in range((1 + (at in found)) * (1 + (at[0] in found)))]  # fmt: skip

    def written(self, after):
        self.state = self.last = after
        self.uncommitted = self.held is not None
        if not self.uncommitted:
            self.committed = after

    def show_groups(self):
        """Tell of each group whose state, epochs or size is another than before."""
        for name in sorted(self.shapes, key=utf16):
            was, now = self.shapes[name], self.shape(name)
            if now != was and (was is not None or now is not None):
                self.line(event="group", group_id=name, **(now or {"type": self.kind(name)}))
        self.shapes = {}

    def shape(self, group_id):
        group = self.state.groups.get(group_id)
        if not isinstance(group, Group):
            return None
        return {"type": "consumer", "state": group.state(), "group_epoch": group.epoch,
                "assignment_epoch": group.target_epoch,
                "members": len(group.members)}  # fmt: skip

    def kind(self, group_id):
        return "classic" if group_id in self.state.groups else "none"

    def answer(self, event, wrote, response, on_error):
        """Respond once what was written so far is committed."""

        def done(error):
            fields = response if error == "NONE" else on_error(AS_ANSWERED.get(error, error))
            self.line(event="response", id=event["id"], op=event["op"], **fields)

        self.wait(done)

    def wait(self, done):
        """Let it go on once all is committed; its argument is the error, or NONE."""
        if not self.uncommitted:
            return done("NONE")
        waiting = (("commit", self.turn + 1), done)
        self.held.append(waiting)

        def late():
            self.held.remove(waiting)
            done("REQUEST_TIMED_OUT")

        return self.arm(waiting[0], int(self.config["offsets.commit.timeout.ms"]), late)

    # ---- entry -----------------------------------------------------------------------------------
    def event(self, event):
        self.advance(event["at"])
        getattr(self, "on_" + event["op"])(event)
        while self.tasks and self.config.get("coterie.tasks") != "manual":
            self.tasks.pop(0)()
        self.show_groups()

    def on_advance(self, event):
        pass

    def on_hold_commits(self, event):
        self.held = [] if self.held is None else self.held

    def on_release_commits(self, event):
        waiting, self.held, self.committed = self.held or [], None, self.last
        self.uncommitted = False
        for name, done in waiting:
            self.cancel(*name)
            done("NONE")

    def on_fail_append(self, event):
        self.failures = [event["error"]] * event["count"]

    def on_run_tasks(self, event):
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            task()

    def on_group_config(self, event):
        own = {name: int(value) for name, value in (event.get("config") or {}).items()}
        if self.release >= (4, 3):
            for name, value in own.items():
                kind = name.removeprefix("consumer.")
                least, most = (int(self.config[f"group.consumer.{end}.{kind}"])
                               for end in ("min", "max"))  # fmt: skip
                own[name] = min(max(value, least), most)
        self.group_config[event["group_id"]] = own

    def on_append_raw(self, event):
        value = event.get("value")
        self.log.append(Record(None, base64.b64decode(event["key"]),
                               None if value is None else base64.b64decode(value),
                               None))  # fmt: skip

    def setting(self, group_id, name):
        own = self.group_config.get(group_id, {}).get(f"consumer.{name}")
        return int(own if own is not None else self.config[f"group.consumer.{name}"])

    def on_metadata(self, event):
        changed = self.image.add(event)
        self.image.version += 1
        if self.image.new_topics:
            self.image.last_with_new_topics = self.image.version
        for name in changed:
            self.hashes.pop(name, None)
        for group in self.consumer_groups():
            if group.subscribed() & changed:
                self.deadlines[group.id] = (0, 0)

    def consumer_groups(self):
        groups = [g for g in self.state.groups.values() if isinstance(g, Group)]
        return sorted(groups, key=lambda group: utf16(group.id))

    def hash_over(self, names):
        hashes = {}
        for name in names:
            if name in self.image.topics:
                if name not in self.hashes:
                    self.hashes[name] = self.image.hash_of(name)
                hashes[name] = self.hashes[name]
        return group_hash(hashes)

    def read_topics(self, state):
        groups = [group for group in state.groups.values() if isinstance(group, Group)]
        return set().union(*(group.subscribed() for group in groups))
