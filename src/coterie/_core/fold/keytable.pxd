"""A hash table from the bytes of a key to its entry. Header only: inlined into the fold.

Open addressing. Entries stand in the order in which their keys were first seen, so the partitions
that a group commits together are neighbours in memory. The fold's table has a value for each
offset key; other tables use the index alone, to number names.

An entry is a function of what came before the scanned piece. `base_seq` is the last record that
set or removed the value unconditionally; after it, only markers of transactions can have set it.
So two pieces compose (`fold.pyx`), and the result does not depend on where a log is cut.

A tombstone leaves pending commits to their marker in Kafka 3.x. The coordinator of 4.x removes them
(OffsetMetadataManager.replay). Only a later record may show which of the two wrote a log, so an
entry has its value by the rule of 3.x, and the place of its last tombstone. The markers of 3.x set
the newest value, so by the rule of 4.x it is that one, or none if the tombstone is newer still.

The fold of the log `wide` takes 46 to 52 ms, 11 of them to read and check the records. The rest
goes to keys and values: 137,385 entries of 88 bytes do not fit the caches. Huge pages for the table
brought no gain.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset

from coterie._core.fold.metadata_arena cimport MetadataArena, arena_free, arena_put, arena_widen

cdef extern from "keyhash.h" nogil:
    uint64_t coterie_keyhash(const uint8_t* key, size_t size)
    bint coterie_equal(const uint8_t* one, const uint8_t* other, size_t size)
    bint coterie_is_ascii(const uint8_t* at, size_t size)

cdef extern from *:
    """
    #define coterie_prefetch(p) __builtin_prefetch(p)
    """
    void coterie_prefetch(const void* p) noexcept nogil

cdef enum:
    NO_INDEX = -1
    FAR = 16                     # entries ahead, whose metadata is prefetched before it is copied
    TOPIC_ID_SIZE = 16
    OWNED = 1                    # `value.metadata` points into the table's own memory
    BORROWS = 2                  # the entry is in `borrowers`

cdef packed struct Value:        # of 50 bytes, each field aligned: so an entry has 88
    int64_t batch_offset         # offset of the first record of the batch that holds it
    int64_t offset
    int64_t commit_timestamp     # ms
    int64_t expire_timestamp     # ms, -1: none
    const uint8_t* metadata
    int32_t leader_epoch         # -1: none
    uint32_t topic_id            # number in the table's `topic_ids`, from 1 on; 0: none
    uint16_t metadata_size

cdef struct Entry:
    uint64_t key_at              # in the arena
    int64_t removed_at           # greatest batch offset of a plain tombstone; -1: none
    int64_t base_seq             # ordinal of the last plain value or tombstone; -1: none
    int64_t won_seq              # ordinal at which `value` was set; -1: there was none yet
    Value value
    uint8_t present              # whether `value` is one; else only the last one's time is
    uint8_t memory               # OWNED, BORROWS
    uint32_t key_size

cdef struct Table:
    uint64_t* slots              # upper half: of the hash; lower half: index + 1, 0 = free
    uint64_t mask
    Entry* entries
    uint32_t count
    uint32_t capacity
    uint8_t* arena
    uint64_t arena_size
    uint64_t arena_capacity
    uint32_t* borrowers          # entries whose metadata may be borrowed; see `own_all`
    uint32_t borrower_count
    MetadataArena metadata
    Table* topic_ids             # of the values; NULL in a table of names
    uint32_t recent_topic_id     # of a table of topic ids: the number that was looked up last


cdef inline int table_init(Table* table) except -1:
    """Make the slots of a table that is all zeros, as a part of a new object is."""
    table.mask = 1023
    table.slots = <uint64_t*>calloc(table.mask + 1, sizeof(uint64_t))
    if table.slots == NULL:
        raise MemoryError
    return 0


cdef inline void table_free(Table* table) noexcept:
    arena_free(&table.metadata)
    free(table.slots)
    free(table.entries)
    free(table.borrowers)
    free(table.arena)


cdef inline int table_widen(Table* table) noexcept nogil:
    """Double the slots. -1: no memory, and nothing changed."""
    cdef uint64_t mask = table.mask * 2 + 1, i, at, word
    cdef uint64_t* slots = <uint64_t*>calloc(mask + 1, sizeof(uint64_t))
    if slots == NULL:
        return -1
    for i in range(table.mask + 1):
        word = table.slots[i]
        if word:
            at = (word >> 32) & mask
            while slots[at]:
                at = (at + 1) & mask
            slots[at] = word
    free(table.slots)
    table.slots = slots
    table.mask = mask
    return 0


cdef inline int table_reserve(Table* table, uint32_t key_size) noexcept nogil:
    """Make room for one more entry and its key. -1: no memory.

    A small table grows fourfold: untouched pages cost nothing, and each copy touches all of them.
    """
    cdef uint64_t want
    cdef void* grown
    if table.count == table.capacity:
        want = table.capacity * (4 if table.capacity < 1 << 20 else 2) if table.capacity else 256
        if want > 0x7FFFFFFF:
            return -1
        grown = realloc(table.entries, want * sizeof(Entry))
        if grown == NULL:
            return -1
        table.entries = <Entry*>grown
        grown = realloc(table.borrowers, want * sizeof(uint32_t))
        if grown == NULL:
            return -1
        table.borrowers = <uint32_t*>grown
        table.capacity = <uint32_t>want
    if table.arena_size + key_size > table.arena_capacity:
        want = table.arena_capacity * (4 if table.arena_capacity < 1 << 26 else 2)
        want += key_size + 4096
        grown = realloc(table.arena, want)
        if grown == NULL:
            return -1
        table.arena = <uint8_t*>grown
        table.arena_capacity = want
    if table.count * 2 >= table.mask:
        return table_widen(table)
    return 0


cdef inline int64_t table_find(const Table* table, uint64_t hash, const uint8_t* key,
                               uint32_t size) noexcept nogil:
    """Return the index of a key; NO_INDEX: the table lacks it."""
    cdef uint64_t tag = hash >> 32, at = tag & table.mask, word
    cdef const Entry* entry
    while True:
        word = table.slots[at]
        if word == 0:
            return NO_INDEX
        if word >> 32 == tag:
            entry = &table.entries[<uint32_t>word - 1]
            if entry.key_size == size and coterie_equal(table.arena + entry.key_at, key, size):
                return <int64_t>(<uint32_t>word - 1)
        at = (at + 1) & table.mask


cdef inline int64_t table_intern(Table* table, uint64_t hash, const uint8_t* key,
                                 uint32_t size) noexcept nogil:
    """Return the index of a key, new or known; NO_INDEX: no memory."""
    cdef uint64_t tag = hash >> 32, at
    cdef Entry* entry
    cdef int64_t index = table_find(table, hash, key, size)
    if index >= 0:
        return index
    if table_reserve(table, size) != 0:
        return NO_INDEX
    at = tag & table.mask                       # the slots may have been widened
    while table.slots[at]:
        at = (at + 1) & table.mask
    table.slots[at] = tag << 32 | (table.count + 1)
    entry = &table.entries[table.count]
    memset(entry, 0, sizeof(Entry))
    entry.key_at = table.arena_size
    entry.key_size = size
    entry.base_seq = entry.won_seq = entry.removed_at = -1
    if size > 0:                  # before the first name with bytes there is no arena
        memcpy(table.arena + table.arena_size, key, size)
    table.arena_size += size
    table.count += 1
    return table.count - 1


cdef inline const uint8_t* topic_id_at(const Table* ids, uint32_t number) noexcept nogil:
    """Return the 16 bytes of a topic id by its number; NULL for 0: none."""
    return ids.arena + (number - 1) * TOPIC_ID_SIZE if number else NULL


cdef inline int64_t topic_id_number(Table* ids, const uint8_t* topic_id) noexcept nogil:
    """Return the number of a topic id, 0 for NULL: none. -1: no memory."""
    cdef int64_t index
    if topic_id == NULL:
        return 0
    if ids.recent_topic_id == 0 or memcmp(
            topic_id, topic_id_at(ids, ids.recent_topic_id), TOPIC_ID_SIZE) != 0:
        index = table_intern(ids, coterie_keyhash(topic_id, TOPIC_ID_SIZE), topic_id,
                             TOPIC_ID_SIZE)
        if index < 0:
            return -1
        ids.recent_topic_id = <uint32_t>(index + 1)
    return ids.recent_topic_id


cdef inline int number_topic_id(Table* table, const uint8_t* topic_id,
                                Value* value) noexcept nogil:
    """Set the number of a value's topic id, NULL: none. -1: no memory."""
    cdef int64_t number = topic_id_number(table.topic_ids, topic_id)
    value.topic_id = <uint32_t>number if number > 0 else 0
    return -1 if number < 0 else 0


cdef inline void prefetch_slot(const Table* table, uint64_t hash) noexcept nogil:
    coterie_prefetch(&table.slots[(hash >> 32) & table.mask])


cdef inline void prefetch_entry(const Table* table, uint64_t hash) noexcept nogil:
    cdef uint64_t word = table.slots[(hash >> 32) & table.mask]
    if word:
        prefetch_value(&table.entries[<uint32_t>word - 1])


cdef inline void prefetch_value(const Entry* entry) noexcept nogil:
    coterie_prefetch(entry)
    coterie_prefetch(&entry.value.metadata)


cdef inline void prefetch_key(const Table* table, uint64_t hash) noexcept nogil:
    """Prefetch the bytes of a key whose entry `prefetch_entry` has brought."""
    cdef uint64_t word = table.slots[(hash >> 32) & table.mask]
    cdef const uint8_t* key
    if word:
        key = table.arena + table.entries[<uint32_t>word - 1].key_at
        coterie_prefetch(key)
        coterie_prefetch(key + 40)


cdef inline void drop_metadata(Table* table, Entry* entry) noexcept nogil:
    if entry.memory & OWNED:
        table.metadata.used -= entry.value.metadata_size
        entry.memory &= ~OWNED


cdef inline void set_value(Table* table, Entry* entry, const Value* value,
                           int64_t seq) noexcept nogil:
    """Set the value of an entry, which borrows `value.metadata` until `own_metadata`."""
    drop_metadata(table, entry)
    entry.value = value[0]
    entry.present = True
    entry.won_seq = seq
    if value.metadata_size and not entry.memory & BORROWS:
        entry.memory |= BORROWS
        table.borrowers[table.borrower_count] = <uint32_t>(entry - table.entries)
        table.borrower_count += 1


cdef inline int table_room(Table* table, uint64_t size) noexcept nogil:
    """Make room for `size` bytes of metadata: one more block, or one for all if half is unused.
    Visiting every key is amortised: at least 16 bytes were written for each since the last visit.
    -1: no memory."""
    cdef MetadataArena* arena = &table.metadata
    cdef MetadataArena fresh
    cdef Entry* entry
    cdef uint32_t i
    if arena.used * 2 > arena.allocated:
        return arena_widen(arena, arena.allocated if arena.allocated > size else size)
    memset(&fresh, 0, sizeof(MetadataArena))
    if arena_widen(&fresh, 2 * (arena.used + size) + 16 * <uint64_t>table.count) != 0:
        return -1
    for i in range(table.count):
        entry = &table.entries[i]
        if entry.memory & OWNED:
            entry.value.metadata = arena_put(
                &fresh, entry.value.metadata, entry.value.metadata_size)
    arena_free(arena)
    arena[0] = fresh
    return 0


cdef inline int own_metadata(Table* table, Entry* entry) noexcept nogil:
    """Copy borrowed metadata, before the bytes that it points into are freed. -1: no memory."""
    cdef uint64_t size = entry.value.metadata_size
    if entry.memory & OWNED or not entry.present or size == 0:
        return 0
    if size > table.metadata.room and table_room(table, size) != 0:
        entry.value.metadata_size = 0
        return -1
    entry.value.metadata = arena_put(&table.metadata, entry.value.metadata, size)
    entry.memory |= OWNED
    return 0


cdef inline int own_all(Table* table) noexcept nogil:
    """Call `own_metadata` for every entry that may borrow. Prefetches, as the metadata is scattered
    over the log's bytes."""
    cdef Entry* entry
    cdef uint32_t i
    cdef int missing = 0
    for i in range(table.borrower_count):
        if i + FAR < table.borrower_count:
            coterie_prefetch(table.entries[table.borrowers[i + FAR]].value.metadata)
        entry = &table.entries[table.borrowers[i]]
        entry.memory &= ~BORROWS
        missing |= own_metadata(table, entry)
    table.borrower_count = 0
    return missing


cdef inline void set_plain(Table* table, Entry* entry, const Value* value,
                           int64_t seq) noexcept nogil:
    """Apply a plain commit, unconditionally (GroupMetadataManager.doLoadGroupsAndOffsets)."""
    set_value(table, entry, value, seq)
    entry.base_seq = seq


cdef inline void remove_plain(Table* table, Entry* entry, int64_t batch_offset,
                              int64_t seq) noexcept nogil:
    """Apply a plain tombstone, unconditionally as well."""
    drop_metadata(table, entry)
    entry.present = False
    entry.removed_at = max(entry.removed_at, batch_offset)
    entry.base_seq = seq


cdef inline bint is_removed(const Entry* entry, int64_t batch_offset, bint of_4x) noexcept nogil:
    """Whether a tombstone removed a transaction's commit that the rule of 3.x leaves."""
    return of_4x and batch_offset < entry.removed_at


cdef inline bint is_visible(const Entry* entry, bint of_4x) noexcept nogil:
    return entry.present and (entry.won_seq == entry.base_seq or not is_removed(
        entry, entry.value.batch_offset, of_4x))


cdef inline bint set_if_newer(Table* table, Entry* entry, const Value* value,
                              int64_t seq) noexcept nogil:
    """Apply a pending value at its COMMIT marker, whose ordinal is `seq`. True: it was set.

    Markers may be applied late, after records that follow them in the log. A value is set unless
    something unconditional came after the marker; of two equal offsets the first one stays.
    """
    if entry.base_seq > seq:
        return False
    if entry.present and (entry.value.batch_offset > value.batch_offset or (
            entry.value.batch_offset == value.batch_offset and entry.won_seq <= seq)):
        return False
    set_value(table, entry, value, seq)
    return True
