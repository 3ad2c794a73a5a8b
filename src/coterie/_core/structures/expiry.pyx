"""When offsets expire: by which rule, and for whole columns which of them.

It knows no map of offsets and no clock: times are arguments. Cost: `expired` is one pass over the
columns without the GIL, `expiry_rule` is O(1).
Source: GroupMetadata.scala (removeExpiredOffsets). Rules: docs/rules/offsets.md#expiration.
"""
from libc.stdint cimport int64_t, uint8_t

from coterie._core.checks cimport int64_of
from coterie._core.structures.arguments cimport column_of
from coterie._core.structures.arrays cimport NPY_INT64

from coterie.errors import ArgumentError

cdef extern from "expired.h":
    void coterie_expired(const int64_t* base_ms, const int64_t* expire_ms, size_t count,
                         int64_t now_ms, int64_t retention_ms, uint8_t* out) nogil


cpdef str expiry_rule(str protocol_type, bint empty, bint stable, int64_t since_ms,
                      bint topics_known):
    """Return by which rule a group's offsets expire; None: none of them does."""
    if protocol_type is None:
        return "standalone"
    if empty:
        return "empty_commit" if since_ms == -1 else "empty_since"
    return "not_subscribed" if protocol_type == "consumer" and stable and topics_known else None


def _times(values, str name, Py_ssize_t count):
    """Return a column of milliseconds; a single value is repeated `count` times."""
    if count >= 0 and (isinstance(values, int) or getattr(values, "ndim", 1) == 0):
        import numpy as np

        return np.full(count, int64_of(values, name), dtype=np.int64)
    column = column_of(values, name, NPY_INT64)
    if count >= 0 and column.size != count:
        raise ArgumentError(f"{name} must be a column of {count} values, not of {column.size}")
    return column


def expired(commit_ms, expire_ms, now_ms, retention_ms, base_ms=None, keep=None):
    """Say which offsets have expired, by Kafka's rule since 2.1, for whole columns."""
    cdef int64_t now = int64_of(now_ms, "now_ms")
    cdef int64_t retention = int64_of(retention_ms, "retention_ms")
    commits = _times(commit_ms, "commit_ms", -1)
    cdef Py_ssize_t count = commits.size
    cdef const int64_t[::1] base = commits if base_ms is None else _times(
        base_ms, "base_ms", count)
    cdef const int64_t[::1] explicit = _times(
        NO_TIME if expire_ms is None else expire_ms, "expire_ms", count)
    import numpy as np

    out = np.empty(count, dtype=np.bool_)
    cdef uint8_t[::1] flags = out.view(np.uint8)
    if count:
        with nogil:
            coterie_expired(&base[0], &explicit[0], count, now, retention, &flags[0])
    if keep is not None:
        try:
            kept_rows = np.asarray(keep)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"keep must be a column of bools: {error}") from None
        if kept_rows.dtype != np.bool_ or kept_rows.shape != out.shape:
            raise ArgumentError(f"keep must be a column of {count} bools")
        out &= ~kept_rows
    return out
