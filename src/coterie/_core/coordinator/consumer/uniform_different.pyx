"""The assignor ``uniform`` over members with different subscriptions.

Cost: the subscribers of each topic are sorted.
Source: UniformHeterogeneousAssignmentBuilder.java.
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort
from libc.string cimport memset

from coterie._core.coordinator.consumer.assignors cimport Subscriber
from coterie._core.coordinator.consumer.numbered_topics cimport (
    Memory, Run, compare_numbers, distinct_topics, mark, number_subscribers, numbered, unmark)
from coterie._core.coordinator.consumer.values cimport Assignment, TopicId

cdef enum:
    ROUNDS = 16                    # of balancing

cdef struct Cursor:                # members from the least load up, and from the largest down
    int32_t* order                 # of one topic's subscribers
    int32_t count
    int32_t low_level
    int32_t low_end
    int32_t low_next
    int32_t high_level
    int32_t high_start
    int32_t high_end
    int32_t high_next


cdef void begin_cursor(Cursor* c, int32_t* order, int32_t count, const int32_t* load) noexcept:
    c.order, c.count = order, count
    c.low_level = load[order[0]] - 1
    c.low_end = c.low_next = 0
    c.high_start = c.high_end = count
    c.high_next = count - 1


cdef int32_t least(Cursor* c, const int32_t* load) noexcept:
    """The next member of the least load; members of a level come one after another."""
    if c.low_next >= c.low_end:
        c.low_level += 1
        while c.low_end < c.count and load[c.order[c.low_end]] == c.low_level:
            c.low_end += 1
        c.low_next = 0
    c.low_next += 1
    return c.order[c.low_next - 1]


cdef int32_t most(Cursor* c, const int32_t* load) noexcept:
    """The next member of the largest load; -1 without one."""
    if c.high_next < c.high_start:
        if c.high_end <= c.high_start and c.high_start > 0:
            c.high_level = load[c.order[c.high_start - 1]]
        else:
            c.high_level -= 1
        while c.high_start > 0 and load[c.order[c.high_start - 1]] == c.high_level:
            c.high_start -= 1
        c.high_next = c.high_end - 1
    if c.high_next < 0:
        return -1
    c.high_next -= 1
    return c.order[c.high_next + 1]


cdef void exclude(Cursor* c) noexcept:
    """Leave out the member of the largest load that came last."""
    cdef int32_t at = c.high_next + 1, other = c.order[c.high_end - 1]
    c.order[c.high_end - 1] = c.order[at]
    c.order[at] = other
    c.high_end -= 1


cdef class Balance:
    """One run of ``uniform`` over members with different subscriptions."""

    cdef Memory memory
    cdef list topics               # by their ids
    cdef list order                # indices of topics: many partitions a subscriber first
    cdef Run* runs
    cdef int32_t* owner            # of each partition among all; -1: none
    cdef int32_t* load             # of each member
    cdef int32_t* subscribers      # of each topic, one after another
    cdef int32_t* sorted_members   # of the topic at hand
    cdef int64_t* keys
    cdef int32_t* first_of         # of each member: the start of its range in `by_owner`
    cdef int32_t* left_of          # and how many are left of it
    cdef int32_t* by_owner
    cdef Py_ssize_t members

    cdef int loads(self, Py_ssize_t topic, int32_t* lowest) noexcept:
        """The lowest load of a topic's subscribers; by how much the highest is above it."""
        cdef Run* run = &self.runs[topic]
        cdef int32_t* subscribers = self.subscribers + run.first_subscriber
        cdef int32_t low = self.load[subscribers[0]], high = low, n
        for n in range(1, run.subscribers):
            low = min(low, self.load[subscribers[n]])
            high = max(high, self.load[subscribers[n]])
        lowest[0] = low
        return high - low

    cdef int32_t* sort(self, Py_ssize_t topic, int32_t low, int32_t spread) except NULL:
        """A topic's subscribers by (load, index); ``low``, ``spread``: see ``loads``."""
        cdef Run* run = &self.runs[topic]
        cdef int32_t* subscribers = self.subscribers + run.first_subscriber
        cdef int32_t n, member
        if spread >= self.members:
            for n in range(run.subscribers):
                self.keys[n] = <int64_t>self.load[subscribers[n]] << 32 | subscribers[n]
            qsort(self.keys, run.subscribers, sizeof(int64_t), compare_numbers)
            for n in range(run.subscribers):
                self.sorted_members[n] = <int32_t>(self.keys[n] & 0xFFFFFFFF)
            return self.sorted_members
        # Loads differ by little: the subscribers of each load are counted, then put in place.
        memset(self.keys, 0, (spread + 2) * sizeof(int64_t))
        for n in range(run.subscribers):
            self.keys[self.load[subscribers[n]] - low + 1] += 1
        for n in range(spread):
            self.keys[n + 1] += self.keys[n]
        for n in range(run.subscribers):
            member = subscribers[n]
            self.sorted_members[self.keys[self.load[member] - low]] = member
            self.keys[self.load[member] - low] += 1
        return self.sorted_members

    cdef int assign_topic(self, Py_ssize_t topic) except -1:
        cdef Run* run = &self.runs[topic]
        cdef int32_t* owner = self.owner + run.first
        cdef Cursor cursor
        cdef int32_t n, low = 0, spread
        cdef bint any_free = False
        for n in range(run.count):
            any_free |= owner[n] < 0
        if not any_free:
            return 0
        spread = self.loads(topic, &low)
        begin_cursor(&cursor, self.sort(topic, low, spread), run.subscribers, self.load)
        for n in range(run.count):
            if owner[n] < 0:
                owner[n] = least(&cursor, self.load)
                self.load[owner[n]] += 1

    cdef int balance(self) except -1:
        cdef Py_ssize_t last = -1
        for _ in range(ROUNDS):
            for topic in self.order:
                if self.runs[topic].subscribers < 2:
                    continue
                if topic == last:
                    return 0
                if self.balance_topic(topic) or last < 0:
                    last = topic

    cdef bint balance_topic(self, Py_ssize_t topic) except -1:
        """Move partitions of one topic between its subscribers; whether any was moved."""
        cdef Run* run = &self.runs[topic]
        cdef int32_t* owner = self.owner + run.first
        cdef int32_t* order
        cdef Cursor cursor
        cdef int32_t member, to, partition, low = 0, spread = self.loads(topic, &low)
        cdef bint moved = False
        if spread <= 1:
            return False
        order = self.sort(topic, low, spread)
        self.group_by_owner(run, owner)
        begin_cursor(&cursor, order, run.subscribers, self.load)
        while True:
            member = most(&cursor, self.load)
            while member >= 0 and not self.left_of[member]:
                exclude(&cursor)
                member = most(&cursor, self.load)
            if member < 0:
                break
            self.left_of[member] -= 1
            partition = self.by_owner[self.first_of[member] + self.left_of[member]]
            to = least(&cursor, self.load)
            if cursor.high_level - cursor.low_level <= 1:
                break
            owner[partition] = to
            self.load[member] -= 1
            self.load[to] += 1
            moved = True
        return moved

    cdef int group_by_owner(self, Run* run, int32_t* owner) except -1:
        """Partitions of a topic by their owners, ascending: a range for each subscriber."""
        cdef int32_t n, member, at = 0
        for n in range(run.subscribers):
            self.left_of[self.subscribers[run.first_subscriber + n]] = 0
        for n in range(run.count):
            if owner[n] >= 0:
                self.left_of[owner[n]] += 1
        for n in range(run.subscribers):
            member = self.subscribers[run.first_subscriber + n]
            self.first_of[member] = at
            at += self.left_of[member]
            self.left_of[member] = 0
        for n in range(run.count):
            member = owner[n]
            if member >= 0:
                self.by_owner[self.first_of[member] + self.left_of[member]] = n
                self.left_of[member] += 1


cdef int assign_unequal(list subscribers) except -1:
    cdef Balance run = Balance()
    run.memory = Memory()
    run.topics = distinct_topics(subscribers)
    run.members = len(subscribers)
    run.runs = <Run*>run.memory.take(len(run.topics) * sizeof(Run))
    mark(run.topics, run.runs)
    try:
        prepare(run, subscribers)
        for topic in run.order:
            run.assign_topic(topic)
        run.balance()
        hand_out(run, subscribers)
    finally:
        unmark(run.topics)


cdef int prepare(Balance run, list subscribers) except -1:
    """Arrays of the run: subscribers of each topic, and what members keep of their targets."""
    cdef Py_ssize_t topic_count = len(run.topics), n, m
    cdef int64_t total = 0
    cdef int32_t most_partitions = 0
    cdef Subscriber member
    cdef Assignment previous
    cdef TopicId topic
    cdef int32_t at, start
    cdef set own
    for n in range(topic_count):
        total += run.runs[n].count
        most_partitions = max(most_partitions, run.runs[n].count)
    run.owner = <int32_t*>run.memory.take(total * sizeof(int32_t))
    memset(run.owner, 0xFF, total * sizeof(int32_t))
    run.load = <int32_t*>run.memory.take(run.members * sizeof(int32_t))
    run.subscribers = number_subscribers(subscribers, run.runs, topic_count, run.memory)
    run.sorted_members = <int32_t*>run.memory.take(run.members * sizeof(int32_t))
    run.keys = <int64_t*>run.memory.take((run.members + 2) * sizeof(int64_t))
    run.first_of = <int32_t*>run.memory.take(run.members * sizeof(int32_t))
    run.left_of = <int32_t*>run.memory.take(run.members * sizeof(int32_t))
    run.by_owner = <int32_t*>run.memory.take(most_partitions * sizeof(int32_t))
    for n in range(run.members):
        member = <Subscriber>subscribers[n]
        previous = <Assignment>member.previous
        if not previous.topic_count:
            continue
        own = set(member.topics)
        start = 0
        for m in range(previous.topic_count):
            topic = <TopicId>previous.topics[m]
            if topic in own:
                for at in range(start, previous.ends[m]):
                    if previous.partitions[at] < run.runs[topic.mark].count:
                        run.owner[run.runs[topic.mark].first + previous.partitions[at]] = <int>n
                        run.load[n] += 1
            start = previous.ends[m]
    run.order = sorted(range(topic_count), key=lambda number: (
        -(run.runs[number].count / <double>run.runs[number].subscribers),
        run.runs[number].subscribers, number))


cdef int hand_out(Balance run, list subscribers) except -1:
    """Make each member's target of the owners of all partitions."""
    cdef Py_ssize_t n, topic_count = len(run.topics)
    cdef int64_t total = run.runs[topic_count - 1].first + run.runs[topic_count - 1].count if (
        topic_count) else 0
    cdef int64_t at
    cdef int64_t* every = <int64_t*>run.memory.take(total * sizeof(int64_t))
    cdef int64_t* start = <int64_t*>run.memory.take((run.members + 1) * sizeof(int64_t))
    cdef int32_t* ends = <int32_t*>run.memory.take((topic_count + 1) * sizeof(int32_t))
    cdef int32_t* partitions = <int32_t*>run.memory.take(total * sizeof(int32_t))
    cdef Subscriber member
    cdef Assignment made
    for at in range(total):
        if run.owner[at] >= 0:
            start[run.owner[at] + 1] += 1
    for n in range(run.members):
        start[n + 1] += start[n]
    for at in range(total):
        if run.owner[at] >= 0:
            every[start[run.owner[at]]] = at
            start[run.owner[at]] += 1
    at = 0
    for n in range(run.members):
        member = <Subscriber>subscribers[n]
        made = numbered(every + at, start[n] - at, run.topics, run.runs, ends, partitions)
        at = start[n]
        member.computed = member.previous if made.equals(<Assignment>member.previous) else made
