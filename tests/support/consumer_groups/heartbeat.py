"""ConsumerGroupHeartbeat, timers, regular expressions and fencing of the slow model."""

from __future__ import annotations

from collections import Counter

import re2

from . import assignors, records
from .groups import STABLE, UNRELEASED, UNREVOKED, Group, Member, Resolved, SimpleGroup, joined
from .image import decode_id, encode_id, id_order
from .model import AS_ANSWERED, MAX_INT, Model, Record, Refused
from .records import CURRENT, EPOCH, MEMBER, PARTITION_METADATA, REGEX, TARGET, TARGET_EPOCH, utf16
from .records import key as key_of
from .replay import (
    replay_current,
    replay_epoch,
    replay_member,
    replay_regex,
    replay_target,
    replay_target_epoch,
)

REGEX_PAUSE_MS = 10000


def record(kind, group_id, fields, value, apply):
    return Record(group_id, key_of(kind, group_id, *fields), value, apply)


class Heartbeats(Model):
    # ---- records ---------------------------------------------------------------------------------
    def member_record(self, group, member):
        return record(MEMBER, group.id, (member.id,), records.member_value(member),
                      replay_member(group.id, member.id, member))  # fmt: skip

    def member_gone(self, group, name):
        return record(MEMBER, group.id, (name,), None, replay_member(group.id, name, None))

    def current_record(self, group, member):
        value = records.current_value(member, with_epochs=self.release >= (4, 3))
        return record(CURRENT, group.id, (member.id,), value,
                      replay_current(group.id, member.id, member))  # fmt: skip

    def current_gone(self, group, name):
        return record(CURRENT, group.id, (name,), None, replay_current(group.id, name, None))

    def target_record(self, group, name, target):
        return record(TARGET, group.id, (name,), records.target_value(target),
                      replay_target(group.id, name, target))  # fmt: skip

    def target_gone(self, group, name):
        return record(TARGET, group.id, (name,), None, replay_target(group.id, name, None))

    def epoch_record(self, group, epoch, digest):
        return record(EPOCH, group.id, (), records.epoch_value(epoch, digest),
                      replay_epoch(group.id, (epoch, digest)))  # fmt: skip

    def target_epoch_record(self, group, epoch, at_ms):
        return record(TARGET_EPOCH, group.id, (), records.target_epoch_value(epoch, at_ms),
                      replay_target_epoch(group.id, epoch, at_ms))  # fmt: skip

    def regex_record(self, group, regex, resolved):
        value = None if resolved is None else records.regex_value(resolved)
        return record(REGEX, group.id, (regex,), value, replay_regex(group.id, regex, resolved))

    # ---- the request -----------------------------------------------------------------------------
    def on_consumer_group_heartbeat(self, event):
        def refusal(error):
            return {"error": error, "member_epoch": 0, "heartbeat_interval_ms": 0}

        try:
            if self.failed_load:
                raise Refused("NOT_COORDINATOR")
            self.check_request(event)
            made, response = self.heartbeat(event)
        except Refused as error:
            return self.line(event="response", id=event["id"], op=event["op"],
                             **refusal(error.args[0]))  # fmt: skip
        error = self.write(made)
        if error != "NONE":
            response = refusal(AS_ANSWERED.get(error, error))
            return self.line(event="response", id=event["id"], op=event["op"], **response)
        return self.answer(event, made, response, refusal)

    def check_request(self, r):
        epoch = r.get("member_epoch", 0)
        member_id, version = r.get("member_id") or "", r.get("version", 1)
        if not member_id and (version >= 1 or epoch > 0 or epoch == -1):
            raise Refused("INVALID_REQUEST")
        if not r.get("group_id"):
            raise Refused("INVALID_REQUEST")
        if r.get("instance_id") == "" or r.get("rack_id") == "":
            raise Refused("INVALID_REQUEST")
        names, regex = r.get("subscribed_topic_names"), r.get("subscribed_topic_regex")
        if epoch == 0 and (
            r.get("rebalance_timeout_ms", -1) == -1
            or r.get("topic_partitions") is None
            or r["topic_partitions"]
            or (names is None and regex is None)
        ):
            raise Refused("INVALID_REQUEST")
        if (epoch == -2 and r.get("instance_id") is None) or epoch < -2:
            raise Refused("INVALID_REQUEST")
        assignor = r.get("server_assignor")
        if assignor is not None and assignor not in self.assignors():
            raise Refused("UNSUPPORTED_ASSIGNOR")

    def assignors(self):
        given = self.config["group.consumer.assignors"]
        return [a.strip() for a in given.split(",")] if isinstance(given, str) else list(given)

    def heartbeat(self, r):
        epoch = r.get("member_epoch", 0)
        group = self.state.groups.get(r["group_id"])
        if epoch < 0:
            return self.leave(r, group, epoch)
        made = []
        if group is None or isinstance(group, SimpleGroup):
            if epoch != 0:
                raise Refused("GROUP_ID_NOT_FOUND")
            if isinstance(group, SimpleGroup):
                made.append(self.classic_gone(group))
            group = Group(r["group_id"], self.release)
        member_id = r.get("member_id") or ""
        known = member_id in group.members or (
            self.release >= (4, 4) and r.get("instance_id") in group.instances
        )
        if len(group.members) >= int(self.config["group.consumer.max.size"]) and not known:
            raise Refused("GROUP_MAX_SIZE_REACHED")
        if not member_id:
            member_id = self.new_uuid()
        owned = r.get("topic_partitions")
        if owned is not None:
            owned = {decode_id(t["topic_id"]): set(t["partitions"]) for t in owned}
        member, replaced = self.find_member(group, member_id, r.get("instance_id"), epoch, owned)
        if replaced is not None:
            made += [self.current_gone(group, replaced.id), self.target_gone(group, replaced.id),
                     self.member_gone(group, replaced.id), self.member_record(group, member),
                     self.target_record(group, member.id, group.target.get(replaced.id, {})),
                     self.current_record(group, member)]  # fmt: skip
        return self.update(r, group, member, replaced, owned, made)

    def new_uuid(self):
        import struct

        self.ids += 1
        raw = struct.pack(">QQ", 0x4000, 0x8000000000000000 + self.ids)
        return encode_id(raw)

    def find_member(self, group, member_id, instance, epoch, owned):
        if instance is None:
            member = group.members.get(member_id)
            if member is None:
                if epoch != 0:
                    raise Refused("UNKNOWN_MEMBER_ID")
                member = Member(member_id)
            self.check_epoch(member, epoch, owned)
            return member, None
        known = group.instances.get(instance)
        if known is not None and known not in group.members:
            raise Refused("UNKNOWN_MEMBER_ID")
        if epoch == 0:
            if known is None:
                return group.members.get(member_id) or Member(member_id), None
            old = group.members[known]
            if old.classic is None and old.epoch != -2:
                raise Refused("UNRELEASED_INSTANCE_ID")
            return old.changed(id=member_id, epoch=0, previous_epoch=0), old
        if known is None:
            raise Refused("UNKNOWN_MEMBER_ID")
        if known != member_id:
            raise Refused("FENCED_INSTANCE_ID")
        member = group.members[member_id]
        self.check_epoch(member, epoch, owned)
        return member, None

    def check_epoch(self, member, epoch, owned):
        if epoch == 0 and self.release >= (4, 2):
            return
        if epoch > member.epoch:
            raise Refused("FENCED_MEMBER_EPOCH")
        if epoch < member.epoch:
            passes = (
                epoch == member.previous_epoch
                and owned is not None
                and all(ps <= set(member.assigned.get(t, ())) for t, ps in owned.items())
            )
            if not passes:
                raise Refused("FENCED_MEMBER_EPOCH")

    # ---- 4.3 -------------------------------------------------------------------------------------
    def update(self, r, group, member, replaced, owned, made):
        changed = {"client_id": r.get("client_id", ""),
                   "client_host": r.get("client_host", "/127.0.0.1"), "classic": None}  # fmt: skip
        for name, into in (("instance_id", "instance_id"), ("rack_id", "rack_id"),
                           ("server_assignor", "assignor"),
                           ("subscribed_topic_regex", "regex")):  # fmt: skip
            if r.get(name) is not None:
                changed[into] = r[name]
        if r.get("subscribed_topic_names") is not None:
            changed["names"] = frozenset(r["subscribed_topic_names"])
        if r.get("rebalance_timeout_ms", -1) != -1:
            changed["rebalance_timeout_ms"] = r["rebalance_timeout_ms"]
        updated = member.changed(**changed)
        is_new = member.id not in group.members and replaced is None
        if updated != member or is_new:
            made.append(self.member_record(group, updated))
        bump = updated.names != member.names
        bump |= group.epoch == 0 and self.release < (4, 3)
        bump |= self.regex_step(group, member, updated, replaced, made)
        members = {name: m for name, m in group.members.items()
                   if replaced is None or name != replaced.id}  # fmt: skip
        members[updated.id] = updated
        if self.release >= (4, 4):
            bump |= self.assignor_of(members) != self.assignor_of(group.members)
        group_epoch, homogeneous = group.epoch, group.homogeneous
        time, at_epoch = self.deadlines.get(group.id, (0, 0))
        if bump or self.now >= time or group.epoch < at_epoch:
            left = {member.regex} - {m.regex for m in members.values()} - {""}
            digest = self.hash_over(group.subscribed(
                without=() if replaced is None else {replaced.id}, instead=updated,
                without_regexes=left))  # fmt: skip
            homogeneous = group.is_homogeneous(members)
            if bump or digest != group.hash:
                group_epoch += 1
                made.append(self.epoch_record(group, group_epoch, digest))
            self.deadlines[group.id] = (self.now + MAX_INT, group_epoch)
            if group.has_partition_metadata:
                made.append(record(PARTITION_METADATA, group.id, (), None,
                                   lambda state: setattr(state.groups[group.id],
                                                         "has_partition_metadata",
                                                         False)))  # fmt: skip
        if group_epoch > group.target_epoch and self.may_assign(group):
            target_epoch = group_epoch
            target = self.assign(group, members, updated, replaced, homogeneous, group_epoch, made)
        else:
            target_epoch = group.target_epoch
            holder = (updated.id if updated.instance_id is None
                      else group.instances.get(updated.instance_id))  # fmt: skip
            target = group.target.get(holder, {})
        reads = (updated.names, updated.regex or "") != (member.names, member.regex or "")
        done = self.reconcile(group, updated, target_epoch, target, owned, reads, made)
        self.arm_session(group.id, updated.id, self.setting(group.id, "session.timeout.ms"))
        full = r.get("member_epoch", 0) == 0 or (
            r.get("rebalance_timeout_ms", -1) != -1
            and (
                r.get("subscribed_topic_names") is not None
                or r.get("subscribed_topic_regex") is not None
            )
            and r.get("topic_partitions") is not None
        )
        response = {"error": "NONE", "member_id": done.id, "member_epoch": done.epoch,
                    "heartbeat_interval_ms": self.setting(
                        group.id, "heartbeat.interval.ms")}  # fmt: skip
        if full or done.assigned != updated.assigned:
            response["assignment"] = as_rows(done.assigned)
        return made, response

    def assignor_of(self, members):
        votes = Counter(m.assignor for m in members.values() if m.assignor is not None)
        return min(votes, key=lambda a: (-votes[a], a)) if votes else self.assignors()[0]

    def may_assign(self, group):
        """Whether the time between two targets is over."""
        interval = self.setting(group.id, "assignment.interval.ms")
        return (self.release < (4, 3) or not group.target_ms
                or self.now >= group.target_ms + interval)  # fmt: skip

    def assign(self, group, members, updated, replaced, homogeneous, epoch, made):
        ordered = {name: members[name] for name in sorted(members, key=utf16)}
        counts, specs, previous = {}, {}, {}
        for member_id, member in ordered.items():
            topics = []
            for topic_name in group.subscribed_by(member):
                topic = self.image.topics.get(topic_name)
                if topic is not None:
                    topics.append(topic.id)
                    counts[topic.id] = len(topic.replicas)
            specs[member_id] = (member.instance_id, topics)
            holder = replaced.id if replaced is not None and member_id == updated.id else member_id
            previous[member_id] = group.target.get(holder, {})
        everyone = dict(previous)
        for other in group.target:
            everyone.setdefault(other, group.target[other])
        target = assignors.assign(self.assignor_of(ordered), specs, previous, counts, homogeneous)
        for member_id in ordered:
            inherits = replaced is not None and member_id == updated.id
            had = group.target.get(member_id)
            if inherits and self.release >= (4, 4):
                had = previous[member_id]
            if had != target[member_id] or (inherits and target[member_id] != previous[member_id]):
                made.append(self.target_record(group, member_id, target[member_id]))
        at_ms = self.now if self.release >= (4, 3) else 0
        made.append(self.target_epoch_record(group, epoch, at_ms))
        return target[updated.id]

    # ---- 5 ---------------------------------------------------------------------------------------
    def reconcile(self, group, member, target_epoch, target, owned, reads, made):
        """``reads``: whether the member reads other topics than before."""
        after = self.reconciled(group, member, target_epoch, target, owned, reads)
        if after != member:
            made.append(self.current_record(group, after))
            if after.state == UNREVOKED:
                self.arm_rebalance(group.id, after)
            else:
                self.cancel("rebalance", group.id, after.id)
        return after

    def reconciled(self, group, m, target_epoch, target, owned, reads):
        names = group.subscribed_by(m)
        read = {topic.id for topic in self.image.topics.values() if topic.name in names}

        def owns(partitions):
            return owned is None or any(
                set(ps) & owned.get(topic, set()) for topic, ps in partitions.items()
            )

        def following(epoch):
            keep, revoke, add, unreleased = {}, {}, {}, False
            for topic in {*target, *m.assigned}:
                have, want = m.assigned.get(topic, {}), set(target.get(topic, ()))
                if self.release >= (4, 2) and topic not in read:
                    want = set()
                own = m.revoking.get(topic, {}) if self.release >= (4, 1, 2) else {}
                keep[topic] = {p: at for p, at in have.items() if p in want}
                revoke[topic] = {p: at for p, at in have.items() if p not in want}
                free = {p for p in want - {*have} if p in own or (topic, p) not in group.owners}
                unreleased |= free != want - {*have}
                add[topic] = dict.fromkeys(free, target_epoch if self.release >= (4, 3) else 0)
            if owns(revoke) and any(revoke.values()):
                return m.changed(state=UNREVOKED, epoch=epoch, previous_epoch=m.epoch,
                                 assigned=filled(keep), revoking=filled(revoke))  # fmt: skip
            return m.changed(state=UNRELEASED if unreleased else STABLE, epoch=target_epoch,
                             previous_epoch=m.epoch, revoking={},
                             assigned=filled(joined(keep, add)))  # fmt: skip

        def without_others():
            kept = {t: ps for t, ps in m.assigned.items() if t in read}
            if self.release < (4, 2) or not reads or kept == m.assigned:
                return m
            others = {t: ps for t, ps in m.assigned.items() if t not in read}
            pending = joined(m.revoking, others)
            after = m.changed(assigned=kept)
            if self.release >= (4, 3):
                after = after.changed(previous_epoch=m.epoch)
            return after.changed(state=UNREVOKED, revoking=pending) if owns(pending) else after

        if m.state == STABLE:
            return following(m.epoch) if m.epoch != target_epoch else without_others()
        if m.state == UNREVOKED:
            if owns(m.revoking):
                return without_others()
            return following(m.epoch + (self.release < (4, 2)))
        if m.state == UNRELEASED:
            return following(m.epoch)
        if owned is None or any(owned.values()):
            raise Refused("FENCED_MEMBER_EPOCH")
        return following(target_epoch)

    # ---- timers ----------------------------------------------------------------------------------
    def arm_session(self, group_id, member_id, timeout_ms):
        self.arm(("session", group_id, member_id), timeout_ms,
                 lambda: self.expire(("session", group_id, member_id), group_id, member_id,
                                     None))  # fmt: skip

    def arm_rebalance(self, group_id, member):
        self.arm(("rebalance", group_id, member.id), member.rebalance_timeout_ms,
                 lambda: self.expire(("rebalance", group_id, member.id), group_id, member.id,
                                     member.epoch))  # fmt: skip

    def expire(self, name, group_id, member_id, epoch):
        """Fence a member; a timer whose write fails or is late fires again, with or without."""

        def done(error):
            if error not in ("NONE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"):
                self.arm(name, 500, lambda: self.expire(name, group_id, member_id, epoch))

        group = self.state.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, Group) else None
        if member is not None and epoch in (None, member.epoch):
            error = self.write(self.fence(group, [member_id]))
            if error != "NONE":
                return done(error)
        return self.wait(done)

    # ---- leaves ----------------------------------------------------------------------------------
    def leave(self, r, group, epoch):
        if not isinstance(group, Group):
            raise Refused("GROUP_ID_NOT_FOUND")
        member_id, instance = r.get("member_id") or "", r.get("instance_id")
        if instance is None:
            if member_id not in group.members:
                raise Refused("UNKNOWN_MEMBER_ID")
        else:
            if group.instances.get(instance) not in group.members:
                raise Refused("UNKNOWN_MEMBER_ID")
            if group.instances[instance] != member_id:
                raise Refused("FENCED_INSTANCE_ID")
        if epoch == -2:
            member = group.members[member_id]
            assigned = {t: dict.fromkeys(ps, 0) for t, ps in member.assigned.items()}
            away = member.changed(epoch=-2, assigned=assigned, revoking={})
            made = [self.current_record(group, away)]
        else:
            made = self.fence(group, [member_id])
        return made, {"error": "NONE", "member_id": member_id, "member_epoch": epoch,
                      "heartbeat_interval_ms": 0}  # fmt: skip

    def fence(self, group, names):
        made = []
        for name in sorted(names, key=utf16):
            made += [self.current_gone(group, name), self.target_gone(group, name),
                     self.member_gone(group, name)]  # fmt: skip
            for timer in ("session", "rebalance", "join", "sync"):
                self.cancel(timer, group.id, name)
        left = {name: m for name, m in group.members.items() if name not in names}
        used = {m.regex or "" for m in left.values()}
        lost = {group.members[name].regex or "" for name in names} - used - {""}
        for regex in sorted(lost, key=utf16):
            made.append(self.regex_record(group, regex, None))
        digest = self.hash_over(group.subscribed(without=names, without_regexes=lost))
        made.append(self.epoch_record(group, group.epoch + 1, digest))
        if not left and self.release >= (4, 4):
            made.append(self.target_epoch_record(group, group.epoch + 1, 0))
        return made

    # ---- 9 ---------------------------------------------------------------------------------------
    def regex_step(self, group, old, new, replaced, made):
        bump = refresh = False
        others = [m.regex for name, m in group.members.items()
                  if m.regex and name != new.id
                  and (replaced is None or name != replaced.id)]  # fmt: skip
        if old.regex != new.regex:
            if old.regex and old.regex not in others:
                made.append(self.regex_record(group, old.regex, None))
            if not new.regex:
                bump = self.release >= (4, 1, 2)
            else:
                if new.regex in others:
                    bump = new.regex in group.resolved
                else:
                    try:
                        re2.compile(new.regex, quiet())
                    except re2.error:
                        raise Refused("INVALID_REGULAR_EXPRESSION") from None
                    refresh = True
        if not refresh and not any(m.regex for m in group.members.values()):
            return bump
        if group.id in self.resolving:
            return bump
        last = group.resolved.first()
        if last is not None and self.now <= last.at_ms + REGEX_PAUSE_MS:
            return bump
        regexes = {regex for regex in (*others, new.regex) if regex}
        interval = int(self.config["group.consumer.regex.refresh.interval.ms"])
        refresh |= len(regexes) != len(group.resolved)
        refresh |= (last.version if last else 0) < self.image.last_with_new_topics
        refresh |= last is not None and self.now > last.at_ms + interval
        if refresh and regexes:
            self.start_resolution(group.id, regexes)
        return bump

    def start_resolution(self, group_id, regexes):
        self.resolving.add(group_id)
        patterns = {regex: re2.compile(regex, quiet()) for regex in regexes}

        def finish():
            self.resolving.discard(group_id)
            group = self.state.groups.get(group_id)
            if not isinstance(group, Group):
                return
            version, started = self.image.version, self.now
            found = {regex: frozenset(n for n in self.image.topics if pattern.fullmatch(n))
                     for regex, pattern in patterns.items()}  # fmt: skip
            made, bump = [], False
            resolved = dict(group.resolved)
            for regex in sorted(found, key=utf16):
                if not any(m.regex == regex for m in group.members.values()):
                    continue
                before = resolved.get(regex)
                resolved[regex] = Resolved(found[regex], version, started)
                bump |= (before.topics if before else frozenset()) != found[regex]
                made.append(self.regex_record(group, regex, resolved[regex]))
            topics = set().union(*(m.names for m in group.members.values()),
                                 *(each.topics for each in resolved.values()))  # fmt: skip
            digest = self.hash_over(topics)
            if bump or digest != group.hash:
                made.append(self.epoch_record(group, group.epoch + 1, digest))
                self.deadlines[group_id] = (self.now + MAX_INT, group.epoch + 1)
            self.write(made)

        self.tasks.append(finish)


def filled(assignment):
    return {topic: partitions for topic, partitions in assignment.items() if partitions}


def quiet():
    options = re2.Options()
    options.log_errors = False
    return options


def as_rows(assignment):
    return [{"topic_id": encode_id(topic), "partitions": sorted(assignment[topic])}
            for topic in sorted(assignment, key=id_order)]  # fmt: skip
