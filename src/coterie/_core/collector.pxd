"""Python's garbage collector, paused while many objects without cycles are made."""

cdef extern from "Python.h":
    bint PyGC_Disable()        # whether it was enabled
    bint PyGC_Enable()
