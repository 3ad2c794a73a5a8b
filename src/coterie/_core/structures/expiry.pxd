"""Which commits have expired: one rule for arrays of times."""
from libc.stdint cimport int64_t, uint64_t

# ---- checks of columns: declarations -------------------------------------------------------------

cdef object column_of(object values, str name, int type_number)

# ---- when offsets expire: declarations -----------------------------------------------------------

cdef enum:
    NO_TIME = -1                   # no expiry of its own

cpdef str expiry_rule(str protocol_type, bint empty, bint stable, int64_t since_ms,
                      bint topics_known)


cdef inline bint is_expired(int64_t expire_ms, int64_t base_ms, int64_t now_ms,
                            int64_t retention_ms) noexcept nogil:
    if expire_ms != NO_TIME:
        return now_ms >= expire_ms
    # Java's subtraction wraps; so does this one.
    return <int64_t>(<uint64_t>now_ms - <uint64_t>base_ms) >= retention_ms
