"""The topics that the members of a group subscribe to, read from their metadata.

The metadata read last is remembered with its topics, since groups come and go and subscribe to
the same topics. It knows no state of a group. Cost: members with the same metadata object are read
once in a row; each other costs a look-up of the bytes.
Source: GroupMetadata.scala (computeSubscribedTopics). Rules: docs/rules/coordinator.md#states.
"""
from coterie._core.codec.subscription cimport READ, Readable, read_topics
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport MemberTable, next_member

cdef enum:
    SHORT = 4096                   # bytes of metadata that is remembered, at most
    MANY = 1024                    # entries

cdef dict TOPICS_BY_METADATA = {}
cdef frozenset NO_TOPICS = frozenset()


cdef int remember(bytes metadata, object topics) except -1:
    if len(metadata) <= SHORT:
        if len(TOPICS_BY_METADATA) >= MANY:
            TOPICS_BY_METADATA.clear()
        TOPICS_BY_METADATA[metadata] = topics


cdef frozenset topics_of(const MemberTable* members, str protocol_name, Readable* status):
    """Return the topics of all members; None, with a status, if some metadata is unreadable."""
    cdef set union = None
    cdef bytes last = None, metadata
    cdef object first = NO_TOPICS, topics
    cdef MemberMetadata member
    cdef Py_ssize_t place = 0
    status[0] = READ
    while (member := next_member(members, &place)) is not None:
        metadata = member.metadata_of(protocol_name)
        if metadata is last:
            continue
        topics = TOPICS_BY_METADATA.get(metadata)
        if topics is None:
            topics = set()
            status[0] = read_topics(metadata, topics)
            if status[0] != READ:
                return None
            topics = frozenset(topics)
            remember(metadata, topics)
        if last is None:
            first = topics
        else:
            if union is None:
                union = set(first)
            union |= topics
        last = metadata
    return first if union is None else frozenset(union)
