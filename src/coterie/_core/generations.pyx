"""What happened to one group, record by record of its metadata. See ``generations.pyi``.

Knows values, not their places in the topic. A group keeps its first and last record whole, for
the pieces before and after, and of those between only what changed.
"""
from coterie._core.schema import decode_value

KEY_GROUP = 2


class GroupView:
    """One group metadata value, decoded; ``members`` by id, in the order of the record."""

    __slots__ = ("data", "members")

    def __init__(self, bytes value):
        self.data = {} if value is None else decode_value(KEY_GROUP, value)["data"]
        self.members = {member["memberId"]: member for member in self.data.get("members", ())}


class GroupLog:
    """See ``generations.pyi``."""

    __slots__ = ("_view", "changes", "first", "last")

    def __init__(self):
        self.first = self.last = self._view = None
        self.changes = []

    def __getstate__(self):
        return (self.first, self.last, self.changes)

    def __setstate__(self, state):
        self.first, self.last, self.changes = state
        self._view = None

    def view(self):
        if self._view is None:
            self._view = GroupView(self.last[2])
        return self._view

    def add(self, log_offset, timestamp, bytes value):
        record = (log_offset, timestamp, value)
        if self.first is None:
            self.first = self.last = record
            return
        before, previous = self.view(), self.last
        self.last, self._view = record, None
        self.changes.append(change(previous, before, record, self.view()))

    def copy(self):
        twin = GroupLog()
        twin.__setstate__((self.first, self.last, list(self.changes)))
        return twin

    def absorb(self, later):
        """Go on with a later piece of the same group."""
        self.changes.append(change(self.last, self.view(), later.first, GroupView(later.first[2])))
        self.changes.extend(later.changes)
        self.last, self._view = later.last, later._view

    def generations(self):
        return [change(None, None, self.first, GroupView(self.first[2])), *self.changes]


cdef tuple change(tuple previous, object before, tuple record, object after):
    """One row of ``generations``, as the tuple of ``GENERATION_FIELDS``."""
    cdef dict old = {} if before is None else before.members
    cdef dict new = after.members
    data = after.data
    old_data = {} if before is None else before.data
    was_static = {m.get("groupInstanceId"): i for i, m in old.items() if m.get("groupInstanceId")}
    replaced, joined = [], []
    for member_id, member in new.items():
        if member_id in old:
            continue
        instance = member.get("groupInstanceId")
        if instance and instance in was_static and was_static[instance] not in new:
            replaced.append((instance, was_static[instance], member_id))
        else:
            joined.append(member_id)
    gone = {old_id for _, old_id, _ in replaced}
    left = [i for i in old if i not in new and i not in gone]
    changed = [i for i, m in new.items()
               if i in old and old[i]["subscription"] != m["subscription"]]
    for _, old_id, new_id in replaced:
        if old[old_id]["subscription"] != new[new_id]["subscription"]:
            changed.append(new_id)
    state_timestamp = data.get("currentStateTimestamp", -1)
    since = None
    if previous is not None and previous[1] >= 0 and record[1] >= 0:
        since = record[1] - previous[1]
    return (
        record[0], None if record[1] < 0 else record[1], record[2] is None,
        data.get("protocolType"), data.get("generation"), data.get("protocol"),
        data.get("leader"), None if state_timestamp < 0 else state_timestamp, len(new),
        joined, left, replaced, changed,
        previous is not None and data.get("leader") != old_data.get("leader"),
        previous is not None and data.get("protocol") != old_data.get("protocol"),
        old_data.get("generation"), since)


GENERATION_FIELDS = (
    "log_offset", "timestamp", "tombstone", "protocol_type", "generation", "protocol", "leader",
    "current_state_timestamp", "member_count", "joined", "left", "replaced",
    "subscription_changed", "leader_changed", "protocol_changed", "previous_generation",
    "since_previous_ms")
