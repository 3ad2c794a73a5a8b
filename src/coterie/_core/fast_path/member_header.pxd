"""The fields with which heartbeats and commits begin: the member and its group. Header only."""
from libc.stdint cimport int32_t

from coterie._core.codec.cursor cimport NEGATIVE, OK, Cursor, Status, read_i32, read_string16
from coterie._core.codec.layout cimport skip_tags
from coterie._core.fast_path.texts cimport Text, read_text

cdef struct MemberHeader:
    int32_t correlation_id
    int32_t generation_id      # or the member's epoch
    Text client
    Text group
    Text member
    Text instance              # null where the version has none


cdef inline Status read_header(Cursor* cur, bint flexible, bint with_instance, bint member_first,
                               MemberHeader* header) noexcept nogil:
    """Read from the correlation id to the instance id; group and member must not be null.

    `member_first`: the member's id is before its epoch.
    """
    cdef Status status = read_i32(cur, &header.correlation_id)
    if status == OK:
        status = read_string16(cur, &header.client.at, &header.client.size)
    if status == OK and flexible:
        status = skip_tags(cur)
    if status == OK:
        status = read_text(cur, flexible, &header.group)
    if status == OK and not member_first:
        status = read_i32(cur, &header.generation_id)
    if status == OK:
        status = read_text(cur, flexible, &header.member)
    if status == OK and member_first:
        status = read_i32(cur, &header.generation_id)
    if status == OK and (header.group.size < 0 or header.member.size < 0):
        status = NEGATIVE
    header.instance.size = -1
    if status == OK and with_instance:
        status = read_text(cur, flexible, &header.instance)
    return status
