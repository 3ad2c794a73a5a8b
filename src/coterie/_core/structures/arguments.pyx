"""Checks of columns of whole numbers that callers pass, done once at the edge.

Single values are checked in `checks`. A column that would have to be changed is refused.
Cost: one call a column, nothing an element, unless the column has another integer type.
"""
from libc.stdint cimport intptr_t

from coterie._core.structures.arrays cimport PyArray_EMPTY, is_column, need_arrays

from coterie.errors import ArgumentError


cdef object column_of(object values, str name, int type_number):
    """Return a contiguous column of this type (NPY_INT64); a lossy change is refused."""
    need_arrays()
    if is_column(values, type_number):
        return values
    import numpy as np

    cdef intptr_t rows = 0
    cdef object dtype = PyArray_EMPTY(1, &rows, type_number, 0).dtype
    try:
        column = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name} must be a column of integers: {error}") from None
    if column.ndim != 1 or (column.dtype.kind not in "iu" and column.size):
        raise ArgumentError(f"{name} must be a column of integers, not {column.dtype} "
                            f"of {column.ndim} dimensions")
    if column.size:
        bounds = np.iinfo(dtype)
        if column.min() < bounds.min or column.max() > bounds.max:
            raise ArgumentError(f"{name} must fit {bounds.bits} bits: it has {column.min()} "
                                f"to {column.max()}")
    return np.ascontiguousarray(column, dtype=dtype)
