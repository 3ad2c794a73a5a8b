"""From a member's subscription to its assignment: fields, targets, resolved expressions, epochs."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember, Current
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol, Heartbeat
from coterie._core.coordinator.consumer.values cimport Assignment, MemberFields

# ---- A member's new fields, and what a group reads once the member has them ----------------------

cdef MemberFields updated_fields(ConsumerProtocol protocol, ConsumerMember member, Heartbeat r)
cdef object subscribed(ConsumerProtocol protocol, ConsumerGroup group, MemberFields fields)
cdef int64_t hash_with(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                       MemberFields fields, str lost_regex, bint is_new) except? -7
cdef bint will_be_homogeneous(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                              MemberFields fields, bint is_new) except -1

# ---- from a member's present assignment towards its target ---------------------------------------

cdef Current reconciled(ConsumerGroup group, ConsumerMember member, int32_t target_epoch,
                        Assignment target, dict owned, object subscribed, bint changed,
                        int* error)
cdef bint names_any(dict owned, Assignment assignment) except -1
cdef bint all_within(dict owned, Assignment assignment) except -1

# ---- the target assignment of a group: its assignor's input, and the records of what changed -----

cdef Assignment assign_targets(ConsumerProtocol protocol, ConsumerGroup group,
                               ConsumerMember member, MemberFields fields, ConsumerMember replaced,
                               bint homogeneous, int32_t epoch, list records)
cdef str assignor_of(ConsumerProtocol protocol, ConsumerGroup group, ConsumerMember member,
                     MemberFields fields, ConsumerMember replaced)

# ---- regular expressions of a group: when they are resolved, and the records of the result -------

cdef bint regex_step(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                     MemberFields fields, list records) except -1
cdef int run_tasks(ConsumerProtocol protocol) except -1
