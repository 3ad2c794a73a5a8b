"""One classic group and its members: fields, transitions, votes.

Fields and methods have Kafka's names in snake_case. Where Kafka uses the order of a hash map, the
order here is that in which members were added; a static member with a new id is added again, last.
It knows no timers, requests, offsets or clock. Cost: O(1) a member, O(members) a generation.
Source: GroupMetadata.scala, MemberMetadata.scala. Rules: docs/rules/coordinator.md#states.
"""
cimport cython
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint32_t

from coterie._core.checks cimport (
    int32_of, int64_of, pairs_of, text_of, text_or_none, texts_of)
from coterie._core.coordinator.codes cimport FENCED_INSTANCE_ID, NONE, UNKNOWN_MEMBER_ID
from coterie._core.coordinator.outputs cimport (
    COMPLETING_REBALANCE, DEAD, EMPTY, MAX_STATES, PREPARING_REBALANCE, STABLE, STATE_NAMES)
from coterie._core.coordinator.classic.member cimport MemberMetadata, a_member
from coterie._core.coordinator.classic.member_table cimport (
    clear_members, coterie_same_text, find_member, first_member, has_member, list_members,
    next_member, pop_member, put_member)
from coterie._core.coordinator.classic.subscribed_topics cimport topics_of
from coterie._core.coordinator.runtime cimport CLASSIC, NO_TIMER, Group, Request
from coterie._core.codec.subscription cimport READ, UNREADABLE, Readable
from coterie._core.structures.votes cimport ProtocolCounts, most_voted

from coterie._core.coordinator.runtime import Garbage, Thrown
from coterie.errors import CoterieError
from coterie.values import GroupOverview, GroupSummary


cdef dict NOBODY = {}              # shared by groups whose field has no entry

# Groups refer to members, and members to texts, numbers and requests, never back to a group. So
# both types, and the dicts of them, are hidden from the garbage collector.

# Which states may come before each: bit n stands for state n.
cdef int[MAX_STATES] PREVIOUS = [
    1 << PREPARING_REBALANCE,
    1 << STABLE | 1 << COMPLETING_REBALANCE | 1 << EMPTY,
    1 << PREPARING_REBALANCE,
    1 << COMPLETING_REBALANCE,
    (1 << MAX_STATES) - 1,
]


@cython.final
@cython.no_gc                      # the collector would visit each of many groups again and again
cdef class GroupMetadata(Group):
    """A group: its state and its members (``GroupMetadata.scala``)."""

    def __cinit__(self):
        self.group_id = ""
        self.group_type = CLASSIC
        self.state, self.previous_state = EMPTY, DEAD
        # Most groups have no entry in these fields: they share one empty dict. What adds an entry
        # gives the group a dict of its own first.
        self.static_members = self.pending_members = self.renamed_sync = NOBODY
        self.counts = ProtocolCounts.__new__(ProtocolCounts)
        self.join_timer = self.sync_timer = NO_TIMER

    def __dealloc__(self):
        clear_members(&self.members)

    def __init__(self, group_id, now_ms=0):
        if self.made:              # a coordinator finds it by its id, and knows_id its times
            raise CoterieError(f"{self.group_id!r} is a group already, make another one")
        self.current_state_timestamp = int64_of(now_ms, "now_ms")
        self.group_id, self.made = text_of(group_id, "group_id"), True

    cdef MemberMetadata get(self, str member_id):
        return find_member(&self.members, member_id)

    cdef bint can_go_to(self, int state) noexcept:
        return PREVIOUS[state] >> self.state & 1

    cdef int enter(self, int state, int64_t now_ms) except -1:
        if not self.can_go_to(state):
            raise CoterieError(
                f"group {self.group_id!r} cannot go from {STATE_NAMES[self.state]} to "
                f"{STATE_NAMES[state]}")
        self.previous_state, self.state = self.state, state
        self.current_state_timestamp = now_ms

    cdef bint supports(self, str protocol_type, tuple protocols) except -1:
        if self.state == EMPTY:
            return bool(protocol_type) and len(protocols) > 0
        if self.protocol_type is None or self.protocol_type != protocol_type:
            return False
        cdef Py_ssize_t size = self.members.count
        for entry in protocols:
            if self.counts.is_candidate((<tuple?>entry)[0], size):
                return True
        return False

    cdef int add_member(self, MemberMetadata member, Request join) except -1:
        if member.group_instance_id is not None:
            if member.group_instance_id in self.static_members:
                raise CoterieError(f"static member {member.group_instance_id!r} is there already")
            self.static_members = self.static_members or {}
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members.count:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        put_member(&self.members, member.member_id, member)
        self.counts.count_in(member.protocols)
        member.group_id = self.group_id
        member.awaiting_join = join
        self.num_members_awaiting_join += join is not None

    cdef MemberMetadata remove_member(self, str member_id):
        """Remove a member, and its id from the pending ids; its parked join is not answered."""
        cdef MemberMetadata member = pop_member(&self.members, member_id)
        cdef MemberMetadata first
        if member is not None:
            member.group_id = None
            self.counts.count_out(member.protocols)
            self.num_members_awaiting_join -= member.awaiting_join is not None
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.is_led_by(member_id):
            first = first_member(&self.members)
            self.leader_id = None if first is None else first.member_id
        self.pending_members.pop(member_id, None)
        if member is not None:
            self.forget_sync(member)
        if self.renamed_sync:              # it may have been renamed
            self.renamed_sync.pop(member_id, None)
        return member

    cdef int change_member(self, MemberMetadata member, tuple protocols, int32_t rebalance_ms,
                           int32_t session_ms, Request join) except -1:
        if member.protocols is not protocols:
            self.counts.count_out(member.protocols)
            self.counts.count_in(protocols)
            member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms
        self.num_members_awaiting_join += (
            <int>(join is not None) - <int>(member.awaiting_join is not None))
        member.awaiting_join = join
        return 0

    cdef int rename_member(self, MemberMetadata member, str new_id) except -1:
        """Give a static member a new id, and the last place in the order."""
        cdef str old_id = member.member_id
        if member.pending_sync:            # Kafka waits for the old id
            names = dict.fromkeys(self.pending_sync())
            self.forget_syncs()
            self.renamed_sync = names
        if pop_member(&self.members, old_id) is None:
            raise CoterieError(f"{old_id!r} is not a member of {self.group_id!r}")
        member.member_id = new_id
        put_member(&self.members, new_id, member)
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[member.group_instance_id] = new_id

    cdef bint is_led_by(self, str member_id) noexcept:
        return self.leader_id is not None and member_id is not None and (
            coterie_same_text(self.leader_id, member_id))

    cdef bint elect(self) except -1:
        """Make sure that a member with a parked join leads; False if there is none."""
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        if self.leader_id is None:
            return False
        member = self.get(self.leader_id)
        if member is not None and member.awaiting_join is not None:
            return True
        while (member := next_member(&self.members, &place)) is not None:
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    cdef str vote(self):
        """Return the protocol of the next generation."""
        cdef Py_ssize_t size = self.members.count, cast = 0, place = 0
        cdef MemberMetadata member
        cdef dict votes = None
        cdef tuple last = None
        cdef str name = None
        while (member := next_member(&self.members, &place)) is not None:
            if member.protocols is last:
                cast += 1                 # the list of the member before, so the same vote
                continue
            if last is not None:
                votes = {} if votes is None else votes
                votes[name] = votes.get(name, 0) + cast
            last = member.protocols
            name = self.counts.vote(last, size)
            cast = 1
            if name is None:           # some list names a protocol twice
                raise Thrown(f"a member of {self.group_id!r} supports no candidate")
        if votes is None:
            return name                   # one list, one vote
        votes[name] = votes.get(name, 0) + cast
        return most_voted(votes, self.ties)

    cdef int64_t rebalance_timeout(self) noexcept:
        """The largest rebalance timeout; never below 0."""
        cdef int32_t most = 0
        cdef Py_ssize_t place = 0
        cdef MemberMetadata member
        while (member := next_member(&self.members, &place)) is not None:
            most = max(most, member.rebalance_timeout_ms)
        return most

    cdef int next_generation(self, int64_t now_ms) except -1:
        """Start a generation.

        If Kafka's code throws, the group is stuck in PreparingRebalance with a raised generation.
        """
        self.generation_id = <int32_t>(<uint32_t>self.generation_id + 1)     # wraps, as Java's int
        if self.members.count:
            self.protocol_name = self.vote()
            if self.subscribe() == UNREADABLE:
                raise Garbage(f"group {self.group_id!r} cannot start generation "
                              f"{self.generation_id}: a member's metadata cannot be read")
            self.enter(COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.subscribe()
            self.enter(EMPTY, now_ms)
        self.forget_syncs()

    cdef Readable subscribe(self) except *:
        """Compute `subscribed_topics` anew; unreadable metadata makes them unknown."""
        cdef Readable status = READ
        self.subscribed_topics = None
        if self.protocol_type is None or not coterie_same_text(self.protocol_type, "consumer"):
            return READ
        if not self.members.count or self.protocol_name is not None:
            self.subscribed_topics = topics_of(&self.members, self.protocol_name, &status)
        return status

    def find_subscribed_topics(self):
        """Compute ``subscribed_topics`` again from the members' subscriptions."""
        self.subscribe()

    cdef tuple member_list(self):
        """Return (id, instance id, metadata) of every member, for the leader."""
        cdef tuple entries = PyTuple_New(self.members.count)
        cdef MemberMetadata member
        cdef Py_ssize_t n = 0, place = 0
        while (member := next_member(&self.members, &place)) is not None:
            entry = (member.member_id, member.group_instance_id,
                     member.metadata_of(self.protocol_name))
            Py_INCREF(entry)
            PyTuple_SET_ITEM(entries, n, entry)
            n += 1
        return entries

    # The members of the generation that have not synced: a flag of the member. If one is renamed,
    # Kafka still waits for the old id; then a dict of ids takes the place of the flags.

    cdef bint awaits_sync(self) noexcept:
        return self.num_pending_sync > 0 or len(self.renamed_sync) > 0

    cdef int await_sync(self, MemberMetadata member) except -1:
        self.num_pending_sync += not member.pending_sync
        member.pending_sync = True

    cdef int forget_sync(self, MemberMetadata member) except -1:
        self.num_pending_sync -= member.pending_sync
        member.pending_sync = False
        if self.renamed_sync:
            self.renamed_sync.pop(member.member_id, None)

    cdef int forget_syncs(self) except -1:
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        while self.num_pending_sync and (member := next_member(&self.members, &place)) is not None:
            self.num_pending_sync -= member.pending_sync
            member.pending_sync = False
        self.renamed_sync = NOBODY

    cdef list pending_sync(self):
        return list(self.renamed_sync) or [
            member.member_id for member in list_members(&self.members)
            if (<MemberMetadata?>member).pending_sync]

    # For callers in Python, by Kafka's names.

    @property
    def current_state(self):
        """Empty, PreparingRebalance, CompletingRebalance, Stable or Dead."""
        return STATE_NAMES[self.state]

    @property
    def size(self):
        """How many members there are."""
        return self.members.count

    @property
    def supported_protocols(self):
        """For each protocol, how many entries of the members' lists name it."""
        return self.counts.as_dict()

    @property
    def all_members(self):
        """The members, in the order in which they were added."""
        return list_members(&self.members)

    @property
    def all_static_members(self):
        """Member ids by group instance id."""
        return dict(self.static_members)

    @property
    def pending_member_ids(self):
        """Ids that were handed out to clients that have not joined yet."""
        return list(self.pending_members)

    @property
    def pending_sync_members(self):
        """Members of the generation that have not synced."""
        return self.pending_sync()

    @property
    def rebalance_timeout_ms(self):
        """The longest rebalance timeout of a member, in ms; 0 without members."""
        return self.rebalance_timeout()

    @property
    def has_all_members_joined(self):
        """Whether every member has joined, and no member id is pending."""
        return (self.members.count == self.num_members_awaiting_join
                and not self.pending_members)

    @property
    def can_rebalance(self):
        """Whether the state may be followed by PreparingRebalance."""
        return self.can_go_to(PREPARING_REBALANCE)

    def is_in(self, state):
        """Whether the group is in this state, named as :attr:`current_state` names it."""
        return STATE_NAMES[self.state] == text_of(state, "state")

    def transition_to(self, state, now_ms):
        """Change the state at a time in ms; CoterieError if Kafka does not allow the step."""
        if text_of(state, "state") not in STATE_NAMES:
            raise CoterieError(f"{state!r} is no state of a group: {', '.join(STATE_NAMES)}")
        self.enter(STATE_NAMES.index(state), int64_of(now_ms, "now_ms"))

    def has(self, member_id):
        """Whether there is a member with this id."""
        return has_member(&self.members, text_of(member_id, "member_id"))

    def is_leader(self, member_id):
        """Whether this member leads the group."""
        return self.leader_id == text_of(member_id, "member_id")

    def member(self, member_id):
        """Return the member with this id; None if there is none."""
        return self.get(text_of(member_id, "member_id"))

    def add(self, member):
        """Add a member; the first one leads and gives the protocol type."""
        cdef MemberMetadata new = a_member(member)
        if has_member(&self.members, new.member_id):
            raise CoterieError(f"{new.member_id!r} is a member of {self.group_id!r} already")
        if new.group_id is not None:
            raise CoterieError(f"{new.member_id!r} is a member of {new.group_id!r}")
        self.add_member(new, None)

    def remove(self, member_id):
        """Remove a member; if it led, the first remaining one leads. An unknown id is ignored."""
        self.remove_member(text_of(member_id, "member_id"))

    def update_member(self, member, protocols, rebalance_timeout_ms, session_timeout_ms):
        """Replace the protocols and timeouts of a member of the group."""
        cdef MemberMetadata known = a_member(member)
        cdef tuple names = pairs_of(protocols, "protocols")
        if self.get(known.member_id) is not known:
            raise CoterieError(f"{known.member_id!r} is not a member of {self.group_id!r}")
        self.change_member(known, names, int32_of(rebalance_timeout_ms, "rebalance_timeout_ms"),
                           int32_of(session_timeout_ms, "session_timeout_ms"),
                           known.awaiting_join)

    def replace_static_member(self, group_instance_id, old_member_id, new_member_id):
        """Give a static member a new id; it keeps its assignment, client id and host."""
        cdef str instance = text_of(group_instance_id, "group_instance_id")
        cdef str old_id = text_of(old_member_id, "old_member_id")
        cdef str new_id = text_of(new_member_id, "new_member_id")
        cdef MemberMetadata member = self.get(old_id)
        if member is None or member.group_instance_id != instance:
            raise CoterieError(f"{old_id!r} is not the member of {instance!r}")
        if new_id != old_id and has_member(&self.members, new_id):
            raise CoterieError(f"{new_id!r} is a member of {self.group_id!r} already")
        self.rename_member(member, new_id)
        return member

    def supports_protocols(self, protocol_type, names):
        """Whether a member with this protocol type and these protocol names could join."""
        return self.supports(text_or_none(protocol_type, "protocol_type"),
                             tuple([(name,) for name in texts_of(names, "names")]))

    def candidate_protocols(self):
        """Return the protocol names that all members support."""
        return self.counts.candidates(self.members.count)

    def select_protocol(self):
        """Return the winner of the vote; CoterieError without members or candidates."""
        if not self.members.count:
            raise CoterieError("a group without members selects no protocol")
        return self.vote()

    def init_next_generation(self, now_ms):
        """Begin the next generation: CompletingRebalance with members, or else Empty."""
        self.next_generation(int64_of(now_ms, "now_ms"))

    def current_member_metadata(self):
        """Return (id, instance id or None, metadata) of every member, for the leader."""
        return list(self.member_list())

    def overview(self):
        """Return the group's entry of ListGroups."""
        return GroupOverview(self.group_id, self.protocol_type or "", STATE_NAMES[self.state])

    def summary(self):
        """Return the group's entry of DescribeGroups."""
        cdef str protocol = self.protocol_name if self.state == STABLE else None
        return GroupSummary(
            STATE_NAMES[self.state], self.protocol_type or "", protocol or "",
            tuple([member.summary(protocol) for member in list_members(&self.members)]))

    def __repr__(self):
        return (f"GroupMetadata({self.group_id!r}, {STATE_NAMES[self.state]}, generation "
                f"{self.generation_id}, {self.members.count} members)")


cdef GroupMetadata new_group(str group_id, int64_t now_ms):
    """Make a group of checked values."""
    cdef GroupMetadata group = GroupMetadata.__new__(GroupMetadata)
    group.group_id, group.made = group_id, True
    group.current_state_timestamp = now_ms
    return group


cdef int check_member(GroupMetadata group, str member_id, str instance) except? -7:
    """Return the error of a request by this member, or NONE."""
    if instance is not None:
        mapped = group.static_members.get(instance)
        if mapped is None:
            return UNKNOWN_MEMBER_ID
        if mapped != member_id:
            return FENCED_INSTANCE_ID
    return NONE if has_member(&group.members, member_id) else UNKNOWN_MEMBER_ID


cdef MemberMetadata static_member(GroupMetadata group, str instance):
    """Return the member of an instance; Kafka throws, too, if there is none."""
    cdef MemberMetadata member = group.get(group.static_members[instance])
    if member is None:
        raise Thrown(f"no member has the id of the instance {instance!r:.60}")
    return member
