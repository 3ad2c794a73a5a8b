"""Load groups of every type: replay the records of the log in their order."""
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol

cdef object load_groups(ConsumerProtocol protocol, rows, load_filter)
