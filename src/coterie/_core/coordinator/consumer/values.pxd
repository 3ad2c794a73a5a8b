"""Values of consumer groups: assignments, member fields, regular expressions, topic metadata."""
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint64_t

# ---- values of the consumer protocol that never change: topic ids, assignments, subscriptions ----

cdef class TopicId:                # one object for each id of a coordinator
    cdef readonly bytes raw        # 16 bytes
    cdef int64_t upper             # both halves, signed: the order of Uuid.compareTo
    cdef int64_t lower
    cdef readonly str name         # None: the metadata image has no topic of this id
    cdef int32_t partition_count
    cdef list replicas             # broker ids of each partition
    cdef Py_ssize_t mark           # an assignor's own: the topic's index in this run, or -1

cdef class Assignment:
    cdef readonly tuple topics     # of TopicId, in their order
    cdef Py_ssize_t topic_count
    cdef int32_t count             # of all partitions
    cdef int32_t* ends             # of each topic: where its partitions end
    cdef int32_t* partitions       # ascending within a topic
    cdef int32_t* epochs           # at which each was assigned; NULL: of no record since 4.3

    cdef bint equals(self, Assignment other) noexcept
    cdef Py_ssize_t find(self, TopicId topic) noexcept
    cdef bint holds(self, TopicId topic, int32_t partition) noexcept
    cdef int32_t place(self, TopicId topic, int32_t partition) noexcept
    cdef dict epochs_by_topic(self)

cdef class Names:                  # a set of topic names; one object for each set
    cdef readonly tuple ordered    # by UTF-16 units
    cdef readonly frozenset names
    cdef int64_t topics_stamp      # of the image that `topics` was made of; -1: none
    cdef tuple topics              # TopicIds of those that exist, in their order
    cdef int64_t hash_stamp        # of the image that `digest` was computed from; -1: none
    cdef int64_t digest

cdef class ClassicPart:            # of a member that speaks the classic protocol
    cdef readonly int32_t session_timeout_ms
    cdef readonly tuple protocols  # ((name, metadata), ...)

cdef class MemberFields:           # what a member record says
    cdef readonly str instance_id
    cdef readonly str rack_id
    cdef readonly str client_id
    cdef readonly str client_host
    cdef readonly Names names
    cdef readonly str regex        # "" for none; None only in records of others
    cdef readonly str assignor
    cdef readonly int32_t rebalance_timeout_ms
    cdef readonly ClassicPart classic

cdef class Resolved:               # a regular expression, resolved
    cdef readonly frozenset topics
    cdef readonly int64_t version  # of the image
    cdef readonly int64_t at_ms

cdef bint before(TopicId one, TopicId other) noexcept
cdef Assignment new_assignment(list topics, const int32_t* ends, const int32_t* partitions,
                               const int32_t* epochs)
cdef Assignment assignment_of(tuple topics, const int32_t* ends, const int32_t* partitions,
                              const int32_t* epochs)
cdef Assignment assignment_of_refs(PyObject** topics, Py_ssize_t count, const int32_t* ends,
                                   const int32_t* partitions, const int32_t* epochs)
cdef Assignment at_epoch(Assignment assignment, int32_t epoch)
cdef Assignment no_partitions()
cdef Names no_names()
cdef tuple utf16_sorted(object texts)
cdef bint utf16_before(str one, str other) except -1
cdef int add_count(dict counts, object name, int by) except -1

# ---- the metadata image: topics by name and id, brokers, hashes ----------------------------------

cdef class MetadataImage:
    cdef readonly dict topics      # by name: TopicId
    cdef dict ids                  # every id that was ever met: bytes -> TopicId
    cdef dict racks                # broker id -> rack or None
    cdef dict hashes               # of topics, by name
    cdef int64_t stamp             # changes with whatever a hash of names depends on
    cdef readonly int64_t version
    cdef readonly int64_t version_with_new_topics
    cdef dict names                # the one object of each set of names

    cdef TopicId topic_id(self, bytes raw)
    cdef Names names_of(self, tuple texts)
    cdef set update(self, object brokers, object deleted, object topics, list gone)
    cdef int forget_hash(self, str name) except -1
    cdef int forget_hashes(self) except -1
    cdef int64_t hash_of(self, object names) except? -7
    cdef int64_t hash_of_names(self, Names names) except? -7
    cdef bytes described(self, TopicId topic)
