"""Kafka's checksums, and the hash that chooses a group's partition, as Python functions.

Thin wrappers of the headers in src/c: they check the arguments and release the GIL.
Cost: one pass over the data.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from coterie._core.checks cimport buffer_of, int32_of, text_of

from coterie.errors import ArgumentError

coterie_crc32c_init()     # for compilers that cannot run it at load: see crc_soft.h
coterie_crc32_init()


cdef inline const uint8_t* start(const uint8_t[::1] data) noexcept:
    # An empty view has no element to take the address of.
    return &data[0] if data.shape[0] else <const uint8_t*> b""


def crc32c(data):
    """Return CRC-32C (Castagnoli), the sum of record batches v2, as an unsigned 32-bit number."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    cdef const uint8_t* at = start(view)
    cdef uint32_t result
    with nogil:
        result = coterie_crc32c(at, view.shape[0])
    return result


def _crc32c_soft(data):
    """Compute CRC-32C by tables, so that a test can compare it with the processor's instruction."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    return coterie_crc32c_soft(start(view), view.shape[0])


def crc32(data):
    """Return CRC-32 (IEEE), the sum of message sets v0 and v1; equal to ``zlib.crc32``."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    cdef const uint8_t* at = start(view)
    cdef uint32_t result
    with nogil:
        result = coterie_crc32(at, view.shape[0])
    return result


def xxh32(data, uint32_t seed=0):
    """Return xxHash32, whose second byte is the header checksum of an LZ4 frame."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    cdef const uint8_t* at = start(view)
    cdef uint32_t result
    with nogil:
        result = coterie_xxh32(at, view.shape[0], seed)
    return result


def java_hash(str text not None):
    """Return Java's ``String.hashCode``: h = 31 h + c over the UTF-16 code units, in int32."""
    cdef bytes raw = text.encode("utf-8", "surrogatepass")
    return coterie_java_hash(raw, len(raw))


def partition_for(group_id, partitions=50):
    """Return the partition of ``__consumer_offsets`` that holds a group."""
    cdef int32_t count = int32_of(partitions, "partitions")
    if count <= 0:
        raise ArgumentError(f"a topic has at least one partition, not {count}")
    cdef bytes raw = text_of(group_id, "group_id").encode("utf-8", "surrogatepass")
    return coterie_partition_for(coterie_java_hash(raw, len(raw)), count)
