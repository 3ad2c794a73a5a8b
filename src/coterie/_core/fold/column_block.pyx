"""Columns of several types in one block of memory, which grow together.

One block, because numpy asks the kernel for huge pages from 4 MiB on: with a block for each
column, page faults take half of the time of a scan. Knows no column by name.
Cost: a copy of the rows at each growth, so twice the memory for a moment.
"""
import numpy as np


cdef Py_ssize_t grown_columns(dict dtypes, dict arrays, Py_ssize_t count, Py_ssize_t capacity,
                              Py_ssize_t rows) except -1:
    cdef Py_ssize_t at = 0, size
    rows = (max(rows, 2 * capacity, 16) + 7) & ~7        # every column begins aligned
    block = np.empty(rows * sum(np.dtype(t).itemsize for t in dtypes.values()), np.uint8)
    for name, dtype in dtypes.items():
        size = rows * np.dtype(dtype).itemsize
        column = block[at:at + size].view(dtype)
        at += size
        if count:
            column[:count] = arrays[name][:count]
        arrays[name] = column
    return rows
