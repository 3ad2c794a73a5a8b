"""The slots of the timing wheel: nodes, the entries that refer to them, and the occupied slots.

Header only: inlined into `timers.pyx`, which describes the wheel.

Cost: one visit to a timer's node, 0.7 misses of the last-level cache for each re-arm in order, 1.3
in random order (`benchmarks/limits/misses.py`). Bulk loops prefetch the nodes. A copy of the
deadline in the entries of the slots brought no gain.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport realloc

cdef extern from *:
    """
    static inline int coterie_ctz64(uint64_t x) { return __builtin_ctzll(x); }
    static inline int coterie_top64(uint64_t x) { return 63 - __builtin_clzll(x); }
    #define coterie_prefetch(p) __builtin_prefetch(p, 1)
    """
    int coterie_ctz64(uint64_t x) noexcept nogil
    int coterie_top64(uint64_t x) noexcept nogil
    void coterie_prefetch(void* p) noexcept nogil

cdef enum:
    BITS = 10                      # 1024 slots a level: 1 ms, 1 s, 17 min, 12 d, 34 y, ...
    SLOTS = 1024
    WORDS = 16                     # 64-slot words of one level's occupancy
    LEVELS = 7                     # 70 bits: every int64 has its place
    NO_NODE = -1
    AHEAD = 12                     # how far bulk loops look ahead of themselves, in nodes

cdef struct Node:                  # 32 bytes: two to a cache line
    int64_t deadline_ms            # while free: the next free node
    uint64_t seq                   # order of arming; breaks ties, so firing is total
    int64_t key
    uint32_t generation            # odd while armed; a handle carries it, so it hits no other timer
    uint32_t filing                # number of the entry that is good; older entries are stale

cdef struct TimerRef:
    int32_t node
    uint32_t filing

cdef struct Slot:
    TimerRef* items
    int32_t count
    int32_t capacity

cdef struct Slots:                 # level by level
    uint64_t occupied[LEVELS][WORDS]
    uint32_t summary[LEVELS]       # which words of `occupied` are not zero
    Slot at[LEVELS * SLOTS]


cdef inline bint live(const Node* node, TimerRef entry) noexcept nogil:
    return node.generation & 1 and node.filing == entry.filing


cdef inline Node* node_ahead(Node* nodes, const Slot* slot, int32_t n) noexcept nogil:
    """Return the node of an entry, and prefetch that of a later one."""
    if n + AHEAD < slot.count:
        coterie_prefetch(nodes + slot.items[n + AHEAD].node)
    return &nodes[slot.items[n].node]


cdef inline void release_node(Node* nodes, int64_t i, int64_t* free_head) noexcept nogil:
    """Add an armed node to the free list; its handle becomes invalid."""
    cdef Node* node = &nodes[i]
    node.generation = (node.generation + 1) & 0x7FFFFFFF
    node.deadline_ms = free_head[0]
    free_head[0] = i


cdef inline uint64_t ordered(int64_t at_ms) noexcept nogil:
    """Map signed order to unsigned order, so that every int64 has digits."""
    return <uint64_t>at_ms ^ (<uint64_t>1 << 63)


cdef inline int slot_of(int64_t clock_ms, int64_t deadline_ms) noexcept nogil:
    """Return the slot of a deadline after the clock: level * SLOTS + digit."""
    cdef uint64_t at = ordered(deadline_ms)
    # `| (SLOTS - 1)`: whatever differs in the last digit alone lies at level 0.
    cdef int level = coterie_top64((at ^ ordered(clock_ms)) | (SLOTS - 1)) // BITS
    return level * SLOTS + <int>((at >> (BITS * level)) & (SLOTS - 1))


cdef inline int64_t start_of(int64_t clock_ms, int index) noexcept nogil:
    """Return the first millisecond of a slot."""
    cdef int level = index // SLOTS
    cdef uint64_t above = 0
    if BITS * (level + 1) < 64:
        above = (ordered(clock_ms) >> (BITS * (level + 1))) << (BITS * (level + 1))
    return <int64_t>ordered(<int64_t>(above | <uint64_t>(index & (SLOTS - 1)) << (BITS * level)))


cdef inline int first_slot(
    const Slots* slots, int64_t clock_ms, int64_t limit_ms, int64_t* start_ms
) noexcept nogil:
    """Return the first slot and its start; NO_NODE if none starts by the limit."""
    cdef int level, word, index
    for level in range(LEVELS):
        if slots.summary[level]:
            word = coterie_ctz64(slots.summary[level])
            index = level * SLOTS + word * 64 + coterie_ctz64(slots.occupied[level][word])
            start_ms[0] = start_of(clock_ms, index)
            return index if start_ms[0] <= limit_ms else NO_NODE
    return NO_NODE


cdef inline bint grow(Slot* slot) noexcept nogil:
    cdef int32_t capacity = 2 * slot.capacity + 8
    cdef TimerRef* larger = <TimerRef*>realloc(slot.items, capacity * sizeof(TimerRef))
    if larger == NULL:
        return False
    slot.items = larger
    slot.capacity = capacity
    return True


cdef inline bint enter(Slots* slots, int index, TimerRef entry) noexcept nogil:
    """Append an entry to a slot; False: no memory."""
    cdef Slot* slot = &slots.at[index]
    if slot.count == slot.capacity and not grow(slot):
        return False
    if slot.count == 0:
        slots.occupied[index // SLOTS][(index & (SLOTS - 1)) >> 6] |= <uint64_t>1 << (index & 63)
        slots.summary[index // SLOTS] |= <uint32_t>1 << ((index & (SLOTS - 1)) >> 6)
    slot.items[slot.count] = entry
    slot.count += 1
    return True


cdef inline void vacate(Slots* slots, int index) noexcept nogil:
    cdef int level = index // SLOTS, word = (index & (SLOTS - 1)) >> 6
    slots.occupied[level][word] &= ~(<uint64_t>1 << (index & 63))
    if slots.occupied[level][word] == 0:
        slots.summary[level] &= ~(<uint32_t>1 << word)
    slots.at[index].count = 0


cdef inline Slot take(Slots* slots, int index) noexcept nogil:
    """Empty a slot. The caller gets its entries, and above level 0 owns the array.

    Otherwise an entry that is filed again during the caller's loop could be visited twice.
    """
    cdef Slot slot = slots.at[index]
    vacate(slots, index)
    if index >= SLOTS:
        slots.at[index].items = NULL
        slots.at[index].capacity = 0
    return slot


cdef inline void drop_stale(Slots* slots, const Node* nodes) noexcept nogil:
    cdef int index
    cdef int32_t n, kept
    cdef Slot* slot
    for index in range(LEVELS * SLOTS):
        slot = &slots.at[index]
        kept = 0
        for n in range(slot.count):
            if live(&nodes[slot.items[n].node], slot.items[n]):
                slot.items[kept] = slot.items[n]
                kept += 1
        if slot.count and not kept:
            vacate(slots, index)
        slot.count = kept
