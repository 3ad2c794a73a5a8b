"""Checks of columns that callers hand over. See arguments.pyx."""

cdef object column_of(object values, str name, int type_number)
