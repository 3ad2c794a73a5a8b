"""Which commits have expired: one rule for arrays of times.

Times are int64 milliseconds; -1 is no time of its own. Arrays of another type are converted where
no value changes, and refused where one would.
Source: GroupMetadata.scala (getExpiredOffsets).
"""
from libc.stdint cimport int64_t, intptr_t, uint8_t

from coterie._core.checks cimport int64_of
from coterie._core.structures.arrays cimport NPY_INT64, PyArray_EMPTY, is_column, need_arrays

from coterie.errors import ArgumentError


# ---- checks of columns of whole numbers that callers pass, done once at the edge -----------------
# Single values are checked in `checks`. A column that would have to be changed is refused.
# Cost: one call a column, nothing an element, unless the column has another integer type.

cdef object column_of(object values, str name, int type_number):
    """Return a contiguous column of this type (NPY_INT64); a lossy change is refused."""
    need_arrays()
    if is_column(values, type_number):
        return values
    import numpy as np

    cdef intptr_t rows = 0
    cdef object dtype = PyArray_EMPTY(1, &rows, type_number, 0).dtype
    try:
        column = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{name} must be a column of integers: {error}") from None
    if column.ndim == 1 and column.dtype.kind in "Of":
        nulls = np.flatnonzero([value is None or value != value for value in column])
        if nulls.size:
            raise ArgumentError(f"{name} has no value in row {nulls[0]}: fill its nulls, e.g. "
                                "with -1")
    if column.ndim != 1 or (column.dtype.kind not in "iu" and column.size):
        raise ArgumentError(f"{name} must be a column of integers, not {column.dtype} "
                            f"of {column.ndim} dimensions")
    if column.size:
        bounds = np.iinfo(dtype)
        if column.min() < bounds.min or column.max() > bounds.max:
            raise ArgumentError(f"{name} must fit {bounds.bits} bits: it has {column.min()} "
                                f"to {column.max()}")
    return np.ascontiguousarray(column, dtype=dtype)


# ---- when offsets expire: the rule of a group, and the expired offsets of whole columns ----------
# It knows no map of offsets and no clock: times are arguments. Cost: `expired` is one pass over the
# columns without the GIL, `expiry_rule` is O(1).
# Source: GroupMetadata.scala (removeExpiredOffsets). Rules: docs/rules/offsets.md#expiration.

cdef extern from "expired.h":
    void coterie_expired(const int64_t* base_ms, const int64_t* expire_ms, size_t count,
                         int64_t now_ms, int64_t retention_ms, uint8_t* out) nogil


cpdef str expiry_rule(str protocol_type, bint empty, bint stable, int64_t since_ms,
                      bint topics_known):
    """Return the rule by which a group's offsets expire; None: they do not expire."""
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
    """Return which offsets have expired, by Kafka's rule since 2.1, for whole columns."""
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
