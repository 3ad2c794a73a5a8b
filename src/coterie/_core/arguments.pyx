"""What callers hand over: whole numbers and columns of them, checked once at the edge.

A float is refused, for it would lose its fraction without a word; numpy's integers are taken.
Knows no rule of what a number means. Cost: a call a number, nothing an element of a column.
"""
cimport numpy as cnp
from cpython.long cimport PyLong_CheckExact
from cpython.number cimport PyIndex_Check, PyNumber_Index
from libc.stdint cimport int32_t, int64_t

import numpy as np

from coterie.errors import ArgumentError

cnp.import_array()

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1


cdef int64_t int64_of(object value, str name) except? -1:
    """A number of 64 bits, from whatever is a whole number to Python."""
    cdef int overflow = 0
    cdef int64_t found
    if not PyLong_CheckExact(value):
        value = whole(value, name)
    found = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        raise ArgumentError(f"{name} must fit 64 bits, not {value!r:.40}")
    return found


cdef int32_t int32_of(object value, str name) except? -1:
    """A number of 32 bits."""
    cdef int64_t found = int64_of(value, name)
    if found != <int32_t>found:
        raise ArgumentError(f"{name} must fit 32 bits, not {found}")
    return <int32_t>found


cdef object whole(object value, str name):
    if PyIndex_Check(value) and not isinstance(value, (bool, np.bool_)):
        try:
            return int(PyNumber_Index(value))
        except TypeError:                # an array of several numbers
            pass
    raise ArgumentError(f"{name} must be an integer, not {value!r:.60}")


cdef object column_of(object values, str name, int type_number):
    """A contiguous column of that type (NPY_INT64); anything that would be changed is refused."""
    if cnp.PyArray_CheckExact(values) and cnp.PyArray_NDIM(values) == 1 and (
            cnp.PyArray_TYPE(values) == type_number and cnp.PyArray_ISCARRAY_RO(values)):
        return values
    cdef object dtype = cnp.PyArray_DescrFromType(type_number)
    try:
        column = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name} must be a column of integers: {error}") from None
    if column.ndim != 1 or (column.dtype.kind not in "iu" and column.size):
        raise ArgumentError(f"{name} must be a column of integers, not {column.dtype} "
                            f"of {column.ndim} dimensions")
    if column.dtype != dtype and column.size and not np.can_cast(column.dtype, dtype):
        bounds = np.iinfo(dtype)
        if column.min() < bounds.min or column.max() > bounds.max:
            raise ArgumentError(f"{name} must fit {bounds.bits} bits: it has {column.min()} "
                                f"to {column.max()}")
    return np.ascontiguousarray(column, dtype=dtype)


cdef str text_of(object value, str name):
    """A string."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name} must be a string, not {value!r:.60}")
    return str(value)


cdef tuple texts_of(object values, str name):
    """Several strings; one string is not meant as its characters."""
    if isinstance(values, (str, bytes)):
        raise ArgumentError(f"{name} must be a list of strings, not {values!r:.60}")
    return tuple([text_of(value, name) for value in items_of(values, name)])


cdef list items_of(object values, str name):
    """Whatever can be walked through, as a list."""
    try:
        return list(values)
    except TypeError:
        raise ArgumentError(f"{name} must be a list, not {values!r:.60}") from None
