"""The topics of consumers' subscriptions, as the coordinator reads them. See ``subscription.pyi``.

Sources: GroupMetadata.computeSubscribedTopics, ConsumerProtocol.java.
"""
from libc.stdint cimport int16_t
from libc.stdlib cimport free

from coterie._core.codec.cursor cimport OK, TRUNCATED, Cursor, Status, read_i16
from coterie._core.codec.fields cimport Layout, plan_of, slot_of
from coterie._core.codec.walk cimport MOST_FIELDS, Plan, Rows, Span, walk

from coterie._core.codec.fields import SUBSCRIPTION, SUBSCRIPTIONS
from coterie._core.codec.text import decode_utf8

cdef const Plan* VERSION_0 = plan_of(<Layout?>SUBSCRIPTIONS[0])
cdef int TOPICS = slot_of(SUBSCRIPTION, "topics")


cdef Readable read_topics(bytes metadata, set topics) except *:
    """Add the topics of a subscription, read with version 0's layout whatever its version.

    A buffer that ends within a number is too short, which Kafka catches; a string or an array
    longer than the rest, or null, is what it does not.
    """
    cdef Span fields[MOST_FIELDS]
    cdef Rows rows = [TOPICS, 0, 0, 0, False, NULL]
    cdef int16_t version
    cdef Cursor cur
    cdef Status status
    cdef int i
    cur.at, cur.end = <const unsigned char*>metadata, <const unsigned char*>metadata + len(metadata)
    if read_i16(&cur, &version) != OK or version < 0:
        return TOO_SHORT
    status = walk(&cur, VERSION_0, fields, &rows)
    try:
        if rows.failed:
            raise MemoryError
        if status != OK:
            return TOO_SHORT if status == TRUNCATED else UNREADABLE
        for i in range(rows.count):
            topics.add(decode_utf8(rows.spans[i].at[:rows.spans[i].size]))
        return READ
    finally:
        free(rows.spans)


def consumer_topics(subscriptions not None, str protocol):
    """See ``subscription.pyi``."""
    cdef bytes subscription
    cdef set topics = set()
    if not subscriptions:
        return frozenset()
    if protocol is None:
        return None
    for subscription in subscriptions:
        if read_topics(subscription, topics) != READ:
            return None
    return frozenset(topics)
