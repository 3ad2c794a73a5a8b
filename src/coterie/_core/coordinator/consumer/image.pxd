"""The metadata image: topics by name and id, brokers, hashes."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.consumer.values cimport Names, TopicId

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
    cdef set update(self, object brokers, object deleted, object topics)
    cdef int forget_hash(self, str name) except -1
    cdef int forget_hashes(self) except -1
    cdef int64_t hash_of(self, object names) except? -7
    cdef int64_t hash_of_names(self, Names names) except? -7
    cdef bytes described(self, TopicId topic)
