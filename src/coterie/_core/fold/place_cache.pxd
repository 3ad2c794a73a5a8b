"""A cache from (group, topic, partition) to the key's index in the table. Header only: inlined.

A group commits the same partitions over and over. Group and topic, as they stand in a key, get a
number, and an array under that number has the index of each partition's key: no hash of the key,
no comparison of its slot. The cache is exact: names are compared byte for byte, and the index of a
key never changes. A partition that is not in the cache is looked up in the table.

Guessing that a key's entry follows the last one's was right for 84 % of the records, and brought
no gain.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from coterie._core.codec.cursor cimport load_i32
from coterie._core.fold.keytable cimport (
    Table, coterie_equal, coterie_keyhash, table_free, table_intern)

cdef enum:
    RECENT = 256                 # slots for names seen last
    RECENT_SHIFT = 56            # of a 64-bit product: its upper bits choose the slot
    NAMES_MIN = 8                # bytes of the shortest names in the cache, lengths included
    PLACES_A_KEY = 8             # on average and at most: 32 bytes
    PARTITIONS_MAX = 4096        # partitions from here on are not in the cache

cdef struct Pair:                # the group and topic seen last with this hash
    uint64_t at                  # in the arena of `names`
    int32_t size                 # 0: nothing yet
    uint32_t number

cdef struct Range:               # the partitions of a group and topic in `places`
    uint32_t first
    uint32_t count

cdef struct PlaceCache:
    Table names
    Range* ranges                # by number
    uint32_t range_capacity
    uint32_t* places             # index in the table + 1; 0: unknown
    uint64_t place_count, place_capacity
    Pair recent[RECENT]


cdef inline void cache_free(PlaceCache* cache) noexcept:
    table_free(&cache.names)
    free(cache.ranges)
    free(cache.places)


cdef inline Pair* recent_slot(PlaceCache* cache, const uint8_t* key, int32_t size) noexcept nogil:
    cdef uint64_t middle, last
    memcpy(&middle, key + ((size - 8) >> 1), 8)
    memcpy(&last, key + size - 8, 8)
    last = (last ^ <uint64_t>size) * <uint64_t>0x9E3779B97F4A7C15 ^ middle
    return &cache.recent[last * <uint64_t>0xD1B54A32D192ED03 >> RECENT_SHIFT]


cdef inline int64_t cache_find_names(PlaceCache* cache, const uint8_t* key,
                                     int32_t size) noexcept nogil:
    """Return the number of recently seen names, which begin a key after its version.

    -1: they were not seen recently; see `cache_add_names`.
    """
    cdef const Pair* names
    if size < NAMES_MIN:
        return -1
    names = recent_slot(cache, key, size)
    if names.size != size or not coterie_equal(cache.names.arena + names.at, key, size):
        return -1
    return names.number


cdef inline int64_t cache_add_names(PlaceCache* cache, const uint8_t* key,
                                    int32_t size) noexcept nogil:
    """Return the number of names, new or known. -1: too short, or no memory: not in the cache."""
    cdef int64_t number
    cdef Pair* names
    cdef void* grown
    if size < NAMES_MIN:
        return -1
    number = table_intern(&cache.names, coterie_keyhash(key, size), key, size)
    if number < 0:
        return -1
    if cache.names.capacity > cache.range_capacity:
        grown = realloc(cache.ranges, cache.names.capacity * sizeof(Range))
        if grown == NULL:
            return -1
        cache.ranges = <Range*>grown
        memset(cache.ranges + cache.range_capacity, 0,
               (cache.names.capacity - cache.range_capacity) * sizeof(Range))
        cache.range_capacity = cache.names.capacity
    names = recent_slot(cache, key, size)
    names.at = cache.names.entries[number].key_at
    names.size, names.number = size, <uint32_t>number
    return number


cdef inline int64_t cache_find_place(const PlaceCache* cache, int64_t number,
                                     int32_t partition) noexcept nogil:
    """Return the index of the key in the table; -1: unknown."""
    cdef const Range* range_ = &cache.ranges[number]
    if <uint32_t>partition >= range_.count:
        return -1
    return <int64_t>cache.places[range_.first + <uint32_t>partition] - 1


cdef inline bint cache_widen(PlaceCache* cache, uint32_t number, uint32_t count) noexcept nogil:
    """Make room for `count` partitions of these names; their old places stay unused."""
    cdef Range* range_ = &cache.ranges[number]
    cdef uint64_t want = cache.place_count + count
    cdef void* grown
    if want >> 32:
        return False
    if want > cache.place_capacity:
        grown = realloc(cache.places, 2 * want * sizeof(uint32_t))
        if grown == NULL:
            return False
        cache.places = <uint32_t*>grown
        cache.place_capacity = 2 * want
    memset(cache.places + cache.place_count, 0, count * sizeof(uint32_t))
    if range_.count:
        memcpy(cache.places + cache.place_count, cache.places + range_.first,
               range_.count * sizeof(uint32_t))
    range_.first = <uint32_t>cache.place_count
    range_.count = count
    cache.place_count = want
    return True


cdef inline void cache_add_place(PlaceCache* cache, int64_t number, int32_t partition,
                                 int64_t index, uint32_t keys) noexcept nogil:
    """Store the index of a key in a table of `keys` keys. Does nothing without memory, or if a few
    high partitions would take too much of it."""
    cdef uint32_t count = 4
    if <uint32_t>partition >= PARTITIONS_MAX:
        return
    if <uint32_t>partition >= cache.ranges[number].count:
        while count <= <uint32_t>partition:
            count *= 2
        if cache.place_count + count > <uint64_t>keys * PLACES_A_KEY + PARTITIONS_MAX:
            return
        if not cache_widen(cache, <uint32_t>number, count):
            return
    cache.places[cache.ranges[number].first + <uint32_t>partition] = <uint32_t>index + 1
