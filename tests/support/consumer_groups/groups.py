"""Consumer groups as the slow model keeps them: plain objects, copied whole before each write."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .records import utf16

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = 0, 1, 2, 127


@dataclass
class Member:
    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: int = STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    names: frozenset = frozenset()
    regex: str = ""
    assignor: str | None = None
    assigned: dict = field(default_factory=dict)  # topic id -> partition -> its epoch; 0 before 4.3
    revoking: dict = field(default_factory=dict)
    classic: object = None

    def reconciled_to(self, epoch):
        return self.state == STABLE and self.epoch == epoch

    def changed(self, **fields):
        return replace(self, **fields)


@dataclass
class Resolved:
    topics: frozenset
    version: int
    at_ms: int


class HashTable(dict):
    """A dict that also has its keys as Kafka's tables have them: BaseHashTable.java."""

    def __init__(self):
        super().__init__()
        self.slots = [[], []]

    def __deepcopy__(self, memo):
        made = HashTable()
        made.slots = [list(slot) for slot in self.slots]
        made.update(self)
        return made

    def slot(self, key):
        units = utf16(key)
        code = 0
        for high, low in zip(units[::2], units[1::2], strict=True):
            code = (31 * code + 256 * high + low) % 2**32
        code -= 2**32 * (code >= 2**31)
        return code * -7046029254386353131 % 2**64 * len(self.slots) // 2**64

    def __setitem__(self, key, value):
        if (len(self) + 1) * 0.75 > len(self.slots):
            keys = [key for slot in self.slots for key in slot]
            self.slots = [[] for _ in range(2 * len(self.slots))]
            for each in keys:
                self.slots[self.slot(each)].append(each)
        if key not in self:
            self.slots[self.slot(key)].append(key)
        super().__setitem__(key, value)

    def pop(self, key, default=None):
        if key in self:
            self.slots[self.slot(key)].remove(key)
        return super().pop(key, default)

    def first(self):
        """The value that an iterator of Kafka's finds first, or None."""
        return next((self[slot[-1]] for slot in self.slots if slot), None)


@dataclass
class Group:
    id: str
    release: tuple
    epoch: int = 0
    hash: int = 0
    target_epoch: int = 0
    target_ms: int = 0  # when the target was computed; 0: unknown
    target: dict = field(default_factory=dict)
    members: dict = field(default_factory=dict)
    instances: dict = field(default_factory=dict)
    resolved: HashTable = field(default_factory=HashTable)
    has_partition_metadata: bool = False
    homogeneous: bool = True
    owners: dict = field(default_factory=dict)  # (topic id, partition) -> epoch of its owner

    def __post_init__(self):
        if self.release >= (4, 3):
            self.epoch = self.target_epoch = 1

    def state(self):
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if any(not m.reconciled_to(self.target_epoch) for m in self.members.values()):
            return "Reconciling"
        return "Stable"

    def release_all(self, member):
        for at in partitions_of(member):
            if self.release < (4, 1, 2) or self.owners.get(at) == member.epoch:
                self.owners.pop(at, None)

    def own_all(self, member):
        """Make a member the owner of what it has; whether nobody else was."""
        for at in partitions_of(member):
            owner = self.owners.get(at)
            if owner is not None and (self.release < (4, 1, 2) or owner >= member.epoch):
                return False
            self.owners[at] = member.epoch
        return True

    def subscribed(self, *, without=(), instead=None, without_regexes=()):
        """Names of topics that the group reads, with some members gone or one in another form."""
        names = set()
        for member in self.members.values():
            if member.id not in without and (instead is None or member.id != instead.id):
                names |= member.names
        if instead is not None:
            names |= instead.names
        for regex, resolved in self.resolved.items():
            if regex not in without_regexes:
                names |= resolved.topics
        return names

    def is_homogeneous(self, members=None):
        members = list((self.members if members is None else members).values())
        regexes = {member.regex or "" for member in members}
        named = set().union(*(member.names for member in members))
        if regexes <= {""}:
            return all(member.names == named for member in members)
        resolved = [topic for each in self.resolved.values() for topic in each.topics]
        return len(regexes) == 1 and not named and len(resolved) == len(set(resolved))

    def sorted_members(self):
        return [self.members[name] for name in sorted(self.members, key=utf16)]

    def subscribed_by(self, member):
        """Names of the topics that a member reads."""
        found = self.resolved.get(member.regex) if member.regex else None
        return member.names | (found.topics if found else frozenset())


def partitions_of(member):
    return [(topic, partition) for part in (member.assigned, member.revoking)
            for topic, partitions in part.items() for partition in partitions]  # fmt: skip


def joined(one, other):
    """The partitions of both, with their epochs."""
    return {topic: one.get(topic, {}) | other.get(topic, {}) for topic in {*one, *other}}


@dataclass
class SimpleGroup:
    """A classic group that only has offsets."""

    id: str


@dataclass
class Offset:
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = -1
    position: int = -1
    topic_id: bytes | None = None
