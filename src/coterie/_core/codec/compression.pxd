"""Checksums of batches, and compression of their records."""
from libc.stdint cimport int32_t, uint32_t, uint8_t

# ---- the checksums and hashes of src/c, for modules that call them without Python objects --------

cdef extern from "crc32c.h" nogil:
    void coterie_crc32c_init()
    uint32_t coterie_crc32c(const uint8_t* data, size_t size)
    uint32_t coterie_crc32c_soft(const uint8_t* data, size_t size)

cdef extern from "crc32.h" nogil:
    void coterie_crc32_init()
    uint32_t coterie_crc32(const uint8_t* data, size_t size)

cdef extern from "xxh32.h" nogil:
    uint32_t coterie_xxh32(const uint8_t* data, size_t size, uint32_t seed)

cdef extern from "javahash.h" nogil:
    int32_t coterie_java_hash(const uint8_t* text, size_t size)
    int32_t coterie_partition_for(int32_t hash, int32_t partitions)
