"""The assignors ``uniform`` and ``range``: which member shall own which partition.

Members come in the order of their ids, topics by their ids, partitions by number; Kafka takes its
hash order there. Costs: ``uniform`` with equal subscriptions and ``range`` a walk over members and
partitions; ``uniform`` with different subscriptions sorts the subscribers of each topic. A member
whose target does not change keeps the object that it had.
Source: assignor/UniformHomogeneousAssignmentBuilder.java,
UniformHeterogeneousAssignmentBuilder.java, RangeAssignor.java.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memset

from coterie._core.coordinator.consumer.values cimport (
    Assignment, TopicId, before, new_assignment, no_partitions)

from functools import cmp_to_key

from coterie._core.coordinator.consumer.values import utf16_units

cdef enum:
    ROUNDS = 16                    # of balancing

cdef struct Run:                   # a topic in this run
    int64_t first                  # of its partitions among all
    int32_t count
    int32_t subscribers
    int64_t first_subscriber       # among those of all topics


@cython.final
@cython.freelist(256)
cdef class Subscriber:
    """A member, its topics, and what it had."""


cdef class Memory:
    """Arrays that go with it."""

    cdef list held
    cdef void* blocks[16]
    cdef int count

    def __dealloc__(self):
        cdef int n
        for n in range(self.count):
            free(self.blocks[n])

    cdef void* take(self, Py_ssize_t size) except NULL:
        cdef void* block = calloc(max(size, 1), 1)
        if block == NULL:
            raise MemoryError
        self.blocks[self.count] = block
        self.count += 1
        return block


cdef int by_id(TopicId one, TopicId other) noexcept:
    return -1 if before(one, other) else before(other, one)


def compare_ids(TopicId one not None, TopicId other not None):
    return by_id(one, other)


cdef list sorted_topics(object topics):
    """Topics in the order of their ids."""
    return sorted(topics, key=cmp_to_key(compare_ids))


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
    return 0


cdef int unmark(list topics) except -1:
    cdef TopicId topic
    for topic in topics:
        topic.mark = -1
    return 0


cdef int assign(str assignor, list subscribers, bint homogeneous, list others) except -1:
    """Give each subscriber its target. ``others``: targets of ids that are no members."""
    if not subscribers:
        return 0
    if assignor == "range":
        return assign_range(subscribers, homogeneous)
    if homogeneous:
        return assign_equal(subscribers, others)
    return assign_unequal(subscribers)


# ---- uniform, equal subscriptions ---------------------------------------------------------------

cdef int assign_equal(list subscribers, list others) except -1:
    cdef list topics = list((<Subscriber>subscribers[0]).topics)
    cdef Memory memory = Memory()
    cdef Run* runs
    cdef Subscriber member
    if not topics:
        for member in subscribers:
            member.target = no_partitions()
        return 0
    runs = <Run*>memory.take(len(topics) * sizeof(Run))
    mark(topics, runs)
    try:
        return share_equally(subscribers, others, topics, runs, memory)
    finally:
        unmark(topics)


cdef int take_held(Assignment held, Run* runs, uint8_t* taken) noexcept:
    """Partitions that stand in a target already."""
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef TopicId topic
    for n in range(held.topic_count):
        topic = <TopicId>held.topics[n]
        if topic.mark >= 0:
            for at in range(start, held.ends[n]):
                if held.partitions[at] < runs[topic.mark].count:
                    taken[runs[topic.mark].first + held.partitions[at]] = 1
        start = held.ends[n]
    return 0


cdef int share_equally(list subscribers, list others, list topics, Run* runs,
                       Memory memory) except -1:
    cdef Py_ssize_t members = len(subscribers), topic_count = len(topics), n, m, kept_topics
    cdef int64_t total = runs[topic_count - 1].first + runs[topic_count - 1].count
    cdef int64_t each = total // members, extras = total % members, quota, given
    cdef int64_t unassigned_count = 0, next_one = 0, had
    cdef uint8_t* taken = <uint8_t*>memory.take(total)
    # Of what is free, the index among all; what members give up comes behind it.
    cdef int64_t* unassigned = <int64_t*>memory.take((2 * total + 1) * sizeof(int64_t))
    cdef int32_t* ends = <int32_t*>memory.take((topic_count + 1) * sizeof(int32_t))
    cdef int32_t* kept = <int32_t*>memory.take((total + 1) * sizeof(int32_t))
    cdef int64_t* quotas = <int64_t*>memory.take(members * sizeof(int64_t))
    cdef Subscriber member
    cdef Assignment previous
    cdef TopicId topic
    cdef list kept_list
    cdef bint extra, whole
    cdef int32_t at, start, size, count
    for member in subscribers:
        take_held(<Assignment>member.previous, runs, taken)
    for held in others:
        take_held(<Assignment?>held, runs, taken)
    for n in range(topic_count):
        for m in range(runs[n].count):
            if not taken[runs[n].first + m]:
                unassigned[unassigned_count] = runs[n].first + m
                unassigned_count += 1
    for n in range(members):
        member = <Subscriber>subscribers[n]
        previous = <Assignment>member.previous
        quota, extra = each, False
        if extras > 0:
            quota += 1
            extra = True
        start = count = 0
        whole = True
        kept_list = None
        kept_topics = 0
        for m in range(previous.topic_count):
            topic = <TopicId>previous.topics[m]
            size = previous.ends[m] - start
            had = count
            if topic.mark < 0:
                whole = False
            elif size <= quota:
                for at in range(start, previous.ends[m]):
                    kept[count] = previous.partitions[at]
                    count += 1
                quota -= size
            else:
                whole = False
                for at in range(start, previous.ends[m]):
                    if quota > 0:
                        kept[count] = previous.partitions[at]
                        count += 1
                        quota -= 1
                    else:
                        unassigned[unassigned_count] = (runs[topic.mark].first
                                                        + previous.partitions[at])
                        unassigned_count += 1
            if count > had:
                if not whole:
                    if kept_list is None:
                        kept_list = list(previous.topics[:kept_topics])
                    kept_list.append(topic)
                ends[kept_topics] = count
                kept_topics += 1
            start = previous.ends[m]
        if quota > 0 and extra and members - n > extras:
            quota -= 1
            extra = False
        if quota > 0:
            quotas[n] = quota
        if extra:
            extras -= 1
        if whole:
            member.target = previous
        else:
            if kept_list is None:
                kept_list = list(previous.topics[:kept_topics])
            member.target = new_assignment(kept_list, ends, kept)
    for n in range(members):
        given = min(quotas[n], unassigned_count - next_one)
        if given > 0:
            member = <Subscriber>subscribers[n]
            member.target = with_more(<Assignment>member.target, unassigned + next_one, given,
                                      topics, runs)
            next_one += given
    return 0


cdef int compare_numbers(const void* one, const void* other) noexcept nogil:
    cdef int64_t a = (<const int64_t*>one)[0], b = (<const int64_t*>other)[0]
    return (a > b) - (a < b)


cdef Assignment with_more(Assignment had, int64_t* more, int64_t count, list topics, Run* runs):
    """An assignment with partitions that are numbered among all of a run."""
    cdef int64_t total = had.count + count, n, index
    cdef Memory memory = Memory()
    cdef int64_t* every = <int64_t*>memory.take(total * sizeof(int64_t))
    cdef int64_t at = 0
    cdef Py_ssize_t m
    cdef int32_t place, start = 0
    for m in range(had.topic_count):
        index = runs[(<TopicId>had.topics[m]).mark].first
        for place in range(start, had.ends[m]):
            every[at] = index + had.partitions[place]
            at += 1
        start = had.ends[m]
    for n in range(count):
        every[at] = more[n]
        at += 1
    qsort(every, total, sizeof(int64_t), compare_numbers)
    return numbered(every, total, topics, runs, memory)


cdef Assignment numbered(int64_t* every, int64_t total, list topics, Run* runs, Memory memory):
    """An assignment of partitions that are numbered among all, in order."""
    cdef int32_t* ends = <int32_t*>memory.take((len(topics) + 1) * sizeof(int32_t))
    cdef int32_t* partitions = <int32_t*>memory.take(total * sizeof(int32_t))
    cdef list named = []
    cdef Py_ssize_t topic = 0
    cdef int64_t n
    for n in range(total):
        while every[n] >= runs[topic].first + runs[topic].count:
            topic += 1
        if not named or named[len(named) - 1] is not topics[topic]:
            named.append(topics[topic])
        partitions[n] = <int32_t>(every[n] - runs[topic].first)
        ends[len(named) - 1] = <int32_t>(n + 1)
    return new_assignment(named, ends, partitions)


# ---- range ---------------------------------------------------------------------------------------

def range_order(Subscriber member not None):
    if member.instance_id is not None:
        return 0, utf16_units(member.instance_id), utf16_units(member.member_id)
    return 1, b"", utf16_units(member.member_id)


cdef int assign_range(list subscribers, bint homogeneous) except -1:
    cdef list ordered = sorted(subscribers, key=range_order)
    cdef dict by_topic = {}
    cdef Subscriber member
    cdef TopicId topic
    cdef list who, spans
    cdef dict given = {}
    cdef int32_t start, size, quota, extra, n
    if homogeneous:
        for topic in (<Subscriber>subscribers[0]).topics:
            by_topic[topic] = ordered
    else:
        for member in ordered:
            for topic in member.topics:
                who = by_topic.get(topic)
                if who is None:
                    who = by_topic[topic] = []
                who.append(member)
    for topic in sorted_topics(by_topic):
        who = by_topic[topic]
        quota = topic.partition_count // <int32_t>len(who)
        extra = topic.partition_count % <int32_t>len(who)
        start = 0
        for n in range(<int32_t>len(who)):
            size = quota + (n < extra)
            if size:
                spans = given.get(who[n])
                if spans is None:
                    spans = given[who[n]] = []
                spans.append((topic, start, size))
                start += size
    for member in subscribers:
        member.target = spanned(<Assignment>member.previous, given.get(member))
    return 0


cdef Assignment spanned(Assignment previous, list spans):
    """An assignment of runs of partitions, the one that was there if it is the same."""
    cdef Memory memory
    cdef int32_t* ends
    cdef int32_t* partitions
    cdef int64_t total = 0
    cdef Py_ssize_t n
    cdef int32_t first, size, at, count = 0
    cdef Assignment made
    if spans is None:
        return no_partitions()
    for span in spans:
        total += <int32_t>span[2]
    memory = Memory()
    ends = <int32_t*>memory.take(len(spans) * sizeof(int32_t))
    partitions = <int32_t*>memory.take(total * sizeof(int32_t))
    for n in range(len(spans)):
        first, size = spans[n][1], spans[n][2]
        for at in range(first, first + size):
            partitions[count] = at
            count += 1
        ends[n] = count
    made = new_assignment([span[0] for span in spans], ends, partitions)
    return previous if made.equals(previous) else made


# ---- uniform, different subscriptions ------------------------------------------------------------

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
    c.high_level = load[order[count - 1]] + 1
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

    cdef int32_t* sort(self, Py_ssize_t topic) except NULL:
        """A topic's subscribers by (load, index)."""
        cdef Run* run = &self.runs[topic]
        cdef int32_t n
        for n in range(run.subscribers):
            self.keys[n] = (<int64_t>self.load[self.subscribers[run.first_subscriber + n]] << 32
                            | self.subscribers[run.first_subscriber + n])
        qsort(self.keys, run.subscribers, sizeof(int64_t), compare_numbers)
        for n in range(run.subscribers):
            self.sorted_members[n] = <int32_t>(self.keys[n] & 0xFFFFFFFF)
        return self.sorted_members

    cdef int assign_topic(self, Py_ssize_t topic) except -1:
        cdef Run* run = &self.runs[topic]
        cdef int32_t* owner = self.owner + run.first
        cdef Cursor cursor
        cdef int32_t n
        cdef bint any_free = False
        for n in range(run.count):
            any_free |= owner[n] < 0
        if not any_free:
            return 0
        begin_cursor(&cursor, self.sort(topic), run.subscribers, self.load)
        for n in range(run.count):
            if owner[n] < 0:
                owner[n] = least(&cursor, self.load)
                self.load[owner[n]] += 1
        return 0

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
        return 0

    cdef bint balance_topic(self, Py_ssize_t topic) except -1:
        """Move partitions of one topic between its subscribers; whether any was moved."""
        cdef Run* run = &self.runs[topic]
        cdef int32_t* owner = self.owner + run.first
        cdef int32_t* order = self.sort(topic)
        cdef Cursor cursor
        cdef int32_t member, to, partition
        cdef bint moved = False
        if self.load[order[run.subscribers - 1]] - self.load[order[0]] <= 1:
            return False
        self.group_by_owner(run, owner)
        begin_cursor(&cursor, order, run.subscribers, self.load)
        while cursor.high_level - cursor.low_level > 1:
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
        return 0


cdef int assign_unequal(list subscribers) except -1:
    cdef Balance run = Balance()
    cdef Subscriber member
    cdef set named = set()
    for member in subscribers:
        named.update(member.topics)
    run.memory = Memory()
    run.topics = sorted_topics(named)
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
    return 0


cdef int prepare(Balance run, list subscribers) except -1:
    """Arrays of the run: subscribers of each topic, and what members keep of their targets."""
    cdef Py_ssize_t topic_count = len(run.topics), n, m
    cdef int64_t total = 0, pairs = 0
    cdef int32_t most_partitions = 0
    cdef Subscriber member
    cdef Assignment previous
    cdef TopicId topic
    cdef int32_t at, start
    cdef set own
    cdef Run* one
    for n in range(topic_count):
        total += run.runs[n].count
        most_partitions = max(most_partitions, run.runs[n].count)
    for member in subscribers:
        for topic in member.topics:
            run.runs[topic.mark].subscribers += 1
            pairs += 1
    run.owner = <int32_t*>run.memory.take(total * sizeof(int32_t))
    memset(run.owner, 0xFF, total * sizeof(int32_t))
    run.load = <int32_t*>run.memory.take(run.members * sizeof(int32_t))
    run.subscribers = <int32_t*>run.memory.take(pairs * sizeof(int32_t))
    run.sorted_members = <int32_t*>run.memory.take(run.members * sizeof(int32_t))
    run.keys = <int64_t*>run.memory.take(run.members * sizeof(int64_t))
    run.first_of = <int32_t*>run.memory.take(run.members * sizeof(int32_t))
    run.left_of = <int32_t*>run.memory.take(run.members * sizeof(int32_t))
    run.by_owner = <int32_t*>run.memory.take(most_partitions * sizeof(int32_t))
    pairs = 0
    for n in range(topic_count):
        run.runs[n].first_subscriber = pairs
        pairs += run.runs[n].subscribers
        run.runs[n].subscribers = 0
    for n in range(run.members):
        member = <Subscriber>subscribers[n]
        for topic in member.topics:
            one = &run.runs[topic.mark]
            run.subscribers[one.first_subscriber + one.subscribers] = <int32_t>n
            one.subscribers += 1
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
    return 0


cdef int hand_out(Balance run, list subscribers) except -1:
    """Make each member's target of the owners of all partitions."""
    cdef Py_ssize_t n, topic_count = len(run.topics)
    cdef int64_t total = run.runs[topic_count - 1].first + run.runs[topic_count - 1].count if (
        topic_count) else 0
    cdef int64_t at
    cdef int64_t* every = <int64_t*>run.memory.take(total * sizeof(int64_t))
    cdef int64_t* start = <int64_t*>run.memory.take((run.members + 1) * sizeof(int64_t))
    cdef Subscriber member
    cdef Assignment made
    cdef Memory memory
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
        memory = Memory()
        made = numbered(every + at, start[n] - at, run.topics, run.runs, memory)
        at = start[n]
        member.target = member.previous if made.equals(<Assignment>member.previous) else made
    return 0
