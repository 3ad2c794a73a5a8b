"""Python's garbage collector, which may rest while many objects are made that no cycle holds."""

cdef extern from "Python.h":
    bint PyGC_Disable()        # whether it was at work until now
    bint PyGC_Enable()
