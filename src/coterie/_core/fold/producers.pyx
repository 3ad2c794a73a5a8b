"""What the producers of a piece of log left open, and what their first marker says of before.

Few among millions of records: Python objects. Source: GroupMetadataManager, whose loader holds a
producer's offsets back until its marker.
"""
from libc.stdint cimport int32_t

from coterie._core.fold.keytable cimport Value


class Producer:
    """See ``producers.pyi``."""

    __slots__ = ("before", "first_committed", "first_seq", "pending")

    def __init__(self):
        self.first_seq = -1
        self.first_committed = False
        self.before = frozenset()
        self.pending = {}


cdef bytes unpack_value(tuple pending, Value* out):
    """The metadata is borrowed from the bytes that are returned: hold them until it is copied."""
    cdef bytes metadata = pending[5]
    out.position = pending[0]
    out.offset = pending[1]
    out.commit_timestamp = pending[2]
    out.expire_timestamp = pending[3]
    out.leader_epoch = pending[4]
    out.metadata = metadata
    out.metadata_size = <int32_t>len(metadata)
    return metadata
