"""Records of consumer groups as bytes."""
from coterie._core.codec.encode cimport Writing

cdef int put_records(Writing* w, str group_id, list records) except -1
