"""The metadata of a table's keys, end to end in blocks of memory. Header only: inlined.

A block never moves, so what points into one stays good. What a key needs no longer lies there
dead; before more is taken, a table whose blocks are half dead copies what lives into one new block
(`keytable.table_room`). So the blocks hold a small multiple of what lived at once, however often
metadata changes.
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
    uint64_t alive               # bytes that keys point to
    uint64_t held                # bytes of all blocks


cdef inline int arena_widen(MetadataArena* arena, uint64_t size) noexcept nogil:
    """One more block, of so many bytes. -1: no memory, and nothing changed."""
    cdef Block* block
    size = size if size > BLOCK_MIN else BLOCK_MIN
    block = <Block*>malloc(sizeof(Block) + size)
    if block == NULL:
        return -1
    block.before = arena.last
    arena.last, arena.at, arena.room = block, <uint8_t*>(block + 1), size
    arena.held += size
    return 0


cdef inline const uint8_t* arena_put(MetadataArena* arena, const uint8_t* at,
                                     uint64_t size) noexcept nogil:
    """Where the copy of bytes lies; the caller has seen to the room."""
    cdef uint8_t* copy = arena.at
    memcpy(copy, at, size)
    arena.at += size
    arena.room -= size
    arena.alive += size
    return copy


cdef inline void arena_free(MetadataArena* arena) noexcept nogil:
    cdef Block* block = arena.last
    cdef Block* before
    while block != NULL:
        before = block.before
        free(block)
        block = before
