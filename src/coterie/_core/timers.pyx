"""Hierarchical timing wheel on a virtual clock. Reads no clock; runs no callback.

A timer lies at the level of the highest 10-bit digit in which its deadline differs from the
clock, so every occupied slot of a level lies ahead and the lowest occupied level comes first.
Slots are arrays of (node, filing): arming appends, moving a timer to a later deadline writes the
node alone (its entry is filed anew when its old slot comes up), cancelling leaves a stale entry.
So arming, moving and cancelling are O(1); a timer is filed at most once a level before it fires.
Order of firing: deadline, then arming. Source: SystemTimer.java, TimingWheel.java (whose order
within one deadline differs across levels; trace-format fixes it as here).
"""
cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcpy, memset

from coterie._core.arguments cimport column_of, int64_of

import numpy as np

from coterie.errors import ArgumentError

cnp.import_array()

cdef enum:
    AHEAD = 12                     # how far bulk loops look ahead of themselves, in nodes
    FEW = 512                      # keys that fire without an array to grow
    SMALL = 24                     # up to here insertion beats a general sort
    STALE_SLACK = 4096

cdef int by_deadline(const void* a, const void* b) noexcept nogil:
    cdef const Due* x = <const Due*>a
    cdef const Due* y = <const Due*>b
    if x.deadline_ms != y.deadline_ms:
        return -1 if x.deadline_ms < y.deadline_ms else 1
    return (x.seq > y.seq) - (x.seq < y.seq)


cdef object int64_array(const int64_t* items, int64_t count, int64_t capacity):
    """An array with room for `capacity`, of which the first `count` are written."""
    cdef cnp.npy_intp shape = capacity
    array = cnp.PyArray_EMPTY(1, &shape, cnp.NPY_INT64, 0)
    if count:
        memcpy(cnp.PyArray_DATA(array), items, count * sizeof(int64_t))
    return array


@cython.final
cdef class TimerWheel:
    """See ``timers.pyi``."""

    def __cinit__(self, now_ms=0):
        self.clock_ms = int64_of(now_ms, "now_ms")
        self.free_head = NO_NODE
        self.due_sorted = True

    def __dealloc__(self):
        cdef int i
        for i in range(LEVELS * SLOTS):
            free(self.slots[i].items)
        free(self.nodes)
        free(self.due)

    def __len__(self):
        return self.size

    @property
    def now_ms(self):
        return self.clock_ms

    def add(self, deadline_ms, key):
        return self.arm(int64_of(deadline_ms, "deadline_ms"), int64_of(key, "key"))

    def rearm(self, handle, deadline_ms):
        return self.move(int64_of(handle, "handle"), int64_of(deadline_ms, "deadline_ms"))

    def cancel(self, handle):
        return self.drop(int64_of(handle, "handle"))

    def add_many(self, deadlines_ms, keys):
        cdef const int64_t[::1] deadlines = column_of(deadlines_ms, "deadlines_ms", cnp.NPY_INT64)
        cdef const int64_t[::1] names = column_of(keys, "keys", cnp.NPY_INT64)
        cdef Py_ssize_t n, count = deadlines.shape[0]
        if names.shape[0] != count:
            raise ArgumentError(f"{count} deadlines_ms, but {names.shape[0]} keys")
        handles = np.empty(count, dtype=np.int64)
        cdef int64_t[::1] out = handles
        self.reserve(self.size + count)
        for n in range(count):
            out[n] = self.arm(deadlines[n], names[n])
        return handles

    def rearm_many(self, handles, deadlines_ms):
        cdef const int64_t[::1] which = column_of(handles, "handles", cnp.NPY_INT64)
        cdef const int64_t[::1] deadlines = column_of(deadlines_ms, "deadlines_ms", cnp.NPY_INT64)
        cdef Py_ssize_t n, count = which.shape[0]
        if deadlines.shape[0] != count:
            raise ArgumentError(f"{count} handles, but {deadlines.shape[0]} deadlines_ms")
        armed = np.empty(count, dtype=np.bool_)
        cdef uint8_t[::1] out = armed.view(np.uint8)
        for n in range(count):
            if n + AHEAD < count:
                # A wrong index is only prefetched, never read.
                coterie_prefetch(self.nodes + <uint32_t>which[n + AHEAD])
            out[n] = self.move(which[n], deadlines[n])
        return armed

    def cancel_many(self, handles):
        cdef const int64_t[::1] which = column_of(handles, "handles", cnp.NPY_INT64)
        cdef Py_ssize_t n, count = which.shape[0]
        armed = np.empty(count, dtype=np.bool_)
        cdef uint8_t[::1] out = armed.view(np.uint8)
        for n in range(count):
            out[n] = self.drop(which[n])
        return armed

    def next_deadline_ms(self):
        cdef int64_t deadline_ms = 0
        return deadline_ms if self.earliest(&deadline_ms) else None

    def advance(self, now_ms):
        return self.fire_until(int64_of(now_ms, "now_ms"))

    cdef object fire_until(self, int64_t now_ms):
        cdef int64_t few[FEW]
        cdef int64_t* keys = few
        cdef int64_t count = 0, capacity = FEW, i
        cdef Due* due
        cdef object fired = None
        if now_ms < self.clock_ms:
            raise ArgumentError(f"time runs forward only: now_ms {now_ms} < {self.clock_ms}")
        while True:
            self.sort_due()
            while self.due_head < self.due_count:
                due = &self.due[self.due_head]
                self.due_head += 1
                i = due.entry.node
                if not self.live(due.entry):
                    self.stale -= 1
                    continue
                if self.nodes[i].deadline_ms > self.clock_ms:
                    self.file(<int32_t>i)
                    continue
                if count == capacity:
                    # No more than these can follow, and what is not written to costs nothing.
                    capacity = count + self.size
                    fired = int64_array(keys, count, capacity)
                    keys = <int64_t*>cnp.PyArray_DATA(fired)
                keys[count] = self.nodes[i].key
                count += 1
                self.release(i)
            self.due_head = self.due_count = 0
            if not self.step(now_ms):
                break
        self.clock_ms = now_ms
        if fired is None or 2 * count < capacity:      # hold no more than twice what fired
            return int64_array(keys, count, count)
        return fired[:count]

    cdef int64_t arm(self, int64_t deadline_ms, int64_t key) except -1:
        cdef int64_t i
        if self.free_head == NO_NODE:
            self.reserve(self.size + 1)
        i = self.free_head
        cdef Node* node = &self.nodes[i]
        self.free_head = node.deadline_ms
        node.deadline_ms = deadline_ms
        node.seq = self.seq
        node.generation = (node.generation + 1) & 0x7FFFFFFF
        node.key = key
        self.seq += 1
        self.size += 1
        if self.next_known and deadline_ms < self.next_ms:
            self.next_ms = deadline_ms
        elif self.size == 1:
            self.next_known = True
            self.next_ms = deadline_ms
        self.file(<int32_t>i)
        return <int64_t>node.generation << 32 | i

    cdef bint move(self, int64_t handle, int64_t deadline_ms) except -1:
        """A new arming of the timer; False if the handle's timer fired or was cancelled."""
        cdef int64_t i = self.find(handle)
        if i < 0:
            return False
        cdef Node* node = &self.nodes[i]
        if self.next_known:
            if node.deadline_ms == self.next_ms:
                self.next_known = False
            elif deadline_ms < self.next_ms:
                self.next_ms = deadline_ms
        cdef bint earlier = deadline_ms < node.deadline_ms
        node.deadline_ms = deadline_ms
        node.seq = self.seq
        self.seq += 1
        if earlier or deadline_ms <= self.clock_ms:
            # The entry may come up too late, or (among what is due) in its old place.
            self.stale += 1
            self.file(<int32_t>i)
            self.sweep()
        return True

    cdef bint drop(self, int64_t handle) except -1:
        cdef int64_t i = self.find(handle)
        if i < 0:
            return False
        self.stale += 1
        self.release(i)
        self.sweep()
        return True

    cdef bint pop(self, int64_t limit_ms, int64_t* key, int64_t* deadline_ms) except -1:
        """Take the next timer due up to the limit, moving the clock to its deadline.

        False: there is none, and the clock stands at the limit.
        """
        cdef Due* due
        cdef int64_t i
        while True:
            self.sort_due()
            while self.due_head < self.due_count:
                due = &self.due[self.due_head]
                self.due_head += 1
                i = due.entry.node
                if not self.live(due.entry):
                    self.stale -= 1
                elif self.nodes[i].deadline_ms > self.clock_ms:
                    self.file(<int32_t>i)
                else:
                    key[0] = self.nodes[i].key
                    deadline_ms[0] = self.nodes[i].deadline_ms
                    self.release(i)
                    return True
            self.due_head = self.due_count = 0
            if not self.step(limit_ms):
                if limit_ms > self.clock_ms:
                    self.clock_ms = limit_ms
                return False

    cdef int64_t deadline_of(self, int64_t handle) except? -7:
        cdef int64_t i = self.find(handle)
        if i < 0:
            raise KeyError(f"no timer of handle {handle} is armed")
        return self.nodes[i].deadline_ms

    cdef bint earliest(self, int64_t* deadline_ms) except -1:
        """The earliest deadline of all; False without timers. Files what lies too early anew."""
        cdef int level, word, index
        cdef int64_t start_ms = 0, best_ms = 0
        cdef uint64_t bits
        cdef bint found = False
        cdef Due* due
        if self.size and not self.next_known:
            self.sort_due()
            while self.due_head < self.due_count and not found:
                due = &self.due[self.due_head]
                if not self.live(due.entry):
                    self.stale -= 1
                    self.due_head += 1
                elif self.nodes[due.entry.node].deadline_ms > self.clock_ms:
                    self.due_head += 1
                    self.file(due.entry.node)
                else:
                    best_ms = due.deadline_ms
                    found = True
            for level in range(LEVELS):
                for word in range(WORDS):
                    bits = self.occupied[level][word]
                    while bits:
                        index = level * SLOTS + word * 64 + coterie_ctz64(bits)
                        bits &= bits - 1
                        start_ms = self.start_of(index)
                        if found and best_ms <= start_ms:
                            break
                        found |= self.scan(index, start_ms, &best_ms)
                        # What was filed anew went to later slots of this word, too.
                        bits = self.occupied[level][word] & ~(
                            (<uint64_t>2 << (index & 63)) - 1)
            self.next_known = True
            self.next_ms = best_ms
        deadline_ms[0] = self.next_ms
        return self.size > 0

    cdef inline int64_t start_of(self, int index) noexcept:
        """The first millisecond of a slot."""
        cdef int level = index // SLOTS
        cdef uint64_t clock = ordered(self.clock_ms), above = 0
        if BITS * (level + 1) < 64:
            above = (clock >> (BITS * (level + 1))) << (BITS * (level + 1))
        return <int64_t>ordered(<int64_t>(
            above | <uint64_t>(index & (SLOTS - 1)) << (BITS * level)))

    cdef bint scan(self, int index, int64_t start_ms, int64_t* best_ms) except -1:
        """Keep the entries that belong into this slot, file the rest anew; the least deadline."""
        cdef Slot slot = self.slots[index]
        cdef int32_t n, kept = 0
        cdef bint found = False
        cdef int64_t deadline_ms
        for n in range(slot.count):
            if not self.live(slot.items[n]):
                self.stale -= 1
                continue
            deadline_ms = self.nodes[slot.items[n].node].deadline_ms
            if slot_of(self.clock_ms, deadline_ms) != index:
                self.file(slot.items[n].node)      # a later slot: this array is not touched
                continue
            if not found or deadline_ms < best_ms[0]:
                best_ms[0] = deadline_ms
                found = True
            slot.items[kept] = slot.items[n]
            kept += 1
        self.slots[index].count = kept
        if kept == 0:
            self.vacate(index)
        return found

    cdef inline int64_t find(self, int64_t handle) noexcept:
        """The node of a handle whose timer is armed, or -1."""
        cdef int64_t i = <int64_t><uint32_t>handle
        if handle < 0 or i >= self.capacity or not (handle >> 32) & 1:
            return -1
        return i if self.nodes[i].generation == <uint32_t>(handle >> 32) else -1

    cdef inline bint live(self, Entry entry) noexcept:
        cdef Node* node = &self.nodes[entry.node]
        return node.generation & 1 and node.filing == entry.filing

    cdef inline int file(self, int32_t i) except -1:
        cdef Node* node = &self.nodes[i]
        cdef Entry entry
        node.filing += 1
        entry.node = i
        entry.filing = node.filing
        if node.deadline_ms <= self.clock_ms:
            return self.enter_due(entry)
        return self.enter(slot_of(self.clock_ms, node.deadline_ms), entry)

    cdef inline int enter(self, int index, Entry entry) except -1:
        cdef Slot* slot = &self.slots[index]
        cdef Entry* larger
        cdef int32_t capacity
        if slot.count == slot.capacity:
            capacity = 2 * slot.capacity + 8
            larger = <Entry*>realloc(slot.items, capacity * sizeof(Entry))
            if larger == NULL:
                raise MemoryError
            slot.items = larger
            slot.capacity = capacity
        if slot.count == 0:
            self.occupied[index // SLOTS][(index & (SLOTS - 1)) >> 6] |= (
                <uint64_t>1 << (index & 63))
            self.summary[index // SLOTS] |= <uint32_t>1 << ((index & (SLOTS - 1)) >> 6)
        slot.items[slot.count] = entry
        slot.count += 1
        return 0

    cdef void vacate(self, int index) noexcept:
        cdef int level = index // SLOTS, word = (index & (SLOTS - 1)) >> 6
        self.occupied[level][word] &= ~(<uint64_t>1 << (index & 63))
        if self.occupied[level][word] == 0:
            self.summary[level] &= ~(<uint32_t>1 << word)
        self.slots[index].count = 0

    cdef int enter_due(self, Entry entry) except -1:
        cdef Due* due
        cdef int64_t capacity
        if self.due_count == self.due_capacity:
            capacity = 2 * self.due_capacity + 64
            due = <Due*>realloc(self.due, capacity * sizeof(Due))
            if due == NULL:
                raise MemoryError
            self.due = due
            self.due_capacity = capacity
        due = &self.due[self.due_count]
        due.deadline_ms = self.nodes[entry.node].deadline_ms
        due.seq = self.nodes[entry.node].seq
        due.entry = entry
        if self.due_count > self.due_head and before(due, due - 1):
            self.due_sorted = False
        self.due_count += 1
        return 0

    cdef int sort_due(self) except -1:
        cdef Due* due = self.due + self.due_head
        cdef Due held
        cdef int64_t n, at, count = self.due_count - self.due_head
        if self.due_sorted:
            return 0
        self.due_sorted = True
        if count > SMALL:
            qsort(due, count, sizeof(Due), by_deadline)
            return 0
        for n in range(1, count):
            held = due[n]
            at = n
            while at > 0 and before(&held, &due[at - 1]):
                due[at] = due[at - 1]
                at -= 1
            due[at] = held
        return 0

    cdef inline void release(self, int64_t i) noexcept:
        cdef Node* node = &self.nodes[i]
        if self.next_known and node.deadline_ms == self.next_ms:
            self.next_known = False
        node.generation = (node.generation + 1) & 0x7FFFFFFF
        node.deadline_ms = self.free_head
        self.free_head = i
        self.size -= 1

    cdef int reserve(self, int64_t count) except -1:
        """Room for `count` timers in all."""
        cdef int64_t i, capacity = self.capacity
        cdef Node* nodes
        if count <= capacity:
            return 0
        capacity = max(count, 2 * capacity, 64)
        if capacity > 0x7FFFFFFF:
            raise MemoryError(f"{count} timers are more than a wheel holds ({0x7FFFFFFF})")
        nodes = <Node*>realloc(self.nodes, capacity * sizeof(Node))
        if nodes == NULL:
            raise MemoryError
        self.nodes = nodes
        memset(nodes + self.capacity, 0, (capacity - self.capacity) * sizeof(Node))
        for i in range(capacity - 1, self.capacity - 1, -1):
            nodes[i].deadline_ms = self.free_head
            self.free_head = i
        self.capacity = capacity
        return 0

    cdef inline int first(self, int64_t* start_ms) noexcept:
        """The slot that comes first, or NO_NODE, and when it starts."""
        cdef int level, word, index
        for level in range(LEVELS):
            if self.summary[level]:
                word = coterie_ctz64(self.summary[level])
                index = level * SLOTS + word * 64 + coterie_ctz64(self.occupied[level][word])
                start_ms[0] = self.start_of(index)
                return index
        return NO_NODE

    cdef bint step(self, int64_t limit_ms) except -1:
        """Open the first slot that starts by the limit: to the due ones, or a level down."""
        cdef int64_t start_ms = 0
        cdef int index = self.first(&start_ms)
        cdef int32_t n
        cdef Slot slot
        if index == NO_NODE or start_ms > limit_ms:
            return False
        self.clock_ms = start_ms
        # Take the array out before any entry goes back, or one could be met twice.
        slot = self.slots[index]
        self.vacate(index)
        if index >= SLOTS:
            self.slots[index].items = NULL
            self.slots[index].capacity = 0
        try:
            for n in range(slot.count):
                if n + AHEAD < slot.count:
                    coterie_prefetch(self.nodes + slot.items[n + AHEAD].node)
                if self.live(slot.items[n]):
                    self.file(slot.items[n].node)
                else:
                    self.stale -= 1
        finally:
            if index >= SLOTS:
                free(slot.items)
        return True

    cdef int sweep(self) except -1:
        """Drop the stale entries once they outnumber the timers: memory stays O(timers)."""
        cdef int index
        cdef int32_t n, kept
        cdef int64_t m, left
        cdef Slot* slot
        if self.stale <= self.size + STALE_SLACK:
            return 0
        for index in range(LEVELS * SLOTS):
            slot = &self.slots[index]
            kept = 0
            for n in range(slot.count):
                if self.live(slot.items[n]):
                    slot.items[kept] = slot.items[n]
                    kept += 1
            if slot.count and not kept:
                self.vacate(index)
            slot.count = kept
        left = self.due_head
        for m in range(self.due_head, self.due_count):
            if self.live(self.due[m].entry):
                self.due[left] = self.due[m]
                left += 1
        self.due_count = left
        self.stale = 0
        return 0
