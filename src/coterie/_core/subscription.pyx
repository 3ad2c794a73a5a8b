"""The topics of consumers' subscriptions, as the coordinator reads them. See ``subscription.pyi``.

Sources: GroupMetadata.computeSubscribedTopics,
ConsumerProtocol.deserializeConsumerProtocolSubscription.
"""
from libc.stdint cimport int16_t, int32_t, uint8_t

from coterie._core.cursor cimport (
    NEGATIVE, OK, Cursor, Status, read_bytes32, read_i16, read_i32, read_string16)

from coterie._core.text import decode_utf8


cdef Status read_topics(Cursor* cur, list found) except *:
    """int16 version, then the layout of version 0, whatever the version."""
    cdef int16_t version
    cdef int32_t count, size
    cdef const uint8_t* start
    cdef Status status = read_i16(cur, &version)
    if status == OK:
        status = read_i32(cur, &count)
    if status == OK and (version < 0 or count < 0):
        status = NEGATIVE
    while status == OK and count > 0:
        status = read_string16(cur, &start, &size)
        if status == OK and start == NULL:
            status = NEGATIVE
        if status == OK:
            found.append(decode_utf8(start[:size]))
        count -= 1
    if status == OK:
        status = read_bytes32(cur, &start, &size)
    return status


def consumer_topics(subscriptions not None, str protocol):
    """See ``subscription.pyi``."""
    cdef Cursor cur
    cdef bytes subscription
    cdef const uint8_t* start
    cdef list found = []
    if not subscriptions:
        return frozenset()
    if protocol is None:
        return None
    for subscription in subscriptions:
        start = subscription
        cur.at = start
        cur.end = start + len(subscription)
        if read_topics(&cur, found) != OK:
            return None
    return frozenset(found)
