"""What other scans use of the columns. See columns.pyx."""
from libc.stdint cimport uint32_t

from coterie._core.fold.keytable cimport Table

cdef list strings(const Table* table, uint32_t first)   # the names of a table from a number on
