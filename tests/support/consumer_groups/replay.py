"""What each record does to the state of the slow model."""

from __future__ import annotations

from .groups import Group, Member, SimpleGroup


class Broken(Exception):
    """An internal error of the replay."""


def consumer_group(state, group_id, *, create=False):
    group = state.groups.get(group_id)
    if group is None or (isinstance(group, SimpleGroup) and create):
        if not create:
            return None
        group = state.groups[group_id] = Group(group_id, state.release)
    if not isinstance(group, Group):
        raise Broken(f"{group_id} is of another kind")
    return group


def replay_member(group_id, member_id, member):
    def apply(state):
        if member is not None:
            group = consumer_group(state, group_id, create=True)
            was = group.members.get(member_id)
            kept = {} if was is None else {
                "epoch": was.epoch, "previous_epoch": was.previous_epoch, "state": was.state,
                "assigned": was.assigned, "revoking": was.revoking,
            }  # fmt: skip
            if was is None:
                kept = {"epoch": 0, "previous_epoch": -1, "state": 0, "assigned": {},
                        "revoking": {}}  # fmt: skip
            put(group, was, member.changed(**kept))
            group.homogeneous = group.is_homogeneous()
            return
        group = consumer_group(state, group_id)
        if group is None or member_id not in group.members:
            return
        if group.members[member_id].epoch != -1:
            raise Broken("a member goes before its assignment")
        if member_id in group.target:
            raise Broken("a member goes before its target")
        group.instances.pop(group.members.pop(member_id).instance_id, None)
        group.homogeneous = group.is_homogeneous()

    return apply


def replay_current(group_id, member_id, member):
    def apply(state):
        group = consumer_group(state, group_id, create=member is not None)
        if group is None:
            return
        was = group.members.get(member_id)
        if was is None:
            if member is None:
                return
            was = member.changed(client_id="", client_host="")
        now = member or Member(member_id, epoch=-1)
        put(group, group.members.get(member_id), was.changed(
            epoch=now.epoch, previous_epoch=now.previous_epoch, state=now.state,
            assigned=now.assigned, revoking=now.revoking))  # fmt: skip
        group.homogeneous = group.is_homogeneous()

    return apply


def put(group, was, member):
    """Let a member be as a record has it."""
    group.members[member.id] = member
    if was is not None:
        group.release_all(was)
        if group.release >= (4, 4):
            group.instances.pop(was.instance_id, None)
    if member.instance_id is not None:
        group.instances[member.instance_id] = member.id
    if not group.own_all(member):
        raise Broken("a partition has two owners")


def replay_epoch(group_id, value):
    def apply(state):
        if value is None:
            group = consumer_group(state, group_id)
            if group is None:
                return
            if group.members or group.target or group.target_epoch != -1:
                raise Broken("a group goes before its members")
            del state.groups[group_id]
            return
        group = consumer_group(state, group_id, create=True)
        group.epoch, group.hash = value

    return apply


def replay_target(group_id, member_id, target):
    def apply(state):
        group = consumer_group(state, group_id, create=target is not None)
        if group is None:
            return
        if target is None:
            group.target.pop(member_id, None)
        else:
            group.target[member_id] = target

    return apply


def replay_target_epoch(group_id, epoch, at_ms=0):
    def apply(state):
        group = consumer_group(state, group_id, create=epoch is not None)
        if group is None:
            return
        if epoch is None and group.target:
            raise Broken("a target epoch goes before its targets")
        group.target_epoch, group.target_ms = (-1, 0) if epoch is None else (epoch, at_ms)

    return apply


def replay_regex(group_id, regex, resolved):
    def apply(state):
        group = consumer_group(state, group_id, create=resolved is not None)
        if group is None:
            return
        if resolved is None:
            group.resolved.pop(regex, None)
        else:
            group.resolved[regex] = resolved

    return apply
