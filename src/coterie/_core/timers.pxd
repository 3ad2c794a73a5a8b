"""The timer wheel's C face, for the coordinator to cimport."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef enum:
    BITS = 10                      # 1024 slots a level: 1 ms, 1 s, 17 min, 12 d, 34 y, ...
    SLOTS = 1024
    WORDS = 16                     # 64-slot words of one level's occupancy
    LEVELS = 7                     # 70 bits: every int64 has its place
    NO_NODE = -1

cdef struct Node:                  # 32 bytes: two to a cache line
    int64_t deadline_ms            # while free: the next free node
    uint64_t seq                   # order of arming; breaks ties, so firing is total
    int64_t key
    uint32_t generation            # odd while armed; a handle carries it, so it hits no other timer
    uint32_t filing                # number of the entry that is good; older entries are stale

cdef struct Entry:
    int32_t node
    uint32_t filing

cdef struct Slot:
    Entry* items
    int32_t count
    int32_t capacity

cdef struct Due:
    int64_t deadline_ms
    uint64_t seq
    Entry entry

cdef extern from *:
    """
    static inline int coterie_ctz64(uint64_t x) { return __builtin_ctzll(x); }
    static inline int coterie_top64(uint64_t x) { return 63 - __builtin_clzll(x); }
    #define coterie_prefetch(p) __builtin_prefetch(p, 1)
    """
    int coterie_ctz64(uint64_t x) noexcept nogil
    int coterie_top64(uint64_t x) noexcept nogil
    void coterie_prefetch(void* p) noexcept nogil


cdef inline uint64_t ordered(int64_t at_ms) noexcept nogil:
    """Signed order as unsigned order: every int64 has digits."""
    return <uint64_t>at_ms ^ (<uint64_t>1 << 63)


cdef inline int slot_of(int64_t clock_ms, int64_t deadline_ms) noexcept nogil:
    """Where a deadline after the clock lies: level * SLOTS + digit."""
    cdef uint64_t at = ordered(deadline_ms)
    # `| (SLOTS - 1)`: whatever differs in the last digit alone lies at level 0.
    cdef int level = coterie_top64((at ^ ordered(clock_ms)) | (SLOTS - 1)) // BITS
    return level * SLOTS + <int>((at >> (BITS * level)) & (SLOTS - 1))


cdef inline bint before(const Due* a, const Due* b) noexcept nogil:
    return a.deadline_ms < b.deadline_ms or (a.deadline_ms == b.deadline_ms and a.seq < b.seq)


cdef class TimerWheel:
    cdef Node* nodes
    cdef int64_t capacity
    cdef int64_t free_head
    cdef int64_t size              # timers armed and not yet fired
    cdef uint64_t seq
    cdef int64_t clock_ms
    cdef int64_t stale             # entries whose node has moved on
    cdef bint next_known
    cdef int64_t next_ms           # the earliest deadline, if next_known
    cdef Due* due                  # deadlines that are not after the clock, in order from due_head
    cdef int64_t due_head
    cdef int64_t due_count
    cdef int64_t due_capacity
    cdef bint due_sorted
    cdef uint64_t occupied[LEVELS][WORDS]
    cdef uint32_t summary[LEVELS]  # which words of `occupied` are not zero
    cdef Slot slots[LEVELS * SLOTS]

    cdef object fire_until(self, int64_t now_ms)
    cdef int64_t arm(self, int64_t deadline_ms, int64_t key) except -1
    cdef bint move(self, int64_t handle, int64_t deadline_ms) except -1
    cdef bint drop(self, int64_t handle) except -1
    cdef bint pop(self, int64_t limit_ms, int64_t* key, int64_t* deadline_ms) except -1
    cdef int64_t deadline_of(self, int64_t handle) except? -7
    cdef bint earliest(self, int64_t* deadline_ms) except -1

    cdef int64_t find(self, int64_t handle) noexcept
    cdef int file(self, int32_t i) except -1
    cdef int enter(self, int index, Entry entry) except -1
    cdef int enter_due(self, Entry entry) except -1
    cdef int sort_due(self) except -1
    cdef bint live(self, Entry entry) noexcept
    cdef void release(self, int64_t i) noexcept
    cdef int reserve(self, int64_t count) except -1
    cdef int first(self, int64_t* start_ms) noexcept
    cdef void vacate(self, int index) noexcept
    cdef bint step(self, int64_t limit_ms) except -1
    cdef bint scan(self, int index, int64_t start_ms, int64_t* best_ms) except -1
    cdef int sweep(self) except -1
    cdef int64_t start_of(self, int index) noexcept
