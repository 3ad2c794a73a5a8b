"""The memory of commit metadata: bytes end to end in blocks. Header only: inlined into the table.

A block never moves, so pointers into it stay valid. Metadata that was replaced stays in its block,
unused. When half of all bytes are unused, the table copies the rest into one new block before it
allocates more (`keytable.table_room`). So the blocks take a small multiple of the bytes in use,
however often metadata changes.
"""
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef enum:
    BLOCK_MIN = 4096

cdef struct Block:               # its bytes follow
    Block* before

cdef struct MetadataArena:       # all zeros: empty
    Block* last
    uint8_t* at                  # the first free byte of the last block
    uint64_t room                # bytes that are free there
    uint64_t used                # bytes that keys point to
    uint64_t allocated           # bytes of all blocks


cdef inline int arena_widen(MetadataArena* arena, uint64_t size) noexcept nogil:
    """Add a block of `size` bytes. -1: no memory, and nothing changed."""
    cdef Block* block
    size = size if size > BLOCK_MIN else BLOCK_MIN
    block = <Block*>malloc(sizeof(Block) + size)
    if block == NULL:
        return -1
    block.before = arena.last
    arena.last, arena.at, arena.room = block, <uint8_t*>(block + 1), size
    arena.allocated += size
    return 0


cdef inline const uint8_t* arena_put(MetadataArena* arena, const uint8_t* at,
                                     uint64_t size) noexcept nogil:
    """Copy bytes into the last block, in which the caller has made room; return the copy."""
    memcpy(arena.at, at, size)
    arena.at += size
    arena.room -= size
    arena.used += size
    return arena.at - size


cdef inline void arena_free(MetadataArena* arena) noexcept nogil:
    cdef Block* block = arena.last
    cdef Block* before
    while block != NULL:
        before = block.before
        free(block)
        block = before
