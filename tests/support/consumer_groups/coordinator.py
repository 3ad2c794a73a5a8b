"""Offsets, administration and load of the slow model; ``run`` plays a whole trace."""

from __future__ import annotations

import base64
import copy
import json

from . import records
from .groups import Group, Offset, SimpleGroup, joined
from .heartbeat import Heartbeats
from .image import decode_id, encode_id, id_order
from .model import AS_ANSWERED, Record, Refused, State
from .parse import replay_bytes
from .records import (
    CLASSIC,
    EPOCH,
    OFFSET,
    PARTITION_METADATA,
    TARGET_EPOCH,
    key,
    utf16,
)
from .replay import Broken, replay_epoch, replay_target_epoch


class Coordinator(Heartbeats):
    # ---- offsets ---------------------------------------------------------------------------------
    def offset_record(self, group_id, at, offset, producer=None):
        def apply(state):
            if offset is None:
                state.offsets.get(group_id, {}).pop(at, None)
                for groups in state.pending.values():
                    groups.get(group_id, {}).pop(at, None)
                return
            state.groups.setdefault(group_id, SimpleGroup(group_id))
            if producer is None:
                state.offsets.setdefault(group_id, {})[at] = offset
            else:
                state.pending.setdefault(producer, {}).setdefault(group_id, {})[at] = offset

        value = None if offset is None else records.offset_value(offset)
        return Record(group_id, key(OFFSET, group_id, *at), value, apply,
                      at if producer is None else None)  # fmt: skip

    def commit(self, event, check, producer=None):
        rows = event.get("offsets") or []
        with_ids = producer is None or self.release >= (4, 4)

        def answer(row, error):
            named = {"topic_id": row.get("topic_id")} if with_ids else {}
            return {"topic": row["topic"], "partition": row["partition"], "error": error, **named}

        def answered(error):
            return {"error": "NONE", "partitions": [answer(row, error) for row in rows]}

        try:
            if self.failed_load:
                raise Refused("NOT_COORDINATOR")
            if event.get("group_id") is None:
                raise Refused("INVALID_GROUP_ID")
            check(event)
        except Refused as error:
            return self.line(event="response", id=event["id"], op=event["op"],
                             **answered(error.args[0]))  # fmt: skip
        retention = event.get("retention_time_ms", -1)
        made, answers = [], []
        if event["group_id"] not in self.state.groups:
            # It stays if nothing is written, and readers see it after the next write.
            self.state = copy.deepcopy(self.state)
            self.state.groups[event["group_id"]] = SimpleGroup(event["group_id"])
        for row in rows:
            error = "NONE"
            if self.is_too_large(row):
                error = "OFFSET_METADATA_TOO_LARGE"
            else:
                offset = Offset(row["offset"], -1 if row.get("leader_epoch") is None
                                else row["leader_epoch"], row.get("metadata") or "", self.now,
                                self.now + retention if retention != -1 else -1,
                                len(self.log) + len(made),
                                id_of(row) if with_ids else None)  # fmt: skip
                made.append(self.offset_record(event["group_id"],
                                               (row["topic"], row["partition"]), offset,
                                               producer))  # fmt: skip
            answers.append(answer(row, error))
        error = self.write(made)
        if error != "NONE":
            error = AS_ANSWERED.get(error, error)
            response = {"error": "NONE", "partitions": [
                {**a, "error": error} if a["error"] == "NONE" else a for a in answers]}  # fmt: skip
            return self.line(event="response", id=event["id"], op=event["op"], **response)
        return self.answer(event, made, {"error": "NONE", "partitions": answers}, answered)

    def is_too_large(self, row):
        length = len((row.get("metadata") or "").encode("utf-16-le")) // 2
        return length > int(self.config["offset.metadata.max.bytes"])

    def on_offset_commit(self, event):
        self.commit(event, self.check_commit)

    def check_commit(self, event):
        epoch, member_id = event.get("generation_id", -1), event.get("member_id") or ""
        version = event.get("version", 9)
        group = self.state.groups.get(event["group_id"])
        if group is None:
            if epoch < 0:
                return
            raise Refused("GROUP_ID_NOT_FOUND" if version >= 9 else "ILLEGAL_GENERATION")
        if isinstance(group, SimpleGroup):
            self.check_simple(event, epoch, member_id)
            return
        self.check_member(group, epoch, member_id, version, lambda member: all(
            was_assigned(member, id_of(row), row["partition"], epoch)
            for row in event.get("offsets") or () if not self.is_too_large(row)))  # fmt: skip

    def check_simple(self, event, epoch, member_id):
        """A simple group is Empty: whoever names no generation may commit."""
        if epoch < 0:
            return
        raise Refused("UNKNOWN_MEMBER_ID")

    def check_member(self, group, epoch, member_id, version, had_all):
        if epoch < 0 and not group.members:
            return
        member = group.members.get(member_id)
        if member is None:
            raise Refused("UNKNOWN_MEMBER_ID")
        if version < 9:
            raise Refused("UNSUPPORTED_VERSION")
        if epoch > member.epoch or (
            epoch < member.epoch and (self.release < (4, 3) or not had_all(member))
        ):
            raise Refused("STALE_MEMBER_EPOCH")

    def on_txn_offset_commit(self, event):
        producer = event["producer_id"]
        self.commit(event, self.check_txn_commit, producer)

    def check_txn_commit(self, event):
        epoch, member_id = event.get("generation_id", -1), event.get("member_id") or ""
        new_errors = self.release >= (4, 4) and event.get("version", 4) >= 6
        group = self.state.groups.get(event["group_id"])
        if group is None:
            if epoch >= 0:
                raise Refused("GROUP_ID_NOT_FOUND" if new_errors else "ILLEGAL_GENERATION")
            return
        if not member_id and epoch == -1 and event.get("group_instance_id") is None:
            return
        if isinstance(group, SimpleGroup):
            self.check_simple(event, epoch, member_id)
            return

        def id_known(row):
            topic = self.image.topics.get(row["topic"])
            return id_of(row) if self.release >= (4, 4) else topic and topic.id

        try:
            self.check_member(group, epoch, member_id, 9, lambda member: all(
                was_assigned(member, id_known(row), row["partition"], epoch)
                for row in event.get("offsets") or () if not self.is_too_large(row)))  # fmt: skip
        except Refused as error:
            if error.args[0] == "STALE_MEMBER_EPOCH" and not new_errors:
                raise Refused("ILLEGAL_GENERATION") from None
            raise

    def on_end_txn(self, event):
        """A marker is a write."""
        if self.failures and self.failures.pop() != "NONE":
            self.state = self.last
            return
        after = copy.deepcopy(self.state)
        self.end_txn(after, event["producer_id"], event.get("committed", False))
        self.written(after)
        self.log.append(("marker", event["producer_id"], event.get("committed", False)))

    def end_txn(self, state, producer, committed):
        for group_id, offsets in state.pending.pop(producer, {}).items():
            for at, offset in offsets.items():
                had = state.offsets.setdefault(group_id, {}).get(at)
                if committed and (had is None or had.position < offset.position):
                    state.offsets[group_id][at] = offset

    def has_pending(self, state, group_id, at):
        return any(at in groups.get(group_id, {}) for groups in state.pending.values())

    def on_offset_fetch(self, event):
        stable = event.get("require_stable", False)

        def respond(**fields):
            if stable:  # a write, whose errors are handled
                fields.setdefault("partitions", [])
            self.line(event="response", id=event["id"], op=event["op"], **fields)

        if self.failed_load:
            return respond(error="NOT_COORDINATOR")
        state = self.state if stable else self.committed
        group = state.groups.get(event["group_id"])
        member_id, epoch = event.get("member_id"), event.get("member_epoch", -1)
        if isinstance(group, Group) and not (member_id is None and epoch < 0):
            if member_id is None:
                return respond(error="UNKNOWN_SERVER_ERROR")
            member = group.members.get(member_id)
            if member is None:
                return respond(error="UNKNOWN_MEMBER_ID")
            if member.epoch != epoch:
                return respond(error="STALE_MEMBER_EPOCH")
        offsets = state.offsets.get(event["group_id"], {}) if group is not None else {}
        topics = event.get("topics")
        if topics is None:
            wanted = self.listed(event["group_id"], offsets)
        else:
            wanted = [(t["topic"], p) for t in topics for p in t["partitions"]]
        rows = []
        for at in wanted:
            offset = offsets.get(at)
            row = {"topic": at[0], "partition": at[1], "offset": -1, "leader_epoch": -1,
                   "metadata": "", "error": "NONE"}  # fmt: skip
            if stable and self.has_pending(state, event["group_id"], at):
                row["error"] = "UNSTABLE_OFFSET_COMMIT"
            elif offset is not None:
                row |= {"offset": offset.offset, "leader_epoch": offset.leader_epoch,
                        "metadata": offset.metadata}  # fmt: skip
            rows.append(row)
        if stable:
            return self.answer(event, [], {"error": "NONE", "partitions": rows},
                               lambda error: {"error": "NOT_COORDINATOR",
                                              "partitions": []})  # fmt: skip
        return respond(error="NONE", partitions=rows)

    def on_offset_delete(self, event):
        group = self.state.groups.get(event["group_id"])
        if group is None:
            return self.line(event="response", id=event["id"], op=event["op"],
                             error="GROUP_ID_NOT_FOUND", partitions=[])  # fmt: skip
        read = group.subscribed() if isinstance(group, Group) else set()
        rows, made = [], []
        for row in event.get("partitions") or ():
            at = (row["topic"], row["partition"])
            error = "GROUP_SUBSCRIBED_TO_TOPIC" if at[0] in read else "NONE"
            if error == "NONE" and (
                at in self.state.offsets.get(group.id, {})
                or self.has_pending(self.state, group.id, at)
            ):
                made.append(self.offset_record(group.id, at, None))
            rows.append({"topic": at[0], "partition": at[1], "error": error})
        error = self.write(made)
        if error != "NONE":
            return self.line(event="response", id=event["id"], op=event["op"],
                             error=AS_ANSWERED.get(error, error), partitions=[])  # fmt: skip
        return self.answer(event, made, {"error": "NONE", "partitions": rows},
                           lambda error: {"error": error, "partitions": []})  # fmt: skip

    def offsets_of(self, group_id):
        """The committed ones, then the pending ones; a key may come twice."""
        committed = self.state.offsets.get(group_id, {})
        pending = [at for groups in self.state.pending.values() for at in groups.get(group_id, {})]
        return [at for part in (committed, pending)
                for at in sorted(part, key=lambda k: (utf16(k[0]), k[1]))]  # fmt: skip

    def on_metadata(self, event):
        super().on_metadata(event)
        if self.release < (4, 3):
            return
        ids, made = {topic.name: topic.id for topic in self.image.gone}, []
        pending = [offsets for _, offsets in sorted(self.state.pending.items())]
        for part in (self.state.offsets, *pending):
            for group_id in sorted(part, key=utf16):
                gone = [at for at, offset in part[group_id].items()
                        if at[0] in ids and offset.topic_id in (None, ids[at[0]])]  # fmt: skip
                gone.sort(key=lambda at: (id_order(ids[at[0]]), at[1]))
                made += [self.offset_record(group_id, at, None) for at in gone]
        self.write(made)

    def on_delete_partitions(self, event):
        if self.release >= (4, 3):
            return
        gone = {(row["topic"], row["partition"]) for row in event.get("partitions") or ()}
        made = []
        for group_id in sorted({*self.state.groups}, key=utf16):
            made += [
                self.offset_record(group_id, at, None)
                for at in self.offsets_of(group_id)
                if at in gone
            ]
        self.write(made)

    # ---- deletion --------------------------------------------------------------------------------
    def classic_gone(self, group):
        return Record(group.id, key(CLASSIC, group.id), None,
                      lambda state: state.groups.pop(group.id, None))  # fmt: skip

    def group_gone(self, group):
        if isinstance(group, SimpleGroup):
            return [self.classic_gone(group)]
        names = sorted({*group.members}, key=utf16)
        made = [self.current_gone(group, name) for name in names]
        made += [self.target_gone(group, name) for name in sorted({*group.target}, key=utf16)]
        made.append(Record(group.id, key(TARGET_EPOCH, group.id), None,
                           replay_target_epoch(group.id, None)))  # fmt: skip
        made += [self.member_gone(group, name) for name in names]
        made += [self.regex_record(group, regex, None)
                 for regex in sorted(group.resolved, key=utf16)]  # fmt: skip
        made.append(Record(group.id, key(PARTITION_METADATA, group.id), None, lambda s: None))
        made.append(Record(group.id, key(EPOCH, group.id), None, replay_epoch(group.id, None)))
        return made

    def on_delete_groups(self, event):
        """A write for share groups comes first."""
        self.wait(lambda error: self.delete_groups(event) if error == "NONE" else self.line(
            event="response", id=event["id"], op=event["op"],
            **all_with(event, AS_ANSWERED.get(error, error))))  # fmt: skip

    def delete_groups(self, event):
        rows, made, done = {}, [], []
        for group_id in event.get("group_ids") or ():
            group = self.state.groups.get(group_id)
            if group is None:
                rows[group_id] = "GROUP_ID_NOT_FOUND"
            elif isinstance(group, Group) and group.members:
                rows[group_id] = "NON_EMPTY_GROUP"
            else:
                rows[group_id] = "NONE"
                done.append(group_id)
        for group_id in sorted(dict.fromkeys(done), key=utf16):
            made += [
                self.offset_record(group_id, at, None)
                for at in dict.fromkeys(self.offsets_of(group_id))
            ]
            made += self.group_gone(self.state.groups[group_id])
        error = self.write(made)
        if error != "NONE":
            return self.line(event="response", id=event["id"], op=event["op"],
                             **all_with(event, AS_ANSWERED.get(error, error)))  # fmt: skip
        response = {"error": "NONE",
                    "groups": [{"group_id": g, "error": e} for g, e in rows.items()]}  # fmt: skip
        return self.answer(event, made, response, lambda error: all_with(event, error))

    def on_cleanup(self, event=None):
        retention = int(self.config["offsets.retention.minutes"]) * 60000
        made = []
        for group_id in sorted(self.state.groups, key=utf16):
            group = self.state.groups[group_id]
            read = group.subscribed() if isinstance(group, Group) else set()
            left = False
            for at in dict.fromkeys(self.offsets_of(group_id)):
                offset = self.state.offsets.get(group_id, {}).get(at)
                if offset is None or at[0] in read or (self.has_pending(self.state, group_id, at)):
                    left = True
                    continue
                if offset.expires_ms != -1:
                    over = self.now >= offset.expires_ms
                else:
                    over = self.now - offset.committed_ms >= retention
                if over:
                    made.append(self.offset_record(group_id, at, None))
                else:
                    left = True
            waits = any(groups.get(group_id) for groups in self.state.pending.values())
            empty = isinstance(group, SimpleGroup) or not group.members
            if not left and not waits and empty:
                made += self.group_gone(group)
        self.write(made)
        self.arm_cleanup()

    # ---- reading ---------------------------------------------------------------------------------
    def on_list_groups(self, event):
        if self.failed_load:
            return self.line(event="response", id=event["id"], op=event["op"],
                             error="NONE", groups=[])  # fmt: skip
        states = {s.lower() for s in event.get("states") or ()}
        types = {t.lower() for t in event.get("types") or ()}
        rows = []
        for group_id, group in sorted(self.committed.groups.items(), key=lambda g: utf16(g[0])):
            row = {"group_id": group_id, "protocol_type": "", "state": "Empty", "type": "classic"}
            if isinstance(group, Group):
                row |= {"protocol_type": "consumer", "state": group.state(), "type": "consumer"}
            if (not states or row["state"].lower() in states) and (
                not types or row["type"] in types
            ):
                rows.append(row)
        return self.line(event="response", id=event["id"], op=event["op"], error="NONE",
                         groups=rows)  # fmt: skip

    def on_describe_group(self, event):
        group_id, version = event.get("group_id"), event.get("version", 5)
        group = self.committed.groups.get(group_id)
        row = {"error": "NONE", "state": "Dead", "protocol_type": "", "protocol_name": "",
               "members": []}  # fmt: skip
        if isinstance(group, SimpleGroup):
            row["state"] = "Empty"
        elif version >= 6:
            row["error"] = "GROUP_ID_NOT_FOUND"
        self.line(event="response", id=event["id"], op=event["op"], **row)

    def on_consumer_group_describe(self, event):
        groups = []
        for group_id in event.get("group_ids") or ():
            group = self.committed.groups.get(group_id)
            error = "NONE"
            if self.failed_load:
                error = "NOT_COORDINATOR"
            elif not group_id:
                error = "INVALID_GROUP_ID"
            elif not isinstance(group, Group):
                error = "GROUP_ID_NOT_FOUND"
            row = {"group_id": group_id, "error": error, "state": "", "group_epoch": 0,
                   "assignment_epoch": 0, "assignor_name": "", "members": []}  # fmt: skip
            if error == "NONE":
                row |= {
                    "state": group.state(), "group_epoch": group.epoch,
                    "assignment_epoch": group.target_epoch,
                    "assignor_name": self.assignor_of(group.members),
                    "members": [self.described(group, m) for m in group.sorted_members()],
                }  # fmt: skip
            groups.append(row)
        self.line(event="response", id=event["id"], op=event["op"], error="NONE", groups=groups)

    def described(self, group, member):
        def named(assignment):
            rows = []
            for topic_id in sorted(assignment, key=id_order):
                topic = self.image.by_id(topic_id)
                if topic is not None:
                    rows.append({"topic_id": encode_id(topic_id), "topic": topic.name,
                                 "partitions": sorted(assignment[topic_id])})  # fmt: skip
            return rows

        assigned = member.assigned
        if self.release >= (4, 3):
            assigned = joined(assigned, member.revoking)
        return {
            "member_id": member.id, "instance_id": member.instance_id, "rack_id": member.rack_id,
            "member_epoch": member.epoch, "client_id": member.client_id,
            "client_host": member.client_host,
            "subscribed_topic_names": sorted(member.names, key=utf16),
            "subscribed_topic_regex": member.regex, "member_type": 1,
            "assignment": named(assigned),
            "target_assignment": named(group.target.get(member.id, {})),
        }  # fmt: skip

    # ---- load ------------------------------------------------------------------------------------
    def on_failover(self, event):
        for _, done in self.held or ():
            done("NOT_COORDINATOR")
        self.held = None if self.held is None else []
        self.uncommitted = False
        self.timers, self.armed, self.tasks, self.resolving = [], {}, [], set()
        self.deadlines, self.hashes = {}, {}
        self.image.last_with_new_topics = self.image.version
        self.state = State(self.release)
        self.failed_load = False
        try:
            for position, each in enumerate(self.log):
                if isinstance(each, tuple):
                    self.end_txn(self.state, each[1], each[2])
                elif each.apply is None:
                    replay_bytes(self.state, each, position)
                else:
                    each.apply(self.state)
        except Broken as error:
            self.failed_load = True
            self.line(event="note", text=str(error))
        self.committed = self.last = self.state
        for group in self.consumer_groups():
            self.line(event="group", group_id=group.id, **self.shape(group.id))
            for member in group.sorted_members():
                self.arm_session(group.id, member.id, self.setting(group.id, "session.timeout.ms"))
                if member.state == 1:
                    self.arm_rebalance(group.id, member)
        self.arm_cleanup()


def id_of(row):
    """The topic id of an offset in a request; None: it has none, or zero."""
    topic_id = decode_id(row["topic_id"]) if row.get("topic_id") else None
    return topic_id if topic_id and any(topic_id) else None


def was_assigned(member, topic_id, partition, epoch):
    """Whether a member has had a partition since an epoch."""
    parts = (member.assigned, member.revoking)
    epochs = [part[topic_id][partition] for part in parts if partition in part.get(topic_id, ())]
    return bool(epochs) and epochs[0] <= epoch


def all_with(event, error):
    """The answer to a DeleteGroups that fails as a whole."""
    names = dict.fromkeys(event.get("group_ids") or ())
    return {"error": "NONE", "groups": [{"group_id": name, "error": error} for name in names]}


def run(lines, config=None):
    """Play a trace. ``config``: settings in the place of those in its header."""
    header, *events = [json.loads(line) for line in lines]
    header["config"] = header.get("config", {}) | (config or {})
    model = Coordinator(header)
    for event in events:
        model.event(event)
    model.advance(model.now)
    for line in model.lines:
        if line["event"] == "append":
            line["key"] = base64.b64encode(line["key"]).decode()
            line["value"] = None if line["value"] is None else (
                base64.b64encode(line["value"]).decode())  # fmt: skip
        yield line
