"""The part of numpy's C API that the core uses, loaded at the first use of an array.

`cimport numpy` would load numpy with the module, which takes longer than the start of a server
that has no array.
"""
from libc.stdint cimport intptr_t

cdef extern from "numpy/arrayobject.h":
    enum:
        NPY_INT32
        NPY_INT64
        NPY_UINT64
    ctypedef struct PyArrayObject:
        pass
    void** PyArray_API
    int _import_array() except -1
    object PyArray_EMPTY(int dimensions, intptr_t* shape, int type_number, int fortran)
    object PyArray_ZEROS(int dimensions, intptr_t* shape, int type_number, int fortran)
    bint PyArray_CheckExact(object) noexcept
    void* PyArray_DATA(PyArrayObject*) noexcept
    bint PyArray_ISCARRAY_RO(PyArrayObject*) noexcept
    int PyArray_NDIM(PyArrayObject*) noexcept
    int PyArray_TYPE(PyArrayObject*) noexcept
    intptr_t PyArray_SIZE(PyArrayObject*) noexcept


cdef inline int need_arrays() except -1:
    """Load the API; call it before any of the above: each module has its own pointer."""
    if PyArray_API == NULL:
        _import_array()
    return 0


cdef inline void* data_of(object array) noexcept:
    return PyArray_DATA(<PyArrayObject*>array)


cdef inline intptr_t size_of(object array) noexcept:
    return PyArray_SIZE(<PyArrayObject*>array)


cdef inline bint is_column(object values, int type_number) noexcept:
    """Whether it is a contiguous array of one dimension and this type."""
    cdef PyArrayObject* array = <PyArrayObject*>values
    return (PyArray_CheckExact(values) and PyArray_NDIM(array) == 1
            and PyArray_TYPE(array) == type_number and PyArray_ISCARRAY_RO(array))
