"""The fields with which Heartbeat and OffsetCommit begin: the member and its group. Header only."""
from libc.stdint cimport int32_t

from coterie._core.codec.cursor cimport NEGATIVE, OK, Cursor, Status, read_i32, read_string16
from coterie._core.codec.layout cimport skip_tags
from coterie._core.fast_path.texts cimport Text, read_text

cdef struct MemberHeader:
    int32_t correlation_id
    int32_t generation_id
    Text group
    Text member
    Text instance              # null where the version has none


cdef inline Status read_header(Cursor* cur, bint flexible, bint with_instance,
                               MemberHeader* header) noexcept nogil:
    """Read from the correlation id to the instance id; group and member must not be null."""
    cdef Text client
    cdef Status status = read_i32(cur, &header.correlation_id)
    if status == OK:
        status = read_string16(cur, &client.at, &client.size)
    if status == OK and flexible:
        status = skip_tags(cur)
    if status == OK:
        status = read_text(cur, flexible, &header.group)
    if status == OK:
        status = read_i32(cur, &header.generation_id)
    if status == OK:
        status = read_text(cur, flexible, &header.member)
    if status == OK and (header.group.size < 0 or header.member.size < 0):
        status = NEGATIVE
    header.instance.size = -1
    if status == OK and with_instance:
        status = read_text(cur, flexible, &header.instance)
    return status
