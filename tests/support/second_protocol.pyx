"""A part of another protocol on a coordinator's runtime; test_second_protocol.py compiles it."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.coordinator cimport Coordinator
from coterie._core.coordinator.partitions cimport partition_of
from coterie._core.coordinator.runtime cimport NO_TIMER, Part


class Group:
    """Not a GroupMetadata: it has nothing of what the classic parts would look for."""

    def __init__(self, group_id, slot):
        self.group_id, self.slot = group_id, slot


cdef class Other(Part):
    cdef readonly list told

    def __init__(self, Coordinator coordinator not None):
        self.join_runtime(coordinator.runtime, 2)
        self.told = []

    def hold(self, str group_id not None, int kind, int64_t delay_ms):
        group = Group(group_id, None)
        group.slot = self.runtime.new_slot(group)
        self.runtime.groups[group_id] = group
        self.runtime.arm(NO_TIMER, self.first_kind + kind, group.slot, delay_ms)

    def held(self):
        return [name for name, group in self.runtime.groups.items() if isinstance(group, Group)]

    cdef int fired(self, int kind, object owner) except -1:
        self.told.append(("fired", kind, owner.group_id, self.runtime.wheel.clock_ms))
        return 0

    cdef int resigned(self, int32_t partition) except -1:
        cdef int32_t count = self.runtime.partitions.count
        for group_id in self.held():
            if partition < 0 or partition_of(group_id, count) == partition:
                self.runtime.free_slot(self.runtime.groups.pop(group_id).slot)
        self.told.append(("resigned", partition))
        return 0

    cdef object read_log(self, object fold):
        return dict(fold.unknown)  # key version -> how many: a load keeps none of these records

    cdef int loaded(self, object found, object wanted) except -1:
        self.told.append(("loaded", found, wanted is None or wanted("other")))
        return 0
