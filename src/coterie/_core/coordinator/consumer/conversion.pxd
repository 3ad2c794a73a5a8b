"""Classic groups as consumer groups, and back: declarations."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember
from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.values cimport Assignment, MemberFields

cdef tuple read_subscription(bytes metadata, MetadataImage image)
cdef bytes written_assignment(Assignment assignment, bytes metadata)
cdef list consumer_records(GroupMetadata group, MetadataImage image)
cdef GroupMetadata classic_group(ConsumerGroup group, object leaving, ConsumerMember replaced,
                                 str new_id, MemberFields fields, int ties, int64_t now_ms)
