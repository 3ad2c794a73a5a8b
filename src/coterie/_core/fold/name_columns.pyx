"""The names that a table numbers, as Python objects: one name, a list of texts, or arrays.

Columns have the number of a group or topic; these functions return the names for them.
Knows nothing of keys or values: the table's keys are names here. Cost: a copy of the names.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from coterie._core.fold.keytable cimport Table

from coterie._core.codec.text import decode_utf8


cdef bytes name_at(const Table* table, int32_t number):
    cdef const uint8_t* start = table.arena + table.entries[number].key_at
    return start[:table.entries[number].key_size]


cdef list names_from(const Table* table, uint32_t first):
    cdef uint32_t i
    return [decode_utf8(name_at(table, <int32_t>i)) for i in range(first, table.count)]


cdef tuple names_as_bytes(const Table* table):
    import numpy as np     # not at import: it takes longer to load than a small log
    cdef uint32_t i
    data = np.empty(table.arena_size, dtype=np.uint8)
    bounds = np.zeros(table.count + 1, dtype=np.int64)
    cdef uint8_t[::1] bytes_view = data
    cdef int64_t[::1] bound = bounds
    if table.arena_size:
        memcpy(&bytes_view[0], table.arena, table.arena_size)
    for i in range(table.count):
        bound[i + 1] = table.entries[i].key_at + table.entries[i].key_size
    return data, bounds
