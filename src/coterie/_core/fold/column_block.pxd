"""Columns that grow together, for scans that fill them. See column_block.pyx."""

# Make room for `rows` rows in each column of `arrays` (name -> array), and keep the first `count`.
# Returns the new capacity, which is at least twice the old one.
cdef Py_ssize_t grown_columns(dict dtypes, dict arrays, Py_ssize_t count, Py_ssize_t capacity,
                              Py_ssize_t rows) except -1
