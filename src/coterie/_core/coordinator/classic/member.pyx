"""One member of a classic group, and a member id that was handed out.

It knows neither timers nor a clock: the fields for them belong to the coordinator. Cost: O(1), a
look-up of metadata is O(protocols).
Source: MemberMetadata.scala. Rules: docs/rules/coordinator.md#groups-and-members.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from coterie._core.checks cimport bytes_of, int32_of, pairs_of, text_of, text_or_none, texts_of
from coterie._core.coordinator.runtime cimport NO_TIMER

from coterie._core.coordinator.runtime import Thrown
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.values import MemberSummary

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
        raise Thrown(f"member {self.member_id} does not support protocol {protocol!r}")

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
