"""The server-side assignors of the consumer protocol, and the topics as they number them.

`uniform` has two algorithms: for members with one subscription, and for members with several.
Source: UniformAssignor.java, UniformHomogeneousAssignmentBuilder.java,
UniformHeterogeneousAssignmentBuilder.java, RangeAssignor.java.
"""
cimport cython
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, qsort, realloc
from libc.string cimport memcpy, memset

from coterie._core.coordinator.consumer.values cimport (
    Assignment, MetadataImage, TopicId, assignment_of, new_assignment, no_partitions)
from coterie._core.coordinator.consumer.values import utf16_units


# ---- the partitions of a group's topics: who owns each, and how many targets have it -------------
# Both are counted while records are applied, so that a heartbeat and an assignor find them without
# a walk over the members. One object a topic has both: a group of a few members is small.
# Source: modern/consumer/ConsumerGroup.java (addPartitionEpochs, removePartitionEpochs),
# ModernGroup.java (invertedTargetAssignment).

@cython.final
@cython.no_gc                      # no reference cycles
cdef class TopicUse:
    """The use of each partition of a topic."""

    def __dealloc__(self):
        free(self.partitions)

    cdef int reserve(self, int32_t count) except -1:
        """Have room for so many partitions."""
        cdef PartitionUse* larger
        cdef int32_t n
        if count <= self.count:
            return 0
        larger = <PartitionUse*>realloc(self.partitions, count * sizeof(PartitionUse))
        if larger == NULL:
            raise MemoryError
        self.partitions = larger
        for n in range(self.count, count):
            larger[n].owner_epoch, larger[n].targets = -1, 0
        self.count = count

    cdef bint is_free(self, int32_t partition) noexcept:
        """Whether no member owns a partition or still revokes it."""
        return partition >= self.count or self.partitions[partition].owner_epoch == -1


cdef inline TopicUse use_of(dict uses, Assignment assignment, Py_ssize_t n):
    """The use of the ``n``-th topic of an assignment, with room for its partitions."""
    cdef TopicUse use = uses.get(assignment.topics[n])
    if use is None:
        use = uses[assignment.topics[n]] = TopicUse.__new__(TopicUse)
    if assignment.ends[n] > (assignment.ends[n - 1] if n else 0):
        use.reserve(assignment.partitions[assignment.ends[n] - 1] + 1)
    return use


cdef int count_targets(dict uses, Assignment target, int by) except -1:
    """Count the partitions of a target that comes or goes."""
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef int32_t* targets
    cdef TopicUse use
    for n in range(target.topic_count):
        use = use_of(uses, target, n)
        for at in range(start, target.ends[n]):
            targets = &use.partitions[target.partitions[at]].targets
            use.targeted += (targets[0] + by > 0) - (targets[0] > 0)
            targets[0] += by
        start = target.ends[n]


cdef int32_t own(dict uses, Assignment assignment, int32_t epoch, bint by_epoch,
                 bint* taken_over) except -2:
    """Make a member of this epoch the owner of partitions; one that has an owner already, or -1.

    ``by_epoch``: an owner at an earlier epoch is no obstacle, but sets ``taken_over``.
    """
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef int32_t* owner
    cdef TopicUse use
    for n in range(assignment.topic_count):
        use = use_of(uses, assignment, n)
        for at in range(start, assignment.ends[n]):
            owner = &use.partitions[assignment.partitions[at]].owner_epoch
            if owner[0] != -1:
                if not by_epoch or owner[0] >= epoch:
                    return assignment.partitions[at]
                taken_over[0] = True
            owner[0] = epoch
        start = assignment.ends[n]
    return -1


cdef int release(dict uses, Assignment assignment, int32_t epoch, bint by_epoch) except -1:
    """Let partitions have no owner. ``by_epoch``: only those that are owned at this epoch."""
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef int32_t* owner
    cdef TopicUse use
    for n in range(assignment.topic_count):
        use = uses.get(assignment.topics[n])
        for at in range(start, assignment.ends[n]):
            if use is None or assignment.partitions[at] >= use.count:
                break
            owner = &use.partitions[assignment.partitions[at]].owner_epoch
            if not by_epoch or owner[0] == epoch:
                owner[0] = -1
        start = assignment.ends[n]


cdef dict copied_uses(dict uses):
    """The same uses in objects of their own."""
    cdef TopicUse use, copied
    cdef dict made = {}
    for topic, use in uses.items():
        copied = made[topic] = TopicUse.__new__(TopicUse)
        copied.reserve(use.count)
        memcpy(copied.partitions, use.partitions, use.count * sizeof(PartitionUse))
        copied.targeted = use.targeted
    return made


# ---- topics of one run of an assignor: their order, their numbers, and memory for the run --------

@cython.final
@cython.freelist(2)
cdef class Memory:
    """Arrays of zeros that go with it."""

    def __dealloc__(self):
        cdef int n
        for n in range(self.count):
            free(self.blocks[n])

    cdef void* take(self, Py_ssize_t size) except NULL:
        cdef void* block = <char*>self.first + self.taken
        if size <= <Py_ssize_t>sizeof(self.first) - self.taken:
            self.taken += (size + 7) & ~7
            return block
        block = calloc(size, 1)
        if block == NULL:
            raise MemoryError
        self.blocks[self.count] = block
        self.count += 1
        return block


def topic_order(TopicId topic not None):
    return topic.upper, topic.lower


cdef list sorted_topics(object topics):
    """Topics in the order of their ids."""
    return sorted(topics, key=topic_order)


cdef list distinct_topics(list subscribers):
    """The topics that any member subscribes to, in the order of their ids."""
    cdef dict seen = {}                    # members that name the same topics share a tuple
    cdef set named = set()
    cdef Subscriber member
    for member in subscribers:
        seen[<Py_ssize_t><void*>member.topics] = member.topics
    for topics in seen.values():
        named.update(topics)
    return sorted_topics(named)


cdef int32_t* number_subscribers(list subscribers, Run* runs, Py_ssize_t topics,
                                 Memory memory) except NULL:
    """The subscribers of each topic by their places, in order, one topic after another."""
    cdef Subscriber member
    cdef TopicId topic
    cdef Run* run
    cdef int32_t* numbers
    cdef int64_t pairs = 0
    cdef Py_ssize_t n
    for member in subscribers:
        for topic in member.topics:
            runs[topic.mark].subscribers += 1
    for n in range(topics):
        runs[n].first_subscriber = pairs
        pairs += runs[n].subscribers
        runs[n].subscribers = 0
    numbers = <int32_t*>memory.take(pairs * sizeof(int32_t))
    for n in range(len(subscribers)):
        for topic in (<Subscriber>subscribers[n]).topics:
            run = &runs[topic.mark]
            numbers[run.first_subscriber + run.subscribers] = <int32_t>n
            run.subscribers += 1
    return numbers


cdef int mark(list topics, Run* runs) except -1:
    """Number the topics of a run; how many partitions they have."""
    cdef int64_t total = 0
    cdef Py_ssize_t n
    cdef TopicId topic
    for n in range(len(topics)):
        topic = <TopicId>topics[n]
        topic.mark = n
        runs[n].first = total
        runs[n].count = topic.partition_count
        total += topic.partition_count


cdef int unmark(list topics) except -1:
    cdef TopicId topic
    for topic in topics:
        topic.mark = -1


cdef int compare_numbers(const void* one, const void* other) noexcept nogil:
    cdef int64_t a = (<const int64_t*>one)[0], b = (<const int64_t*>other)[0]
    return (a > b) - (a < b)


cdef Py_ssize_t topic_with(Run* runs, Py_ssize_t low, Py_ssize_t high, int64_t number) noexcept:
    """The topic, from ``low`` on and before ``high``, that a partition is of."""
    cdef Py_ssize_t middle
    if number < runs[low].first + runs[low].count:
        return low
    low += 1
    while high - low > 1:
        middle = (low + high) // 2
        if runs[middle].first > number:
            high = middle
        else:
            low = middle
    return low


cdef Assignment numbered(int64_t* every, int64_t total, list topics, Run* runs, int32_t* ends,
                         int32_t* partitions):
    """An assignment of partitions that are numbered among all, in order.

    ``ends`` and ``partitions``: room for so many topics and partitions.
    """
    cdef tuple named
    cdef Py_ssize_t topic = 0, count = len(topics), found = 0, n
    cdef int64_t at = 0, first, end
    while at < total:                      # a topic at a time
        topic = topic_with(runs, topic, count, every[at])
        first, end = runs[topic].first, runs[topic].first + runs[topic].count
        while at < total and every[at] < end:
            partitions[at] = <int32_t>(every[at] - first)
            at += 1
        ends[found] = <int32_t>at
        found += 1
    named = PyTuple_New(found)
    topic = 0
    for n in range(found):
        topic = topic_with(runs, topic, count, every[ends[n] - 1])
        each = topics[topic]
        Py_INCREF(each)
        PyTuple_SET_ITEM(named, n, each)
    return assignment_of(named, ends, partitions, NULL)


# ---- the assignor ``uniform`` over members with equal subscriptions ------------------------------
# Cost: a walk over members and partitions.
# Source: assignor/UniformHomogeneousAssignmentBuilder.java.

cdef struct Pool:                  # what is free, and room for the member at hand
    Run* runs
    int64_t* free                  # indices among all; what members give up comes behind it
    int64_t count
    bint complete                  # every topic of any target is one of the run
    int64_t* every                 # indices of what the member gets
    int32_t* ends                  # of what the member gets: as in an Assignment
    int32_t* partitions


cdef int assign_equal(list subscribers, dict uses) except -1:
    cdef list topics = list((<Subscriber>subscribers[0]).topics)
    cdef Memory memory = Memory()
    cdef Run* runs
    cdef Subscriber member
    if not topics:
        for member in subscribers:
            member.computed = no_partitions()
        return 0
    runs = <Run*>memory.take(len(topics) * sizeof(Run))
    mark(topics, runs)
    try:
        return share_equally(subscribers, uses, topics, runs, memory)
    finally:
        unmark(topics)


cdef int find_free(Pool* pool, list topics, dict uses) except -1:
    """Put partitions into the pool that no target has; note whether all targets are of the run."""
    cdef Py_ssize_t n
    cdef int32_t m
    cdef TopicId topic
    cdef TopicUse use
    pool.complete = True
    for topic, use in uses.items():
        if use.targeted and topic.mark < 0:
            pool.complete = False
    for n in range(len(topics)):
        use = uses.get(topics[n])
        if use is not None:
            if use.count <= pool.runs[n].count == use.targeted:
                continue
            use.reserve(pool.runs[n].count)
        for m in range(pool.runs[n].count):
            if use is None or not use.partitions[m].targets:
                pool.free[pool.count] = pool.runs[n].first + m
                pool.count += 1


cdef int64_t keep_share(Subscriber member, int64_t quota, Pool* pool) except -1:
    """Give a member what it had, up to its quota; the partitions that are left of the quota."""
    cdef Assignment previous = <Assignment>member.previous
    if previous.count <= quota and pool.complete:
        member.computed = previous
        return quota - previous.count
    return keep_part(member, previous, quota, pool)


cdef int64_t keep_part(Subscriber member, Assignment previous, int64_t quota,
                       Pool* pool) except -1:
    """Give a member a part of what it had; the partitions that are left of the quota."""
    cdef TopicId topic
    cdef list kept_topics = []
    cdef Py_ssize_t m
    cdef int32_t at, start = 0, count = 0, size
    for m in range(previous.topic_count):
        topic = <TopicId>previous.topics[m]
        if topic.mark >= 0:
            size = <int32_t>min(previous.ends[m] - start, quota)
            for at in range(start, start + size):
                pool.partitions[count] = previous.partitions[at]
                count += 1
            quota -= size
            for at in range(start + size, previous.ends[m]):
                pool.free[pool.count] = pool.runs[topic.mark].first + previous.partitions[at]
                pool.count += 1
            if size:
                pool.ends[len(kept_topics)] = count
                kept_topics.append(topic)
        start = previous.ends[m]
    member.computed = new_assignment(kept_topics, pool.ends, pool.partitions, NULL)
    return quota


cdef int share_equally(list subscribers, dict uses, list topics, Run* runs,
                       Memory memory) except -1:
    cdef Py_ssize_t members = len(subscribers), topic_count = len(topics), n
    cdef int64_t total = runs[topic_count - 1].first + runs[topic_count - 1].count
    cdef int64_t each = total // members, extras = total % members, quota, given
    cdef int64_t next_one = 0
    cdef int64_t* quotas = <int64_t*>memory.take(members * sizeof(int64_t))
    cdef Subscriber member
    cdef bint extra
    cdef Pool pool
    pool.runs, pool.count = runs, 0
    pool.free = <int64_t*>memory.take((2 * total + 1) * sizeof(int64_t))
    pool.ends = <int32_t*>memory.take((topic_count + 1) * sizeof(int32_t))
    pool.partitions = <int32_t*>memory.take((total + 1) * sizeof(int32_t))
    pool.every = <int64_t*>memory.take((total + 1) * sizeof(int64_t))
    find_free(&pool, topics, uses)
    for n in range(members):
        member = <Subscriber>subscribers[n]
        quota, extra = each, False
        if extras > 0:
            quota += 1
            extra = True
        quota = keep_share(member, quota, &pool)
        if quota > 0 and extra and members - n > extras:
            quota -= 1
            extra = False
        quotas[n] = quota
        if extra:
            extras -= 1
    for n in range(members):
        given = min(quotas[n], pool.count - next_one)
        if given > 0:
            member = <Subscriber>subscribers[n]
            member.computed = with_more(<Assignment>member.computed, pool.free + next_one, given,
                                        topics, &pool)
            next_one += given
    return 0


cdef Assignment with_more(Assignment had, int64_t* more, int64_t count, list topics, Pool* pool):
    """An assignment with partitions that are numbered among all of a run."""
    cdef int64_t n, first, at = 0
    cdef Py_ssize_t m
    cdef int32_t place, start = 0
    cdef bint ordered = True
    for m in range(had.topic_count):
        first = pool.runs[(<TopicId>had.topics[m]).mark].first
        for place in range(start, had.ends[m]):
            pool.every[at] = first + had.partitions[place]
            at += 1
        start = had.ends[m]
    for n in range(count):
        ordered = ordered and (at == 0 or pool.every[at - 1] < more[n])
        pool.every[at] = more[n]
        at += 1
    if not ordered:
        qsort(pool.every, at, sizeof(int64_t), compare_numbers)
    return numbered(pool.every, at, topics, pool.runs, pool.ends, pool.partitions)


# ---- the assignor ``uniform`` over members with different subscriptions --------------------------
# Cost: the subscribers of each topic are sorted.
# Source: UniformHeterogeneousAssignmentBuilder.java.

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


# ---- the assignor ``range``. Cost: a walk over members and partitions ----------------------------
# Source: RangeAssignor.java.

def range_order(Subscriber member not None):
    if member.instance_id is not None:
        return 0, utf16_units(member.instance_id)
    return 1, utf16_units(member.member_id)


cdef list in_range_order(list subscribers):
    """Static members first; the others are in order already."""
    cdef Subscriber member
    for member in subscribers:
        if member.instance_id is not None:
            return sorted(subscribers, key=range_order)
    return subscribers


cdef int assign_range(list subscribers, bint homogeneous) except -1:
    cdef list ordered = in_range_order(subscribers), topics
    cdef Memory memory = Memory()
    cdef Run* runs
    cdef int32_t* who = NULL
    cdef Py_ssize_t n
    topics = (list((<Subscriber>ordered[0]).topics) if homogeneous
              else distinct_topics(subscribers))
    runs = <Run*>memory.take(len(topics) * sizeof(Run))
    mark(topics, runs)
    try:
        if homogeneous:
            for n in range(len(topics)):
                runs[n].subscribers = <int32_t>len(ordered)
        else:
            who = number_subscribers(ordered, runs, len(topics), memory)
        return share_ranges(ordered, topics, runs, who, memory)
    finally:
        unmark(topics)


cdef int share_ranges(list ordered, list topics, Run* runs, int32_t* who,
                      Memory memory) except -1:
    """Give each subscriber of a topic a range of it. ``who``: as numbered; NULL: all of each."""
    cdef Py_ssize_t members = len(ordered), n, m
    cdef int64_t* first = <int64_t*>memory.take((members + 1) * sizeof(int64_t))
    cdef int64_t* first_span = <int64_t*>memory.take((members + 1) * sizeof(int64_t))
    cdef int32_t* partitions
    cdef int32_t* ends
    cdef int32_t* topic_of
    cdef int64_t total = 0, spans = 0
    cdef int32_t start, size, at, k
    cdef Run* run
    cdef Subscriber member
    cdef Assignment made
    for n in range(len(topics)):
        run = &runs[n]
        total += run.count
        for k in range(min(run.count, run.subscribers)):
            m = k if who == NULL else who[run.first_subscriber + k]
            first[m + 1] += run.count // run.subscribers + (k < run.count % run.subscribers)
            first_span[m + 1] += 1
            spans += 1
    for m in range(members):
        first[m + 1] += first[m]
        first_span[m + 1] += first_span[m]
    partitions = <int32_t*>memory.take(total * sizeof(int32_t))
    ends = <int32_t*>memory.take(spans * sizeof(int32_t))
    topic_of = <int32_t*>memory.take(spans * sizeof(int32_t))
    for n in range(len(topics)):
        run = &runs[n]
        start = 0
        for k in range(min(run.count, run.subscribers)):
            m = k if who == NULL else who[run.first_subscriber + k]
            size = run.count // run.subscribers + (k < run.count % run.subscribers)
            for at in range(start, start + size):
                partitions[first[m]] = at
                first[m] += 1
            start += size
            topic_of[first_span[m]] = <int32_t>n
            ends[first_span[m]] = size
            first_span[m] += 1
    total = spans = 0
    for m in range(members):
        member = <Subscriber>ordered[m]
        for n in range(spans + 1, first_span[m]):
            ends[n] += ends[n - 1]
        made = new_assignment([topics[topic_of[n]] for n in range(spans, first_span[m])],
                              ends + spans, partitions + total, NULL)
        member.computed = member.previous if made.equals(<Assignment>member.previous) else made
        spans, total = first_span[m], first[m]
    return 0


# ---- the assignors ``uniform`` and ``range``: which member shall own which partition -------------
# Members come in the order of their ids, topics by their ids, partitions by number; Kafka takes its
# hash order there. Costs: ``uniform`` with equal subscriptions and ``range`` a walk over members
# and partitions; ``uniform`` with different subscriptions sorts the subscribers of each topic. A
# member whose target does not change keeps the object that it had.

@cython.no_gc                      # no reference cycles
cdef class Subscriber:
    """A member, its topics, and what it had."""

    def __cinit__(self):
        self.previous = no_partitions()


cdef int assign(str assignor, list subscribers, bint homogeneous, dict uses) except -1:
    """Give each subscriber its target. ``uses``: TopicId -> TopicUse of all targets."""
    if not subscribers:
        return 0
    if assignor == "range":
        return assign_range(subscribers, homogeneous)
    if homogeneous:
        return assign_equal(subscribers, uses)
    return assign_unequal(subscribers)


@cython.final
cdef class GroupSpec:
    """Members of a group and what they subscribe to, for an assignment without a coordinator."""

    cdef list subscribers
    cdef dict uses

    def __cinit__(self, dict topics not None, dict members not None):
        # topics: {name: (id, replicas of each partition)}; members: {id: names}, in order of ids
        cdef Subscriber member
        cdef MetadataImage image = MetadataImage()
        cdef dict shared = {}
        image.update((), (), [(name, *topic) for name, topic in topics.items()], [])
        self.subscribers, self.uses = [], {}
        for member_id, names in members.items():
            if names not in shared:
                shared[names] = tuple(sorted_topics([image.topics[name] for name in names]))
            member = Subscriber.__new__(Subscriber)
            member.member_id = <str?>member_id
            member.topics = shared[names]
            self.subscribers.append(member)

    def assign(self, str assignor not None, bint homogeneous):
        """Assign all partitions."""
        assign(assignor, self.subscribers, homogeneous, self.uses)

    def replay(self):
        """Let the next assignment start from this one."""
        cdef Subscriber member
        self.uses = {}
        for member in self.subscribers:
            member.previous = member.computed
            count_targets(self.uses, <Assignment>member.previous, 1)

    def rows(self):
        """Return {member id: ((topic id, (partition, ...)), ...)} of the last assignment."""
        cdef Subscriber member
        return {member.member_id: (<Assignment?>member.computed).rows()
                for member in self.subscribers}
