"""The state of a consumer group as the records of a log have it.

A replay applies records with the code that a load and a live coordinator use: those of a log in
order, or the last record of each key. It differs in one point: nothing is refused. A log that a
broker would not load, because a partition has two owners or a removed member still has a target,
is shown as it is.
Source: ConsumerGroup.java, GroupMetadataManager.java (replay).
"""
cimport cython

from coterie._core.coordinator.consumer.group cimport (
    AS_RECORDED, ConsumerGroup, ConsumerMember, Record, new_group, preferred)
from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.values cimport (
    Assignment, MemberFields, Resolved, utf16_sorted)

from coterie._core.coordinator.consumer.parse import parse_record

# The default of group.consumer.assignors; a log does not have the setting.
cdef tuple ASSIGNORS = ("uniform", "range")


@cython.final
cdef class ReplayedGroup:
    """A consumer group that takes the records of a log, one by one."""

    cdef MetadataImage image
    cdef ConsumerGroup group

    def __cinit__(self):
        self.image = MetadataImage()
        self.group = new_group("", AS_RECORDED)

    def take(self, bytes key not None, bytes value):
        """Apply a record; return its member id or regular expression, None: it has neither."""
        cdef Record record
        parsed = parse_record(key, value, self.image)
        if parsed is None:
            return None
        record = parsed[1]
        self.group.apply(record, None)
        return record.name

    @property
    def state(self):
        """The state's name."""
        return self.group.state

    @property
    def group_epoch(self):
        """The epoch of the last epoch record, 0 before the first."""
        return self.group.epoch

    @property
    def metadata_hash(self):
        """The hash of the subscribed topics' metadata; 0: no such topic exists."""
        return self.group.metadata_hash

    @property
    def target_assignment_epoch(self):
        """The epoch for which the target assignment was computed."""
        return max(self.group.target_epoch, 0)

    @property
    def assignor(self):
        """The assignor with the most votes; without votes the first of Kafka's default."""
        return preferred(self.group.assignor_count, ASSIGNORS)

    @property
    def votes(self):
        """The number of members that name an assignor."""
        return sum(self.group.assignor_count.values())

    @property
    def subscribed_topics(self):
        """The names of the topics that members name, and of their resolved expressions."""
        return frozenset(self.group.topic_count)

    @property
    def regular_expressions(self):
        """Resolved regular expression -> topic names."""
        return {
            regex: list(utf16_sorted((<Resolved>self.group.resolved[regex]).topics))
            for regex in utf16_sorted(self.group.resolved)}

    def member(self, str member_id not None):
        """Return the row of a member, None: there is no such member."""
        found = self.group.members.get(member_id)
        return None if found is None else member_row(found)

    def members(self):
        """Return the rows of all members, by member id."""
        return [member_row(member) for member in self.group.order]


cdef dict member_row(ConsumerMember member):
    cdef MemberFields fields = member.fields
    return {
        "member_id": member.member_id,
        "group_instance_id": fields.instance_id,
        "client_id": fields.client_id,
        "client_host": fields.client_host,
        "session_timeout_ms":
            None if fields.classic is None else fields.classic.session_timeout_ms,
        "rebalance_timeout_ms": fields.rebalance_timeout_ms,
        "subscription": None,      # as a classic member has them
        "assignment": None,
        "rack_id": fields.rack_id,
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "member_state": member.state,
        "subscribed_topics": list(fields.names.ordered),
        "subscribed_regex": fields.regex or None,
        "server_assignor": fields.assignor,
        "upgraded": fields.classic is None,
        "current_assignment": rows_of(member.assigned),
        "pending_revocation": rows_of(member.revoking),
        "target_assignment": rows_of(member.target),
    }


cdef list rows_of(Assignment assignment):
    if assignment is None:
        return []
    return [(raw, list(partitions)) for raw, partitions in assignment.rows()]
