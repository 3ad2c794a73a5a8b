"""The reader of a consumer's subscribed topics, for the coordinator. See subscription.pyx."""

cdef enum Readable:
    UNREADABLE = -1                # Kafka's code throws an exception that it does not catch
    TOO_SHORT = 0                  # also a negative version: the topics are unknown
    READ = 1

cdef Readable read_topics(bytes metadata, set topics) except *
