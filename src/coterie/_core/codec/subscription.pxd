"""The C face of the reader of subscribed topics."""

cdef enum Readable:
    UNREADABLE = -1                # Kafka's code throws past what it catches
    TOO_SHORT = 0                  # or of a negative version: the topics count as unknown
    READ = 1

cdef Readable read_topics(bytes metadata, set topics) except *
