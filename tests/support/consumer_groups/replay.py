"""What each record does to the state of the slow model."""

from __future__ import annotations

from .groups import Group, SimpleGroup


class Broken(Exception):
    """An internal error of the replay."""


def consumer_group(state, group_id, *, create=False):
    group = state.groups.get(group_id)
    if group is None or (isinstance(group, SimpleGroup) and create):
        if not create:
            return None
        group = state.groups[group_id] = Group(group_id)
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
            group.members[member_id] = member.changed(**kept)
            if member.instance_id is not None:
                group.instances[member.instance_id] = member_id
            group.homogeneous = group.is_homogeneous()
            return
        group = consumer_group(state, group_id)
        if group is None or member_id not in group.members:
            return
        if group.members[member_id].epoch != -1:
            raise Broken("a member goes before its assignment")
        if member_id in group.target:
            raise Broken("a member goes before its target")
        gone = group.members.pop(member_id)
        if gone.instance_id is not None and group.instances.get(gone.instance_id) == member_id:
            del group.instances[gone.instance_id]
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
        if member is None:
            group.members[member_id] = was.changed(epoch=-1, previous_epoch=-1, assigned={},
                                                   revoking={}, state=0)  # fmt: skip
        else:
            group.members[member_id] = was.changed(
                epoch=member.epoch, previous_epoch=member.previous_epoch, state=member.state,
                assigned=member.assigned, revoking=member.revoking)  # fmt: skip
            taken = owned_by_others(group, member_id)
            for held in (member.assigned, member.revoking):
                for topic, partitions in held.items():
                    if any((topic, p) in taken for p in partitions):
                        raise Broken("a partition has two owners")
        group.homogeneous = group.is_homogeneous()

    return apply


def owned_by_others(group, member_id):
    return {(topic, p) for m in group.members.values() if m.id != member_id
            for held in (m.assigned, m.revoking) for topic, ps in held.items()
            for p in ps}  # fmt: skip


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


def replay_target_epoch(group_id, epoch):
    def apply(state):
        group = consumer_group(state, group_id, create=epoch is not None)
        if group is None:
            return
        if epoch is None:
            if group.target:
                raise Broken("a target epoch goes before its targets")
            group.target_epoch = -1
        else:
            group.target_epoch = epoch

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
