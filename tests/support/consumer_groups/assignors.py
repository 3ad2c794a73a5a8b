"""The assignors ``uniform`` and ``range``, step by step as the rules say; all inputs sorted.

``members``: member id -> (instance id, topic ids), sorted by id. ``previous``: member id -> topic
id -> partitions. ``counts``: topic id -> number of partitions.
"""

from __future__ import annotations

from .image import id_order
from .records import utf16


def uniform_homogeneous(members, previous, counts):
    topics = sorted(next(iter(members.values()))[1], key=id_order) if members else []
    target = {member: {} for member in members}
    if not topics:
        return target
    held = {(t, p) for a in previous.values() for t, ps in a.items() for p in ps}
    unassigned = [(t, p) for t in topics for p in range(counts[t]) if (t, p) not in held]
    quota_all, extras = divmod(sum(counts[t] for t in topics), len(members))
    unfilled = []
    for index, member in enumerate(members):
        quota, extra = quota_all, False
        if extras > 0:
            quota, extra = quota + 1, True
        for topic in sorted(previous.get(member, {}), key=id_order):
            if topic not in topics:
                continue
            partitions = sorted(previous[member][topic])
            if len(partitions) <= quota:
                kept = partitions
                quota -= len(partitions)
            else:
                kept = []
                for partition in partitions:
                    if quota > 0:
                        kept.append(partition)
                        quota -= 1
                    else:
                        unassigned.append((topic, partition))
            if kept:
                target[member][topic] = set(kept)
        if quota > 0 and extra and len(members) - index > extras:
            quota, extra = quota - 1, False
        if quota > 0:
            unfilled.append((member, quota))
        if extra:
            extras -= 1
    rest = iter(unassigned)
    for member, quota in unfilled:
        for _ in range(quota):
            pair = next(rest, None)
            if pair is not None:
                target[member].setdefault(pair[0], set()).add(pair[1])
    return target


class Balancer:
    """``uniform`` with different subscriptions."""

    def __init__(self, members, previous, counts):
        self.ids = list(members)
        self.index = {member: n for n, member in enumerate(self.ids)}
        self.subscribers = {}
        for n, (_, topics) in enumerate(members.values()):
            for topic in topics:
                self.subscribers.setdefault(topic, []).append(n)
        self.owner = {t: [None] * counts[t] for t in self.subscribers}
        self.load = [0] * len(self.ids)
        for member, (_, topics) in members.items():
            for topic, partitions in previous.get(member, {}).items():
                if topic in topics:
                    for partition in partitions:
                        if partition < counts[topic]:
                            self.owner[topic][partition] = self.index[member]
                            self.load[self.index[member]] += 1
        self.topics = sorted(
            self.subscribers,
            key=lambda t: (-(counts[t] / len(self.subscribers[t])), len(self.subscribers[t]),
                           id_order(t)),
        )  # fmt: skip

    def run(self):
        for topic in self.topics:
            self.assign(topic)
        self.balance()
        target = {member: {} for member in self.ids}
        for topic, owners in self.owner.items():
            for partition, n in enumerate(owners):
                if n is not None:
                    target[self.ids[n]].setdefault(topic, set()).add(partition)
        return target

    def by_load(self, topic):
        return sorted(self.subscribers[topic], key=lambda n: (self.load[n], n))

    def assign(self, topic):
        owners = self.owner[topic]
        if all(n is not None for n in owners):
            return
        least = Least(self.by_load(topic), self.load)
        for partition, n in enumerate(owners):
            if n is None:
                n = least.take()
                owners[partition] = n
                self.load[n] += 1

    def balance(self):
        several = [topic for topic in self.topics if len(self.subscribers[topic]) >= 2]
        last = None
        for _ in range(16):
            for topic in several:
                if topic == last:
                    return
                if self.balance_topic(topic) or last is None:
                    last = topic

    def balance_topic(self, topic):
        order = self.by_load(topic)
        if self.load[order[-1]] - self.load[order[0]] <= 1:
            return False
        ranges = {}
        for partition, n in enumerate(self.owner[topic]):
            ranges.setdefault(n, []).append(partition)
        least, most = Least(order, self.load), Most(order, self.load)
        moved = False
        while most.level - least.level > 1:
            n = most.take()
            while n is not None and not ranges.get(n):
                most.exclude()
                n = most.take()
            if n is None:
                break
            partition = ranges[n].pop()
            to = least.take()
            if most.level - least.level <= 1:
                break
            self.owner[topic][partition] = to
            self.load[n] -= 1
            self.load[to] += 1
            moved = True
        return moved


class Least:
    """Members of the least load first; one of a level after another."""

    def __init__(self, order, load):
        self.order, self.load = order, load
        self.level = load[order[0]] - 1
        self.end = self.next = 0

    def take(self):
        if self.next >= self.end:
            self.level += 1
            while self.end < len(self.order) and self.load[self.order[self.end]] == self.level:
                self.end += 1
            self.next = 0
        self.next += 1
        return self.order[self.next - 1]


class Most:
    """Members of the largest load first."""

    def __init__(self, order, load):
        self.order, self.load = order, load
        self.start = self.end = len(order)
        self.level = load[order[-1]] + 1
        self.next = len(order) - 1

    def take(self):
        if self.next < self.start:
            if self.end <= self.start and self.start > 0:
                self.level = self.load[self.order[self.start - 1]]
            else:
                self.level -= 1
            while self.start > 0 and self.load[self.order[self.start - 1]] == self.level:
                self.start -= 1
            self.next = self.end - 1
        if self.next < 0:
            return None
        self.next -= 1
        return self.order[self.next + 1]

    def exclude(self):
        """Leave out the one that was taken last."""
        at = self.next + 1
        self.order[at], self.order[self.end - 1] = self.order[self.end - 1], self.order[at]
        self.end -= 1


def range_assign(members, counts, homogeneous):
    order = sorted(
        members, key=lambda m: (members[m][0] is None, utf16(members[m][0] or ""), utf16(m))
    )
    target = {member: {} for member in members}
    if not order:
        return target
    if homogeneous:
        subscribed = {topic: order for topic in members[order[0]][1]}
    else:
        subscribed = {}
        for member in order:
            for topic in members[member][1]:
                subscribed.setdefault(topic, []).append(member)
    for topic, who in subscribed.items():
        quota, extra = divmod(counts[topic], len(who))
        start = 0
        for n, member in enumerate(who):
            size = quota + (n < extra)
            if size:
                target[member][topic] = set(range(start, start + size))
            start += size
    return target


def assign(assignor, members, previous, counts, homogeneous):
    if assignor == "range":
        return range_assign(members, counts, homogeneous)
    if homogeneous:
        return uniform_homogeneous(members, previous, counts)
    return Balancer(members, previous, counts).run()
