"""Keys and values of the offsets topic, by the table of messages."""
from libc.stdint cimport uint8_t

from coterie._core.codec.cursor cimport Status
from coterie._core.codec.layout cimport Layout
from coterie._core.codec.walk cimport Rows, Span, Versions

# ---- the layouts of a log's messages, for code that reads fields by their slots ------------------

cdef const Versions* versions_of(int key_version) except NULL
cdef Layout value_layout(int key_version)
cdef Layout subscription_layout(int version)
cdef int slot_of(Layout layout, str name) except -1
cdef tuple value_row(int key_version, bytes value)

# `walk_value` for group metadata, also in Redpanda's layout; the slots are the same.
cdef Status walk_group(const uint8_t* value, Py_ssize_t size, Span* out, Rows* rows) noexcept nogil

# ---- the reader of a consumer's subscribed topics, for the coordinator ---------------------------

cdef enum Readable:
    UNREADABLE = -1                # Kafka's code throws an exception that it does not catch
    CUT_SHORT = 0                  # also a negative version: the topics are unknown
    READ = 1

cdef Readable read_topics(bytes metadata, set topics) except *
