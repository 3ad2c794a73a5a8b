"""Timers that are due, in the order of firing: by deadline, then by arming. Header only."""
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport qsort, realloc

from coterie._core.structures.slots cimport SLOTS, TimerRef, Node, live

cdef enum:
    SMALL = 24                     # up to here insertion beats a general sort

cdef union DueOwner:
    TimerRef entry
    int64_t key                    # once the timer is released

cdef struct Due:
    int64_t deadline_ms
    uint64_t seq
    DueOwner what

cdef struct DueQueue:
    Due* items                     # from head to count, in order if sorted
    int64_t head
    int64_t count
    int64_t capacity
    bint unsorted


cdef inline bint before(const Due* a, const Due* b) noexcept nogil:
    return a.deadline_ms < b.deadline_ms or (a.deadline_ms == b.deadline_ms and a.seq < b.seq)


cdef inline int by_firing(const void* a, const void* b) noexcept nogil:
    return before(<const Due*>b, <const Due*>a) - before(<const Due*>a, <const Due*>b)


cdef inline void sort_by_firing(Due* due, int64_t count) noexcept nogil:
    cdef Due item
    cdef int64_t n, at
    if count > SMALL:
        qsort(due, count, sizeof(Due), by_firing)
        return
    for n in range(1, count):
        item = due[n]
        at = n
        while at > 0 and before(&item, &due[at - 1]):
            due[at] = due[at - 1]
            at -= 1
        due[at] = item


cdef inline void keys_by_firing(
    Due* due, int64_t count, int64_t start_ms, int64_t* of_ms, Due* room, int64_t* keys
) noexcept nogil:
    """Write the keys of one second's timers in the order of firing, by a counting sort.

    `of_ms`: the count of each millisecond; it is overwritten. `room`: NULL if the timers are in the
    order of arming, else space for as many.
    """
    cdef int64_t filled = 0, ms, n
    for ms in range(SLOTS):
        filled += of_ms[ms]
        of_ms[ms] = filled - of_ms[ms]         # the place of its next timer
    for n in range(count):
        ms = due[n].deadline_ms - start_ms
        if room == NULL:
            keys[of_ms[ms]] = due[n].what.key
        else:
            room[of_ms[ms]] = due[n]
        of_ms[ms] += 1
    if room != NULL:
        for ms in range(SLOTS):
            n = of_ms[ms - 1] if ms else 0
            sort_by_firing(room + n, of_ms[ms] - n)
        for n in range(count):
            keys[n] = room[n].what.key


cdef inline bint push(
    DueQueue* queue, int64_t deadline_ms, uint64_t seq, TimerRef entry
) noexcept nogil:
    """Append a timer; False: no memory."""
    cdef Due* due = queue.items
    cdef int64_t capacity = 2 * queue.capacity + 64
    if queue.count == queue.capacity:
        due = <Due*>realloc(due, capacity * sizeof(Due))
        if due == NULL:
            return False
        queue.items = due
        queue.capacity = capacity
    due += queue.count
    due.deadline_ms = deadline_ms
    due.seq = seq
    due.what.entry = entry
    if queue.count > queue.head and before(due, due - 1):
        queue.unsorted = True
    queue.count += 1
    return True


cdef inline Due* next_due(DueQueue* queue) noexcept nogil:
    """Return the first timer without removing it; NULL if the queue is empty."""
    if queue.unsorted:
        queue.unsorted = False
        sort_by_firing(queue.items + queue.head, queue.count - queue.head)
    if queue.head < queue.count:
        return queue.items + queue.head
    queue.head = queue.count = 0
    return NULL


cdef inline void drop_stale_due(DueQueue* queue, const Node* nodes) noexcept nogil:
    cdef int64_t n, kept = queue.head
    for n in range(queue.head, queue.count):
        if live(&nodes[queue.items[n].what.entry.node], queue.items[n].what.entry):
            queue.items[kept] = queue.items[n]
            kept += 1
    queue.count = kept
