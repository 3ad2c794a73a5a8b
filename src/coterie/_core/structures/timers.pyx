"""A hierarchical timing wheel on a virtual clock. It reads no clock and calls nothing.

A timer is at the level of the highest 10-bit digit in which its deadline differs from the clock. So
every occupied slot of a level is ahead of the clock, and the lowest occupied level is the next.
Slots are arrays of (node, filing). Arming appends an entry. A move to a later deadline changes the
node alone; its entry is filed again when its old slot is opened. Cancelling leaves a stale entry.
Cost: O(1) to arm, move or cancel; a timer is filed at most once a level, and a full second is fired
without a further filing. Order of firing: deadline, then arming. Kafka's order differs:
docs/rules/trace-format.md#order. Source: SystemTimer.java, TimingWheel.java.
"""
cimport cython
from libc.stdint cimport (
    INT64_MAX, int32_t, int64_t, intptr_t, uint8_t, uint32_t, uint64_t)
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from coterie._core.structures.expiry cimport column_of
from coterie._core.structures.arrays cimport (
    NPY_INT64, PyArray_EMPTY, data_of, need_arrays)
from coterie._core.checks cimport int64_of, need_pickled
from coterie._core.structures.due_queue cimport Due, drop_stale_due, keys_by_firing, next_due, push
from coterie._core.structures.slots cimport (
    AHEAD, LEVELS, NO_NODE, SLOTS, TimerRef, Node, Slot, coterie_prefetch, drop_stale, enter,
    first_slot, live, node_ahead, release_node, slot_of, take, vacate
)

from struct import Struct
from zlib import crc32

from coterie.errors import ArgumentError, CorruptData

cdef extern from "pages.h" nogil:
    void coterie_large_pages(void* start, size_t size) noexcept

cdef enum:
    FEW = 512                      # keys that fire without an array to grow
    MANY = 256                     # timers of a second from which counting its slots pays
    STALE_SLACK = 4096
    PICKLED = 1                    # the form of a pickled wheel

STATE = Struct("<qQq")             # clock, next arming, first free node; then the nodes

cdef object int64_array(const int64_t* items, int64_t count, int64_t capacity):
    """Return an array of `capacity`; its first `count` elements are copies of `items`."""
    cdef intptr_t shape = capacity
    need_arrays()
    array = PyArray_EMPTY(1, &shape, NPY_INT64, 0)
    if count:
        memcpy(data_of(array), items, count * sizeof(int64_t))
    return array


@cython.final
cdef class TimerWheel:
    """Timers on a virtual clock, any number of them, singly and in bulk."""

    def __cinit__(self, now_ms=0):
        self.clock_ms = int64_of(now_ms, "now_ms")
        self.free_head = NO_NODE

    def __dealloc__(self):
        cdef int i
        for i in range(LEVELS * SLOTS):
            free(self.slots.at[i].items)
        free(self.nodes)
        free(self.due.items)

    def __len__(self):
        """How many timers are armed."""
        return self.size

    def __repr__(self):
        return f"<TimerWheel: {self.size} timers, now_ms={self.clock_ms}>"

    def __reduce__(self):
        # The free nodes too: a handle names no other timer in the copy either.
        cdef bytes state = STATE.pack(self.clock_ms, self.seq, self.free_head)
        if self.capacity:
            state += (<const char*>self.nodes)[:self.capacity * sizeof(Node)]
        return _wheel_of, (PICKLED, state, crc32(state))

    @property
    def now_ms(self):
        """The virtual time, in ms: where the last :meth:`advance` went."""
        return self.clock_ms

    def add(self, deadline_ms, key):
        """Arm a timer for a deadline (ms) and return its handle."""
        return self.arm(int64_of(deadline_ms, "deadline_ms"), int64_of(key, "key"))

    def rearm(self, handle, deadline_ms):
        """Give an armed timer a new deadline (ms), as if it was armed now; return True."""
        return self.move(int64_of(handle, "handle"), int64_of(deadline_ms, "deadline_ms"))

    def cancel(self, handle):
        """Cancel a timer and return True; False if it has fired or was cancelled before."""
        return self.drop(int64_of(handle, "handle"))

    def add_many(self, deadlines_ms, keys):
        """Arm timers, in order, and return their handles, int64 of shape (n,)."""
        cdef const int64_t[::1] deadlines = column_of(deadlines_ms, "deadlines_ms", NPY_INT64)
        cdef const int64_t[::1] names = column_of(keys, "keys", NPY_INT64)
        cdef Py_ssize_t n, count = deadlines.shape[0]
        if names.shape[0] != count:
            raise ArgumentError(f"{count} deadlines_ms, but {names.shape[0]} keys")
        import numpy as np

        handles = np.empty(count, dtype=np.int64)
        cdef int64_t[::1] out = handles
        self.reserve(self.size + count)
        for n in range(count):
            out[n] = self.arm(deadlines[n], names[n])
        return handles

    def rearm_many(self, handles, deadlines_ms):
        """Call :meth:`rearm` for each pair, in order; return the answers, bool of shape (n,)."""
        cdef const int64_t[::1] which = column_of(handles, "handles", NPY_INT64)
        cdef const int64_t[::1] deadlines = column_of(deadlines_ms, "deadlines_ms", NPY_INT64)
        cdef Py_ssize_t n, count = which.shape[0]
        if deadlines.shape[0] != count:
            raise ArgumentError(f"{count} handles, but {deadlines.shape[0]} deadlines_ms")
        import numpy as np

        armed = np.empty(count, dtype=np.bool_)
        cdef uint8_t[::1] out = armed.view(np.uint8)
        for n in range(count):
            if n + AHEAD < count:
                # A wrong index is only prefetched, never read.
                coterie_prefetch(self.nodes + <uint32_t>which[n + AHEAD])
            out[n] = self.move(which[n], deadlines[n])
        return armed

    def cancel_many(self, handles):
        """Call :meth:`cancel` for each handle, in order; return the answers, bool of shape (n,)."""
        cdef const int64_t[::1] which = column_of(handles, "handles", NPY_INT64)
        cdef Py_ssize_t n, count = which.shape[0]
        import numpy as np

        armed = np.empty(count, dtype=np.bool_)
        cdef uint8_t[::1] out = armed.view(np.uint8)
        for n in range(count):
            out[n] = self.drop(which[n])
        return armed

    def next_deadline_ms(self):
        """Return the earliest deadline of an armed timer, exactly; None without timers."""
        cdef int64_t deadline_ms = 0
        return deadline_ms if self.earliest(&deadline_ms) else None

    def advance(self, now_ms):
        """Move the clock to ``now_ms``; return the keys of the timers due by then, int64 (n,)."""
        return self.fire_until(int64_of(now_ms, "now_ms"))

    cdef object fire_until(self, int64_t now_ms):
        cdef int64_t few[FEW]
        cdef int64_t* keys = few
        cdef int64_t count = 0, capacity = FEW, most, start_ms = 0
        cdef int index
        cdef object fired = None
        if now_ms < self.clock_ms:
            raise ArgumentError(f"time runs forward only: now_ms {now_ms} < {self.clock_ms}")
        while True:
            index = first_slot(&self.slots, self.clock_ms, now_ms, &start_ms)
            most = self.slots.at[index].count if index >= 0 else 0
            most += self.due.count - self.due.head
            if count + most > capacity:
                # More than these seldom follow, and memory that is not written costs nothing.
                capacity = count + max(most, self.size)
                fired = int64_array(keys, count, capacity)
                keys = <int64_t*>data_of(fired)
            if self.due.head < self.due.count:
                count += self.fire_due(keys + count)
            elif index == NO_NODE:
                break
            else:
                self.clock_ms = start_ms
                if (SLOTS <= index < 2 * SLOTS and self.slots.at[index].count >= MANY
                        and <uint64_t>now_ms - <uint64_t>start_ms >= SLOTS - 1):
                    count += self.fire_second(index, keys + count)
                else:
                    count += self.fire_slot(index, keys + count)
        self.clock_ms = now_ms
        if fired is None or 2 * count < capacity:      # at most twice the memory of the result
            return int64_array(keys, count, count)
        return fired[:count]

    cdef int64_t fire_due(self, int64_t* keys) except -1:
        """Fire the due timers, in order; return how many."""
        cdef int64_t count = 0, i = self.pop_due()
        while i != NO_NODE:
            keys[count] = self.nodes[i].key
            count += 1
            self.release(i)
            i = self.pop_due()
        return count

    cdef int64_t pop_due(self) except -2:
        """Remove the first due timer; return its node, or NO_NODE."""
        cdef Due* due = next_due(&self.due)
        cdef TimerRef entry
        while due != NULL:
            entry = due.what.entry
            self.due.head += 1
            if not live(&self.nodes[entry.node], entry):
                self.stale -= 1
            elif self.nodes[entry.node].deadline_ms > self.clock_ms:
                self.file(entry.node)
            else:
                return entry.node
            due = next_due(&self.due)
        return NO_NODE

    cdef int64_t fire_slot(self, int index, int64_t* keys) except -1:
        """Open the slot at the clock, and fire it if all its entries are due. Return how many."""
        cdef const TimerRef* items = self.slots.at[index].items
        cdef int32_t n, count = self.slots.at[index].count
        cdef int64_t clock_ms = self.clock_ms, free_head = self.free_head
        cdef uint64_t last = 0
        cdef Node* nodes = self.nodes
        cdef Node* node
        if index >= SLOTS:
            self.open(index)
            return 0
        for n in range(count):
            node = &nodes[items[n].node]
            if node.seq < last or not live(node, items[n]) or node.deadline_ms > clock_ms:
                self.open(index)       # some are stale, moved or out of order: one by one
                return 0
            last = node.seq
            keys[n] = node.key
        for n in range(count):
            release_node(nodes, items[n].node, &free_head)
        self.free_head = free_head
        self.size -= count
        self.next_known = False
        vacate(&self.slots, index)
        return count

    cdef int64_t fire_second(self, int index, int64_t* keys) except -1:
        """Fire a whole slot of level 1 by a counting sort of its milliseconds; return how many.

        This visits each timer once; filing them a level down first would visit them twice.
        """
        cdef int64_t of_ms[SLOTS]
        cdef int64_t start_ms = self.clock_ms, count, most = self.slots.at[index].count
        cdef bint in_order = True
        cdef Due* fired = <Due*>malloc(2 * most * sizeof(Due))
        if fired == NULL:
            return self.fire_slot(index, keys)     # a level down, without that memory
        memset(of_ms, 0, sizeof(of_ms))
        try:
            count = self.take_out(index, fired, of_ms, &in_order)
            keys_by_firing(fired, count, start_ms, of_ms, NULL if in_order else fired + most, keys)
        finally:
            free(fired)
        return count

    cdef int64_t take_out(self, int index, Due* fired, int64_t* of_ms, bint* in_order) except -1:
        """Release the timers due within a slot, in the order of entries; return how many."""
        cdef int64_t start_ms = self.clock_ms, count = 0
        cdef uint64_t last = 0, ms
        cdef Node* nodes = self.nodes
        cdef Node* node
        cdef int32_t n
        cdef Slot slot = take(&self.slots, index)
        cdef int64_t free_head = self.free_head
        try:
            for n in range(slot.count):
                node = node_ahead(nodes, &slot, n)
                if not live(node, slot.items[n]):
                    self.stale -= 1
                    continue
                ms = <uint64_t>node.deadline_ms - <uint64_t>start_ms
                if ms >= SLOTS:
                    self.put(slot_of(start_ms, node.deadline_ms), slot.items[n])
                    continue
                in_order[0] &= node.seq >= last
                last = node.seq
                fired[count].deadline_ms = node.deadline_ms
                fired[count].seq = last
                fired[count].what.key = node.key
                of_ms[ms] += 1
                count += 1
                release_node(nodes, slot.items[n].node, &free_head)
        finally:
            self.free_head = free_head
            self.size -= count
            self.next_known = False
            free(slot.items)
        return count

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
        if self.size == 1:
            self.next_known = True
            self.next_ms = deadline_ms
        else:
            self.next_ms = min(deadline_ms, self.next_ms)
        self.file(<int32_t>i)
        return <int64_t>node.generation << 32 | i

    cdef bint move(self, int64_t handle, int64_t deadline_ms) except -1:
        """Re-arm a timer; False if it has fired or was cancelled."""
        cdef int64_t i = self.find(handle)
        if i < 0:
            return False
        cdef Node* node = &self.nodes[i]
        if node.deadline_ms == self.next_ms:
            self.next_known = False
        else:
            self.next_ms = min(deadline_ms, self.next_ms)
        cdef bint earlier = deadline_ms < node.deadline_ms
        node.deadline_ms = deadline_ms
        node.seq = self.seq
        self.seq += 1
        if earlier or deadline_ms <= self.clock_ms:
            # The old entry may come too late, or (if it is due) in its old place.
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

    cdef bint pop(self, int64_t limit_ms, int64_t* key) except -1:
        """Remove the next timer due by the limit and move the clock to its deadline.

        False: there is none, and the clock is at the limit.
        """
        cdef int64_t i, start_ms = 0
        cdef int index
        while True:
            i = self.pop_due()
            if i != NO_NODE:
                key[0] = self.nodes[i].key
                self.release(i)
                return True
            index = first_slot(&self.slots, self.clock_ms, limit_ms, &start_ms)
            if index == NO_NODE:
                if limit_ms > self.clock_ms:
                    self.clock_ms = limit_ms
                return False
            self.clock_ms = start_ms
            self.open(index)

    cdef int64_t deadline_of(self, int64_t handle) except? -7:
        cdef int64_t i = self.find(handle)
        if i < 0:
            raise ArgumentError(f"no timer of handle {handle} is armed")
        return self.nodes[i].deadline_ms

    cdef bint earliest(self, int64_t* deadline_ms) except -1:
        """Find the earliest deadline; False without timers. Files entries of moved timers again."""
        cdef int64_t i, start_ms = 0
        cdef int index
        if not self.next_known:
            i = self.pop_due()
            if i != NO_NODE:
                self.due.head -= 1             # it is only read
                self.next_ms = self.nodes[i].deadline_ms
                self.next_known = True
            while not self.next_known:
                # What is left in the first slot is due before all other slots begin.
                index = first_slot(&self.slots, self.clock_ms, INT64_MAX, &start_ms)
                self.next_known = index == NO_NODE or self.scan(index)
        deadline_ms[0] = self.next_ms
        return self.size > 0

    cdef bint scan(self, int index) except -1:
        """Find the least deadline of a slot; entries of moved timers are filed again."""
        cdef Slot slot = self.slots.at[index]
        cdef int32_t n, kept = 0
        cdef int64_t deadline_ms
        for n in range(slot.count):
            if not live(&self.nodes[slot.items[n].node], slot.items[n]):
                self.stale -= 1
                continue
            deadline_ms = self.nodes[slot.items[n].node].deadline_ms
            if slot_of(self.clock_ms, deadline_ms) != index:
                self.file(slot.items[n].node)      # a later slot, so this array does not change
                continue
            self.next_ms = min(deadline_ms, self.next_ms) if kept else deadline_ms
            slot.items[kept] = slot.items[n]
            kept += 1
        self.slots.at[index].count = kept
        if kept == 0:
            vacate(&self.slots, index)
        return kept > 0

    cdef inline int64_t find(self, int64_t handle) noexcept:
        """Return the node of an armed timer's handle, or -1."""
        cdef int64_t i = <int64_t><uint32_t>handle
        if i >= self.capacity or not (handle >> 32) & 1:
            return -1
        return i if self.nodes[i].generation == <uint32_t>(handle >> 32) else -1

    cdef inline int file(self, int32_t i) except -1:
        cdef Node* node = &self.nodes[i]
        cdef TimerRef entry
        node.filing += 1
        entry.node = i
        entry.filing = node.filing
        if node.deadline_ms <= self.clock_ms:
            return self.put_due(entry)
        return self.put(slot_of(self.clock_ms, node.deadline_ms), entry)

    cdef inline int put(self, int index, TimerRef entry) except -1:
        if not enter(&self.slots, index, entry):
            raise MemoryError
        return 0

    cdef int put_due(self, TimerRef entry) except -1:
        cdef Node* node = &self.nodes[entry.node]
        if not push(&self.due, node.deadline_ms, node.seq, entry):
            raise MemoryError
        return 0

    cdef inline void release(self, int64_t i) noexcept:
        if self.nodes[i].deadline_ms == self.next_ms:
            self.next_known = False
        release_node(self.nodes, i, &self.free_head)
        self.size -= 1

    cdef int reserve(self, int64_t count) except -1:
        """Allocate memory for `count` timers in all."""
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
        coterie_large_pages(nodes, capacity * sizeof(Node))
        memset(nodes + self.capacity, 0, (capacity - self.capacity) * sizeof(Node))
        for i in range(capacity - 1, self.capacity - 1, -1):
            nodes[i].deadline_ms = self.free_head
            self.free_head = i
        self.capacity = capacity
        return 0

    cdef int open(self, int index) except -1:
        """Move the entries of a slot to the due queue or to lower levels."""
        cdef int64_t clock_ms = self.clock_ms
        cdef Node* nodes = self.nodes
        cdef Node* node
        cdef int32_t n
        cdef Slot slot = take(&self.slots, index)
        try:
            for n in range(slot.count):
                node = node_ahead(nodes, &slot, n)
                # The entry is reused: a node that is only read is not written back.
                if not live(node, slot.items[n]):
                    self.stale -= 1
                elif node.deadline_ms <= clock_ms:
                    self.put_due(slot.items[n])
                else:
                    self.put(slot_of(clock_ms, node.deadline_ms), slot.items[n])
        finally:
            if index >= SLOTS:
                free(slot.items)
        return 0

    cdef int sweep(self) except -1:
        """Drop stale entries once they outnumber the timers, so that memory stays O(timers)."""
        if self.stale > self.size + STALE_SLACK:
            drop_stale(&self.slots, self.nodes)
            drop_stale_due(&self.due, self.nodes)
            self.stale = 0
        return 0


def _wheel_of(version, bytes state, check):
    """Return the wheel of a pickle; its timers are filed anew, in order of their nodes."""
    need_pickled("TimerWheel", version == PICKLED, state, check)
    cdef TimerWheel wheel = TimerWheel.__new__(TimerWheel)
    cdef int64_t i, free_nodes = 0, count = (len(state) - STATE.size) // sizeof(Node)
    wheel.clock_ms, wheel.seq, first_free = STATE.unpack_from(state)
    if count > 0:
        wheel.reserve(count)
        memcpy(wheel.nodes, <const char*>state + <size_t>STATE.size, count * sizeof(Node))
    for i in range(count):
        if wheel.nodes[i].generation & 1:
            wheel.size += 1
            wheel.file(<int32_t>i)
    i = wheel.free_head = first_free
    while 0 <= i < count and not wheel.nodes[i].generation & 1 and free_nodes < count:
        free_nodes += 1
        i = wheel.nodes[i].deadline_ms
    if i != NO_NODE or free_nodes + wheel.size != count or wheel.capacity != count:
        raise CorruptData("these bytes are no TimerWheel")
    return wheel
