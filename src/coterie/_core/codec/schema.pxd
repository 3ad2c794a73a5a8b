"""What a load needs of the schemas. See schema.pyx."""

cdef dict group_fields(bytes value)
