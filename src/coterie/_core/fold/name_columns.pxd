"""The names of a table as Python objects, for columns of their numbers. See name_columns.pyx."""
from libc.stdint cimport int32_t, uint32_t

from coterie._core.fold.keytable cimport Table

cdef bytes name_at(const Table* table, int32_t number)

# The names from a number on, decoded.
cdef list names_from(const Table* table, uint32_t first)

# The names' bytes end to end, and where each begins and the last one ends: two arrays.
cdef tuple names_as_bytes(const Table* table)
