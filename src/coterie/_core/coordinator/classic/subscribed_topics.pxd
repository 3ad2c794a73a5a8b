"""The topics that members subscribe to: declarations."""
from coterie._core.codec.subscription cimport Readable
from coterie._core.coordinator.classic.member_table cimport MemberTable

cdef frozenset topics_of(const MemberTable* members, str protocol_name, Readable* status)
