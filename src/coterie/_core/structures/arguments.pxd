"""Checks of columns: declarations."""

cdef object column_of(object values, str name, int type_number)
