"""The consumer protocol's place on a coordinator's runtime; test_second_protocol.py compiles it.

Its groups have no members. It decides Heartbeat for its own groups, and answers what the shared
components ask about a group of any type: commits, deletion, expiry.
"""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.coordinator cimport Coordinator
from coterie._core.coordinator.runtime cimport (
    CONSUMER, NO_TIMER, Group, GroupProtocol, Operation, partition_of)
from coterie._core.structures.offsets cimport OffsetMap

cdef enum:
    REBALANCE_IN_PROGRESS = 27


cdef class ConsumerGroup(Group):
    """Not a GroupMetadata: it has none of the fields that classic components read."""

    cdef readonly int32_t epoch
    cdef Py_ssize_t slot

    def __cinit__(self, str group_id, int32_t epoch):
        self.group_id = group_id
        self.group_type = CONSUMER
        self.epoch = epoch


cdef int decide_heartbeat(component, Operation op) except -1:
    cdef ConsumerProtocol protocol = <ConsumerProtocol?>component
    cdef ConsumerGroup known = <ConsumerGroup?>op.group
    return protocol.runtime.respond(
        op.id, op.number, 0 if op.generation_id == known.epoch else REBALANCE_IN_PROGRESS, None)


cdef class ConsumerProtocol(GroupProtocol):
    cdef readonly list calls

    def __init__(self, Coordinator coordinator not None):
        self.join_runtime(coordinator.runtime, 2)
        self.runtime.register_protocol(CONSUMER, self)
        self.runtime.register("heartbeat", self, decide_heartbeat, CONSUMER)
        self.calls = []

    def register_again(self, str op not None, int group_type):
        """Register for an operation and a type of group, whoever has that pair."""
        self.runtime.register(op, self, decide_heartbeat, group_type)

    def register_protocol_again(self):
        self.runtime.register_protocol(CONSUMER, self)

    def add(self, str group_id not None, int kind, int64_t delay_ms, int32_t epoch=1):
        """Add a group, with a timer of one of its kinds."""
        cdef ConsumerGroup group = ConsumerGroup(group_id, epoch)
        self.runtime.add_group(group)
        group.slot = self.runtime.new_slot(group)
        self.runtime.arm(NO_TIMER, self.first_kind + kind, group.slot, delay_ms)

    def group_ids(self):
        return [group_id for group_id, group in self.runtime.groups.items()
                if isinstance(group, ConsumerGroup)]

    cdef int fired(self, int kind, object owner) except -1:
        self.calls.append(("fired", kind, owner.group_id, self.runtime.wheel.clock_ms))
        return 0

    cdef int resigned(self, int32_t partition) except -1:
        cdef int32_t count = self.runtime.partitions.count
        for group_id in self.group_ids():
            if partition < 0 or partition_of(group_id, count) == partition:
                self.drop_group(self.runtime.find(group_id))
        self.calls.append(("resigned", partition))
        return 0

    cdef object read_log(self, object fold):
        return dict(fold.unknown)  # key version -> count: a load keeps none of these records

    cdef int loaded(self, object content, object load_filter) except -1:
        self.calls.append(("loaded", content, load_filter is None or load_filter("other")))
        return 0

    cdef int check_commit(self, Group group, int32_t generation_id, str member_id, str instance,
                          bint transactional) except? -7:
        return 0 if generation_id == (<ConsumerGroup>group).epoch else REBALANCE_IN_PROGRESS

    cdef int check_offset_delete(self, Group group, dict errors) except? -7:
        return 0

    cdef int delete_group(self, Group group) except? -7:
        (<ConsumerGroup>group).epoch = -1
        return 0

    cdef list expire(self, Group group, OffsetMap offsets):
        return offsets.expire_all(self.runtime.wheel.clock_ms, 1000, False, 0, None)

    cdef list end_group(self, Group group, bint has_offsets):
        """Keep a group whatever its offsets; end it when it was deleted."""
        if (<ConsumerGroup>group).epoch >= 0:
            return None
        return [b"\0\3\0" + bytes([len(group.group_id)]) + group.group_id.encode()]

    cdef int drop_group(self, Group group) except -1:
        self.runtime.free_slot((<ConsumerGroup>group).slot)
        return self.runtime.drop_group(group)

    cdef tuple overview(self, Group group):
        return (group.group_id, "consumer", "Empty")
