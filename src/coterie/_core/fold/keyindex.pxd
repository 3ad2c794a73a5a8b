"""The keys of commits as numbers, with their last record. Header only: inlined into `record_scan`.

Two keys are the same if Java reads the same names from their bytes: two names that are not UTF-8
may be one to Kafka. Recent names cost one comparison, and a partition of theirs one array access
(``place_cache.pxd``). Cost: 64 bytes a key beside its entry in the table.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset
from coterie._core.codec.cursor cimport OK, load_i32
from coterie._core.fold.commit cimport (
    KEY_ENDS, Commit, canonical, commit_key, read_commit_key)
from coterie._core.fold.keytable cimport (
    Table, coterie_is_ascii, coterie_keyhash, table_free, table_init, table_intern)
from coterie._core.fold.place_cache cimport (
    PlaceCache, cache_free, cache_add_names, cache_add_place, cache_find_names, cache_find_place)

cdef enum:
    KEY_FAULTY = -1
    KEY_NOT_REQUESTED = -2       # of a group that is not requested
    NO_MEMORY = -3

cdef enum Before:                # a key's last record that counts
    NO_RECORD = 0
    TOMBSTONE = 1
    TOMBSTONE_OF_OTHER_TOPIC = 2  # of the same name, before it was created again with another id
    COMMIT = 3
    COMMIT_TO_OTHER_TOPIC = 4

cdef struct Key:                 # of a commit, and its last record that counts
    int32_t group
    int32_t topic                # -1: the key is not filled in yet
    int32_t partition
    int32_t before               # of `Before`; NO_RECORD: what follows is undefined
    int64_t row                  # counts the rows of all pieces
    int64_t offset
    int64_t log_offset
    int64_t timestamp
    int64_t topic_id_high        # of the last commit that has an id; -1, -1: none has
    int64_t topic_id_low

cdef struct KeyIndex:
    Table keys
    Table groups
    Table topics
    PlaceCache place_cache
    int32_t* group_of            # of the names that the place cache numbers
    uint32_t group_count
    Key* items
    uint32_t capacity
    int32_t requested_groups     # groups of a lower number are requested; -1: all are


cdef inline int key_index_init(KeyIndex* index) except -1:
    table_init(&index.keys)
    table_init(&index.groups)
    table_init(&index.topics)
    return table_init(&index.place_cache.names)


cdef inline void key_index_free(KeyIndex* index) noexcept:
    table_free(&index.keys)
    table_free(&index.groups)
    table_free(&index.topics)
    cache_free(&index.place_cache)
    free(index.group_of)
    free(index.items)


cdef inline int32_t name_number(Table* names, const uint8_t* name, int32_t size) noexcept nogil:
    """Return the number of a name, new or known, or NO_MEMORY."""
    cdef int64_t number
    if not coterie_is_ascii(name, size):
        return non_ascii_name_number(names, name, size)
    number = table_intern(names, coterie_keyhash(name, size), name, size)
    return NO_MEMORY if number < 0 else <int32_t>number


cdef inline int32_t non_ascii_name_number(Table* names, const uint8_t* name,
                                          int32_t size) noexcept with gil:
    cdef bytes text
    cdef const uint8_t* start
    cdef int64_t number
    try:
        text = canonical(name[:size])
    except MemoryError:
        return NO_MEMORY
    start = text
    number = table_intern(names, coterie_keyhash(start, len(text)), start, <uint32_t>len(text))
    return NO_MEMORY if number < 0 else <int32_t>number


cdef inline int64_t intern_key(KeyIndex* index, const Commit* commit) noexcept nogil:
    if (coterie_is_ascii(commit.group, commit.group_size)
            and coterie_is_ascii(commit.topic, commit.topic_size)):
        return table_intern(&index.keys, coterie_keyhash(commit.key, commit.key_size), commit.key,
                            commit.key_size)
    return intern_non_ascii_key(index, commit)


cdef inline int64_t intern_non_ascii_key(KeyIndex* index, const Commit* commit) noexcept with gil:
    cdef bytes key
    cdef const uint8_t* start
    try:
        key = commit_key(canonical(commit.group[:commit.group_size]),
                         canonical(commit.topic[:commit.topic_size]), commit.partition)
    except MemoryError:
        return NO_MEMORY
    start = key
    return table_intern(&index.keys, coterie_keyhash(start, len(key)), start, <uint32_t>len(key))


cdef inline bint room_for_group(KeyIndex* index, int64_t names) noexcept nogil:
    cdef uint32_t want = index.place_cache.names.capacity
    cdef void* grown
    if names >= index.group_count:
        grown = realloc(index.group_of, want * sizeof(int32_t))
        if grown == NULL:
            return False
        index.group_of = <int32_t*>grown
        memset(index.group_of + index.group_count, 0xFF,
               (want - index.group_count) * sizeof(int32_t))
        index.group_count = want
    return True


cdef inline int32_t add_key(KeyIndex* index, const Commit* commit, int32_t group) noexcept nogil:
    """Return the number of a key that is not in the place cache."""
    cdef int64_t number = intern_key(index, commit)
    cdef int32_t topic
    cdef void* grown
    if number < 0:
        return NO_MEMORY
    if number >= index.capacity:
        grown = realloc(index.items, index.keys.capacity * sizeof(Key))
        if grown == NULL:
            return NO_MEMORY
        index.items = <Key*>grown
        memset(index.items + index.capacity, 0xFF,
               (index.keys.capacity - index.capacity) * sizeof(Key))
        index.capacity = index.keys.capacity
    if index.items[number].topic < 0:
        topic = name_number(&index.topics, commit.topic, commit.topic_size)
        if topic < 0:
            return NO_MEMORY
        index.items[number].group, index.items[number].topic = group, topic
        index.items[number].partition = commit.partition
        index.items[number].before = NO_RECORD
    return <int32_t>number


cdef inline int32_t key_number(KeyIndex* index, const uint8_t* key, int32_t size,
                               int32_t* group) noexcept nogil:
    """Return the number of a key and fill in its group's, which is -1 before. Below 0: KEY_FAULTY,
    KEY_NOT_REQUESTED or NO_MEMORY."""
    cdef int32_t names_size = size - KEY_ENDS
    cdef int64_t names = cache_find_names(&index.place_cache, key + 2, names_size), place = -1
    cdef Commit commit
    cdef int32_t number
    commit.key = NULL
    if names >= 0:
        group[0] = index.group_of[names]
    else:
        if read_commit_key(key, size, &commit) != OK:
            return KEY_FAULTY
        names_size = commit.key_size - 4          # without bytes after the key
        names = cache_add_names(&index.place_cache, key + 2, names_size)
        if names >= 0:
            if not room_for_group(index, names):
                return NO_MEMORY
            group[0] = index.group_of[names]
        if group[0] < 0:
            group[0] = name_number(&index.groups, commit.group, commit.group_size)
            if group[0] < 0:
                return NO_MEMORY
            if names >= 0:
                index.group_of[names] = group[0]
    if 0 <= index.requested_groups <= group[0]:
        return KEY_NOT_REQUESTED
    if names >= 0:
        place = cache_find_place(&index.place_cache, names, load_i32(key + 2 + names_size))
        if place >= 0:
            return <int32_t>place
    if commit.key == NULL and read_commit_key(key, size, &commit) != OK:
        return KEY_FAULTY
    number = add_key(index, &commit, group[0])
    if names >= 0 and number >= 0:
        cache_add_place(&index.place_cache, names, commit.partition, number, index.keys.count)
    return number
