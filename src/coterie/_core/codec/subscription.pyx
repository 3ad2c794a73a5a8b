"""The topics of consumers' subscriptions, as the coordinator reads them. See ``subscription.pyi``.

Sources: GroupMetadata.computeSubscribedTopics, ConsumerProtocol.java.
"""
from libc.stdint cimport int64_t

from coterie._core.codec.text import decode_utf8


cdef inline int64_t number(const unsigned char* data, int size) noexcept nogil:
    """A big-endian signed number of so many bytes, which the caller knows to be there."""
    cdef int64_t value = -1 if data[0] & 0x80 else 0
    cdef int n
    for n in range(size):
        value = value * 256 + data[n]
    return value


cdef Readable read_topics(bytes metadata, set topics) except *:
    """Add the topics of a subscription, read with version 0's layout whatever its version.

    A buffer that ends within a number is too short, which Kafka catches; a string or an array
    longer than the rest, or null, is what it does not.
    """
    cdef const unsigned char* data = metadata
    cdef int64_t size = len(metadata), at = 6, count, length, _n
    if size < 6 or data[0] & 0x80:
        return TOO_SHORT
    count = number(data + 2, 4)
    if not 0 <= count <= size - at:
        return UNREADABLE
    for _n in range(count):
        if at + 2 > size:
            return TOO_SHORT
        length = number(data + at, 2)
        at += 2
        if not 0 <= length <= size - at:
            return UNREADABLE
        topics.add(decode_utf8(metadata[at:at + length]))
        at += length
    # userData: nullable bytes, present in every version.
    if at + 4 > size:
        return TOO_SHORT
    return READ if number(data + at, 4) <= size - at - 4 else UNREADABLE


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
