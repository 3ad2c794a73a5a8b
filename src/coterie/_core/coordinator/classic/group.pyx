"""Groups of the classic protocol: members, states, votes, and their records.

Source: GroupMetadata.scala, MemberMetadata.scala.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.ref cimport PyObject, Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t
from libc.string cimport memcpy

from coterie._core.checks cimport (
    bytes_of, int32_of, int64_of, pairs_of, text_of, text_or_none, texts_of)
from coterie._core.codec.layout cimport Writing, begin, end, put_i16, put_i32, put_i64, written
from coterie._core.codec.schema cimport READ, UNREADABLE, Readable, read_topics
from coterie._core.coordinator.codes cimport FENCED_INSTANCE_ID, NONE, UNKNOWN_MEMBER_ID
from coterie._core.coordinator.runtime cimport (
    CLASSIC, COMPLETING_REBALANCE, DEAD, EMPTY, MAX_STATES, NO_TIMER, PREPARING_REBALANCE, STABLE,
    STATE_NAMES, Batch, Group, Request, begin_record, end_key, end_value, new_batch, put_bytes,
    put_raw, put_string)
from coterie._core.coordinator.runtime import UnreadableMetadata, KafkaThrows
from coterie._core.structures.votes cimport ProtocolCounts, most_voted

from coterie.errors import ArgumentError, CoterieError, shown
from coterie.values import GroupOverview, GroupSummary, MemberSummary


# ---- one member of a classic group, and a member id that was handed out --------------------------
# It knows neither timers nor a clock: the fields for them belong to the coordinator. Cost: O(1), a
# look-up of metadata is O(protocols).
# Source: MemberMetadata.scala. Rules: docs/rules/coordinator.md#groups-and-members.

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    uint8_t* PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 largest)

cdef enum:
    DIGITS = 8                     # of a member's number, at least
    LARGEST = 99999999             # number with this many digits


@cython.final
cdef class PendingId:
    """A member id that was handed out; the owner of its timer."""

    def __cinit__(self, str group_id, str member_id):
        self.group_id = group_id
        self.member_id = member_id
        self.timer = NO_TIMER


@cython.final
@cython.no_gc                      # it has the id of its group, not the group: no reference cycles
cdef class MemberMetadata:
    """A member of a group, with Kafka's fields (``MemberMetadata.scala``)."""

    def __cinit__(self):
        self.member_id = self.client_id = self.client_host = ""
        self.protocols = ()
        self.assignment = b""
        self.timer = NO_TIMER

    def __init__(self, member_id, group_instance_id, client_id, client_host,
                 rebalance_timeout_ms, session_timeout_ms, protocol_type, protocols,
                 assignment=b""):
        if self.group_id is not None:
            raise CoterieError(f"{self.member_id!r} is a member of {self.group_id!r} already")
        self.member_id = text_of(member_id, "member_id")
        self.group_instance_id = text_or_none(group_instance_id, "group_instance_id")
        self.client_id = text_of(client_id, "client_id")
        self.client_host = text_of(client_host, "client_host")
        self.protocol_type = text_or_none(protocol_type, "protocol_type")
        self.protocols = pairs_of(protocols, "protocols")
        self.rebalance_timeout_ms = int32_of(rebalance_timeout_ms, "rebalance_timeout_ms")
        self.session_timeout_ms = int32_of(session_timeout_ms, "session_timeout_ms")
        self.assignment = bytes_of(assignment, "assignment")

    @property
    def is_static_member(self):
        """Whether it has a group instance id."""
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self):
        """Whether its JoinGroup waits for an answer."""
        return self.awaiting_join is not None

    @property
    def is_awaiting_sync(self):
        """Whether its SyncGroup waits for an answer."""
        return self.awaiting_sync is not None

    def matches(self, protocols):
        """Whether these are the member's protocols: the same names and bytes in the same order."""
        return self.protocols == pairs_of(protocols, "protocols")

    def metadata(self, protocol):
        """Return its metadata for a protocol; CoterieError if it does not support the protocol."""
        return self.metadata_of(text_of(protocol, "protocol"))

    cdef bytes metadata_of(self, str protocol):
        for entry in self.protocols:
            if (<tuple?>entry)[0] == protocol:
                return (<tuple?>entry)[1]
        raise KafkaThrows(f"member {self.member_id} does not support protocol {protocol!r}")

    def vote(self, candidates):
        """Return the first of its names that is a candidate; CoterieError if none is."""
        cdef tuple names = texts_of(candidates, "candidates")
        for name, _ in self.protocols:
            if name in names:
                return name
        raise CoterieError(f"member {self.member_id} supports none of the candidates")

    def summary(self, protocol=None):
        """Describe it; metadata and assignment only with a protocol."""
        return MemberSummary(
            self.member_id, self.group_instance_id, self.client_id, self.client_host,
            b"" if protocol is None else self.metadata(protocol),
            b"" if protocol is None else self.assignment)

    def __repr__(self):
        return f"MemberMetadata({self.member_id!r}, group_instance_id={self.group_instance_id!r})"


cdef MemberMetadata new_member(str member_id, str instance, tuple protocols, str protocol_type,
                               int32_t rebalance_ms, int32_t session_ms):
    """Make a member of checked values."""
    cdef MemberMetadata member = MemberMetadata.__new__(MemberMetadata)
    member.member_id = member_id
    member.group_instance_id = instance
    member.protocols = protocols
    member.protocol_type = protocol_type
    member.rebalance_timeout_ms = rebalance_ms
    member.session_timeout_ms = session_ms
    return member


cdef MemberMetadata a_member(object value):
    if not isinstance(value, MemberMetadata):
        raise ArgumentError(f"member must be a MemberMetadata, not {shown(value)}")
    return <MemberMetadata?>value


cdef str numbered_id(str prefix, int64_t number):
    """Return PREFIX-N, the ids of members in traces."""
    cdef Py_ssize_t size, n
    cdef uint8_t* text
    if not PyUnicode_IS_COMPACT_ASCII(prefix) or number > LARGEST:
        return f"{prefix}-{number:08d}"
    size = PyUnicode_GET_LENGTH(prefix)
    member_id = PyUnicode_New(size + 1 + DIGITS, 127)
    text = PyUnicode_1BYTE_DATA(member_id)
    memcpy(text, PyUnicode_1BYTE_DATA(prefix), size)
    text[size] = c"-"
    for n in range(size + DIGITS, size, -1):
        text[n] = <uint8_t>(c"0" + number % 10)
        number //= 10
    return <str>member_id


# ---- the topics that the members of a group subscribe to, read from their metadata ---------------
# The metadata read last is remembered with its topics, since groups come and go and subscribe to
# the same topics. It knows no state of a group. Cost: members with the same metadata object are
# read once in a row; each other costs a look-up of the bytes.
# Source: GroupMetadata.scala (computeSubscribedTopics). Rules: docs/rules/coordinator.md#states.

cdef enum:
    SHORT = 4096                   # bytes of metadata that is remembered, at most
    MANY = 1024                    # entries

cdef dict TOPICS_BY_METADATA = {}
cdef frozenset NO_TOPICS = frozenset()


cdef int remember(bytes metadata, object topics) except -1:
    if len(metadata) <= SHORT:
        if len(TOPICS_BY_METADATA) >= MANY:
            TOPICS_BY_METADATA.clear()
        TOPICS_BY_METADATA[metadata] = topics


cdef frozenset topics_of(const MemberTable* members, str protocol_name, Readable* status):
    """Return the topics of all members; None, with a status, if some metadata is unreadable."""
    cdef set union = None
    cdef bytes last = None, metadata
    cdef object first = NO_TOPICS, topics
    cdef MemberMetadata member
    cdef Py_ssize_t place = 0
    status[0] = READ
    while (member := next_member(members, &place)) is not None:
        metadata = member.metadata_of(protocol_name)
        if metadata is last:
            continue
        topics = TOPICS_BY_METADATA.get(metadata)
        if topics is None:
            topics = set()
            status[0] = read_topics(metadata, topics)
            if status[0] != READ:
                return None
            topics = frozenset(topics)
            remember(metadata, topics)
        if last is None:
            first = topics
        else:
            if union is None:
                union = set(first)
            union |= topics
        last = metadata
    return first if union is None else frozenset(union)


# ---- one classic group and its members: fields, transitions, votes -------------------------------
# Fields and methods have Kafka's names in snake_case. Where Kafka uses the order of a hash map, the
# order here is that in which members were added; a static member with a new id is added again,
# last. It knows no timers, requests, offsets or clock. Cost: O(1) a member, O(members) a
# generation.
# Source: GroupMetadata.scala, MemberMetadata.scala. Rules: docs/rules/coordinator.md#states.

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
                raise KafkaThrows(f"a member of {self.group_id!r} supports no candidate")
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
                raise UnreadableMetadata(f"group {self.group_id!r} cannot start generation "
                                         f"{self.generation_id}: unreadable metadata")
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
        raise KafkaThrows(f"no member has the id of the instance {instance!r:.60}")
    return member


# ---- encode the metadata record of a classic group -----------------------------------------------
# Versions as Kafka 2.3 to 3.9 write them: key 2, value 3. It knows neither offsets nor appends.
# Cost: one pass over the members, one copy.
# Source: GroupMetadataManager.scala. Rules: docs/rules/log-format.md#keys.

cdef int put_key(Writing* w, str group_id) except -1:
    put_i16(w, 2)
    return put_string(w, group_id)


cdef bytes group_key(str group_id):
    cdef Writing w
    begin(&w)
    try:
        put_key(&w, group_id)
        return written(&w)
    finally:
        end(&w)


cdef int put_group(Writing* w, GroupMetadata group, dict assignments) except -1:
    cdef MemberMetadata member
    cdef Py_ssize_t place = 0, at_assignment = 0
    cdef Py_ssize_t at = begin_record(w)
    put_key(w, group.group_id)
    end_key(w, at)
    put_i16(w, 3)
    put_string(w, group.protocol_type or "")
    put_i32(w, group.generation_id)
    put_string(w, group.protocol_name)
    put_string(w, group.leader_id)
    put_i64(w, group.current_state_timestamp)
    put_i32(w, group.members.count)
    while (member := next_member(&group.members, &place)) is not None:
        put_string(w, member.member_id)
        put_string(w, member.group_instance_id)
        put_string(w, member.client_id)
        put_string(w, member.client_host)
        put_i32(w, member.rebalance_timeout_ms)
        put_i32(w, member.session_timeout_ms)
        put_bytes(w, member.metadata_of(group.protocol_name))
        put_bytes(w, member.assignment if assignments is None else assignment_of(
            assignments, member.member_id, &at_assignment))
    end_value(w, at)


cdef bytes assignment_of(dict assignments, str member_id, Py_ssize_t* place):
    """Return a leader's assignment for a member.

    Most leaders list the members in the order of their JoinGroup response, so the entry at `place`
    (0 at first) is tried before a look-up.
    """
    cdef PyObject* key = NULL
    cdef PyObject* value = NULL
    cdef Py_ssize_t after = place[0]
    if PyDict_Next(assignments, &after, &key, &value) and (
            PyUnicode_CheckExact(<object>key) and coterie_same_text(<object>key, member_id)):
        place[0] = after
        assignment = <object>value
    else:
        assignment = assignments.get(member_id)
    return <bytes?>assignment if assignment is not None else b""


cdef Batch group_batch(GroupMetadata group, dict assignments):
    """Encode a group; `assignments` maps member ids to bytes; None: use those of the members."""
    cdef Writing w
    begin(&w)
    try:
        put_group(&w, group, assignments)
        return new_batch(group.group_id, 1, written(&w))
    finally:
        end(&w)


cdef Batch empty_group_batch(GroupMetadata group, Batch before):
    """Encode a group that has just begun, as Kafka 4 writes it, behind other records."""
    cdef Writing w
    cdef Py_ssize_t at
    begin(&w)
    try:
        if before is not None:
            put_raw(&w, PyBytes_AS_STRING(before.data), PyBytes_GET_SIZE(before.data))
        at = begin_record(&w)
        put_key(&w, group.group_id)
        end_key(&w, at)
        put_i16(&w, 3)
        put_string(&w, "")
        put_i32(&w, 0)
        put_string(&w, None)
        put_string(&w, None)
        put_i64(&w, group.current_state_timestamp)
        put_i32(&w, 0)
        end_value(&w, at)
        return new_batch(group.group_id, 1 + (0 if before is None else before.count),
                         written(&w))
    finally:
        end(&w)
