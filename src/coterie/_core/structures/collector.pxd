"""What Python's cycle collector need not visit: containers that nothing leads back to.

Many groups have many of them, and each collection would read them all from memory.
"""

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object container) noexcept
