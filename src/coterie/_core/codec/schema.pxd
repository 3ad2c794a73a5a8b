"""The layouts of a log's messages, for code that reads fields by their slots. See schema.pyx."""
from coterie._core.codec.layout cimport Layout
from coterie._core.codec.walk cimport Versions

cdef const Versions* versions_of(int key_version) except NULL
cdef Layout value_layout(int key_version)
cdef Layout subscription_layout(int version)
cdef int slot_of(Layout layout, str name) except -1
cdef tuple value_row(int key_version, bytes value)
