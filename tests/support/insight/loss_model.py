"""Random lives of a group, and what it skipped, repeated and stood still at, in plain Python.

A life is a list of steps: (milliseconds since the one before, what, how). The models go through its
commits one by one, with lists and no tables.
"""

from base64 import urlsafe_b64encode
from itertools import pairwise
from typing import NamedTuple

from hypothesis import strategies as st

from support.insight.lives import commit, life, member
from support.log_writer import batch, marker

FIRST_MS = 1_000_000
PARTITIONS = (0, 1, 2)

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from([0, 1, 10, 100, 100, 100, 1000]),
            st.just("commit"),
            st.dictionaries(
                st.sampled_from(PARTITIONS),
                st.sampled_from([0, 1, 1, 1, 2, 60, 700, -1, -60, -700]),
                min_size=1,
            ),
        ),
        st.tuples(
            st.sampled_from([0, 100]),
            st.just("steady"),
            st.tuples(st.sets(st.sampled_from(PARTITIONS), min_size=1), st.integers(2, 9)),
        ),
        st.tuples(
            st.sampled_from([0, 100, 1000]),
            st.just("remove"),
            st.sets(st.sampled_from(PARTITIONS), min_size=1),
        ),
        st.tuples(st.sampled_from([0, 100]), st.just("members"), st.integers(0, 2)),
        st.tuples(st.sampled_from([0, 100]), st.just("create_again"), st.booleans()),
        st.tuples(st.just(0), st.just("ids"), st.booleans()),
        st.tuples(
            st.sampled_from([0, 100]),
            st.just("transaction"),
            st.tuples(st.sampled_from(PARTITIONS), st.sampled_from([1, 5]), st.booleans()),
        ),
    ),
    min_size=1,
    max_size=25,
)


class Commit(NamedTuple):
    """An effective commit, or a removal (``offset`` None)."""

    key: int
    offset: int | None
    ms: int
    log_offset: int
    outside: int | None  # the record that left the group without members; None: it may have some
    owned: bool = False
    anew: bool = False  # the topic was created again since the last commit with a topic id


class Life:
    """The log of a life: a batch for each segment, and its effective commits."""

    def __init__(self, steps):
        self.ms = FIRST_MS
        self.log_offset = 0
        self.segments = []
        self.commits = []
        self.offsets = dict.fromkeys(PARTITIONS, 0)
        self.generation, self.members = 0, 0
        self.joins = []  # (log offset, ms) of each record of the group
        self.left_at = None
        self.topic, self.with_ids, self.topic_of = 1, True, {}
        for passed_ms, what, how in steps:
            self.ms += passed_ms
            getattr(self, f"do_{what}")(how)
        if not self.segments:
            self.do_members(0)

    def append(self, records, **header):
        self.segments.append((self.log_offset, batch(self.log_offset, records, **header)))
        self.log_offset += len(records)

    def add(self, key, offset, *, plain=True):
        outside = self.left_at if plain else None
        owned, anew = self.members > 0, False
        if offset is not None and self.with_ids:
            anew = self.topic_of.get(key, self.topic) != self.topic
            self.topic_of[key] = self.topic
        self.commits.append(Commit(key, offset, self.ms, self.log_offset, outside, owned, anew))

    def records(self, key, offset):
        topic_id = urlsafe_b64encode(self.topic.to_bytes(16, "big")).decode().rstrip("=")
        return commit(self.ms, {key: offset}, topic_id=topic_id if self.with_ids else None)

    def do_commit(self, deltas):
        records = []
        for partition, delta in deltas.items():
            offset = self.offsets[partition] = max(self.offsets[partition] + delta, 0)
            self.add(partition, offset)
            self.commits[-1] = self.commits[-1]._replace(log_offset=self.log_offset + len(records))
            records += self.records(partition, offset)
        self.append(records)

    def do_steady(self, how):
        """Let partitions move on by one, again and again."""
        partitions, times = how
        for _ in range(times):
            self.ms += 100
            self.do_commit(dict.fromkeys(sorted(partitions), 1))

    def do_remove(self, partitions):
        for partition in sorted(partitions):
            self.add(partition, None, plain=False)
            self.append(commit(self.ms, {partition: None}))

    def do_transaction(self, how):
        partition, delta, commits = how
        offset = self.offsets[partition] + delta
        if commits:
            self.offsets[partition] = offset
            self.add(partition, offset, plain=False)
        header = {"producer_id": 5, "transactional": True}
        self.append(self.records(partition, offset), **header)
        end = marker(self.log_offset, 5, self.ms, commit=commits)
        self.segments.append((self.log_offset, end))
        self.log_offset += 1

    def do_create_again(self, removes):
        """Create the topic again; ``removes``: the coordinator has removed its offsets."""
        if removes:
            self.do_remove(PARTITIONS)
        self.topic += 1
        self.offsets = dict.fromkeys(PARTITIONS, 0)

    def do_ids(self, are_there):
        """Let the commits have the topic's id from now on, or not."""
        self.with_ids = are_there

    def do_members(self, count):
        self.generation += 1
        shares = {0: [], 1: [PARTITIONS], 2: [PARTITIONS[:1], PARTITIONS[1:]]}[count]
        members = [
            member(f"m{number}", held={"t": list(share)}) for number, share in enumerate(shares)
        ]
        # Only members begin a generation, so a group of any generation had some.
        self.left_at = None if count else self.log_offset
        self.members = count
        self.joins.append((self.log_offset, self.ms))
        self.append([life(self.ms, self.generation, *members)])

    def by_key(self):
        return {key: [one for one in self.commits if one.key == key] for key in PARTITIONS}


def across_removals(written):
    """(partition, offset before, offset after, log offset) of each commit after a removal."""
    found = []
    for key, commits in written.by_key().items():
        before = removed = None
        for one in commits:
            if one.offset is None:
                removed = before if removed is None else removed
                before = None
                continue
            if removed is not None and removed.offset != one.offset and not one.anew:
                found.append((key, removed.offset, one.offset, one.log_offset))
            before, removed = one, None
    return sorted(found)


def steps_of(written):
    """(commit before, commit) of each partition, where both have an offset of one topic."""
    return [
        (before, one)
        for commits in written.by_key().values()
        for before, one in pairwise(commits)
        if before.offset is not None and one.offset is not None and not one.anew
    ]


def of_one_topic(written, key, log_offset):
    """The commits and removals of a partition that have the topic of the one at a place."""
    topics = [[]]
    for one in written.by_key()[key]:
        if one.anew:
            topics.append([])
        topics[-1].append(one)
    return next(topic for topic in topics if log_offset in {one.log_offset for one in topic})


def goes_on(commits, at):
    """Whether a partition's commit follows another one to the same topic."""
    one, before = commits[at], commits[at - 1]
    return at > 0 and None not in (before.offset, one.offset) and not one.anew


def rewinds(written, few):
    """(partition, from, to, log offset) of the commits that go back.

    Not of those that only take back what a tool set forward: while a group has no members, down to
    the lowest offset since, or since a transaction, a removal or another topic.
    """
    found = []
    for key, commits in written.by_key().items():
        for at, one in enumerate(commits):
            if not goes_on(commits, at) or one.offset >= commits[at - 1].offset:
                continue
            first, forward = at, 0
            while goes_on(commits, first) and commits[first].outside == one.outside:
                first -= 1
            for number in range(1, at):
                if goes_on(commits, number) and commits[number].outside == one.outside:
                    forward += commits[number].offset > commits[number - 1].offset
            lowest = min(other.offset for other in commits[first:at] or [one])
            if one.outside is None or forward > few or one.offset < lowest:
                found.append((key, commits[at - 1].offset, one.offset, one.log_offset))
    return sorted(found)


def from_outside(written, few):
    """(partition, from, to, log offset) of steps forward without members, unless they are many."""
    forward = [
        (before, one)
        for before, one in steps_of(written)
        if one.outside is not None and one.offset > before.offset
    ]
    return sorted(
        (one.key, before.offset, one.offset, one.log_offset)
        for before, one in forward
        if sum((one.key, one.outside) == (o.key, o.outside) for _, o in forward) <= few
    )


def seeks(written, *, least, larger, faster, least_steps, largest, rate, least_ms):
    """(partition, from, to, log offset) of steps that only a seek explains."""
    steps = {key: [] for key in PARTITIONS}  # (step, log offset, before, commit, step before)
    for key, commits in written.by_key().items():
        step_before = 0
        for before, one in pairwise(commits):
            step = 0
            if before.offset is not None and one.offset is not None and not one.anew:
                step = one.offset - before.offset
            if step > 0:
                steps[key].append((step, -one.log_offset, before, one, step_before))
            step_before = step
    if sum(map(len, steps.values())) < least_steps:
        return []
    ordinary, candidates = [0], []
    for of_key in steps.values():
        big = sorted((one for one in of_key if one[0] >= least), reverse=True)
        rest = [one[0] for one in of_key if one[0] < least]
        if len(big) >= largest:  # the smallest of them is ordinary
            big, rest = big[: largest - 1], [*rest, big[largest - 1][0]]
        while big and not (max(rest, default=0) and big[-1][0] >= larger * max(rest)):
            rest.append(big.pop()[0])
        candidates += big
        ordinary += rest
    found = []
    for step, _, before, one, step_before in candidates:
        since = [ms for at, ms in written.joins if before.log_offset < at < one.log_offset]
        fast = step * 1000 >= rate * max(one.ms - before.ms, least_ms)
        if since:
            fast = fast or step * 1000 >= faster * rate * max(one.ms - since[-1], least_ms)
        if fast and step_before > 0 and step >= larger * max(ordinary):
            found.append((one.key, before.offset, one.offset, one.log_offset))
    return sorted(found)


def stalls(written, stall_ms, longer, least_moves, slice_ms, end_ms):
    """(partition, since, length, stood at) of each stall, owned or not."""
    moves = {
        key: [
            one
            for before, one in pairwise(commits)
            if before.offset is not None
            and one.offset is not None
            and (one.anew or one.offset != before.offset)
        ]
        for key, commits in written.by_key().items()
    }
    active = {one.ms // slice_ms for of_key in moves.values() for one in of_key}
    found = []
    for key, commits in written.by_key().items():
        last, longest, count = None, 0, 0
        for one in [*commits, None]:
            if one is not None and one.offset is None:
                last = None
                continue
            if one is not None and one not in moves[key]:
                continue
            if last is not None:
                passed = (end_ms if one is None else one.ms) - last.ms
                first, stop = last.ms // slice_ms + 1, (last.ms + passed) // slice_ms
                slices = range(first, stop)
                long = passed >= max(stall_ms, longer * longest) and count >= least_moves
                if long and len(slices) >= 2 and 2 * len(active & set(slices)) >= len(slices):
                    found.append((key, last.ms, passed, last.offset))
                longest = max(longest, passed)
            if one is not None:
                last, count = one, count + 1
    return sorted(found)
