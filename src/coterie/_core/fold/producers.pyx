"""What the producers of a piece of log left open, and what their first marker says of before.

Few among millions of records: Python objects. Source: GroupMetadataManager, whose loader holds a
producer's offsets back until its marker.
"""
from collections import namedtuple

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


Committed = namedtuple(
    "Committed",
    "batch_offset offset commit_timestamp expire_timestamp leader_epoch metadata", module=__name__)
Committed.__doc__ = """See ``producers.pyi``."""


cdef bytes unpack_value(object pending, Value* out):
    """The metadata is borrowed from the bytes that are returned: hold them until it is copied."""
    cdef bytes metadata
    (out.batch_offset, out.offset, out.commit_timestamp, out.expire_timestamp, out.leader_epoch,
     metadata) = pending
    out.metadata = metadata
    out.metadata_size = <int32_t>len(metadata)
    return metadata
