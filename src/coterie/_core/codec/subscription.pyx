"""The topics that a group's consumers subscribe to, as Kafka's coordinator reads them.

Reads only the topics of a subscription, with version 0's layout, by `walk`. Knows no group and no
member. Cost: a text for each topic.
Sources: GroupMetadata.computeSubscribedTopics, ConsumerProtocol.java.
Rules: docs/rules/coordinator.md#protocols.
"""
from libc.stdint cimport int16_t
from libc.stdlib cimport free

from coterie._core.codec.cursor cimport OK, TRUNCATED, Cursor, Status, read_i16
from coterie._core.codec.decode cimport read_text
from coterie._core.codec.layout cimport MAX_FIELDS, Layout
from coterie._core.codec.schema cimport slot_of, subscription_layout
from coterie._core.codec.walk cimport Rows, Span, walk

cdef Layout VERSION_0 = subscription_layout(0)
cdef int TOPICS = slot_of(VERSION_0, "topics")


cdef Readable read_topics(bytes metadata, set topics) except *:
    """Add the topics of a subscription, read with version 0's layout whatever its version.

    If the bytes end inside a number, Kafka catches its exception: TOO_SHORT. If a string or an
    array is null, or longer than the rest, Kafka does not: UNREADABLE.
    """
    cdef Span fields[MAX_FIELDS]
    cdef Rows rows = [TOPICS, 0, 0, 0, False, NULL]
    cdef int16_t version
    cdef Cursor cur
    cdef Status status
    cdef int i
    cur.at, cur.end = <const unsigned char*>metadata, <const unsigned char*>metadata + len(metadata)
    if read_i16(&cur, &version) != OK or version < 0:
        return TOO_SHORT
    status = walk(&cur, &VERSION_0.plan, fields, &rows)
    try:
        if rows.failed:
            raise MemoryError
        if status != OK:
            return TOO_SHORT if status == TRUNCATED else UNREADABLE
        for i in range(rows.count):
            topics.add(read_text(rows.spans[i].at, rows.spans[i].size))
        return READ
    finally:
        free(rows.spans)


def consumer_topics(subscriptions not None, str protocol):
    """Return the topics that a group of protocol type ``consumer`` subscribes to."""
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
