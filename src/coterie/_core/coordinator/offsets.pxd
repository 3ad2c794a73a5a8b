"""Offsets, clean-up, administration and elections of the coordinator up to Kafka 3.9."""
from cpython.ref cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.coordinator.runtime cimport (
    AppendOp, Batch, Component, Group, OffsetStore, Runtime)
from coterie._core.structures.offsets cimport OffsetMap
from coterie._core.structures.slots cimport coterie_prefetch

# ---- resigning and loading: declarations ---------------------------------------------------------

cdef class Election:
    cdef Runtime runtime
    cdef OffsetStore store
    cdef str load_error
    cdef object consumer           # the ConsumerProtocol, or None

    cdef int resign(self, int32_t partition) except -1
    cdef int begin_load(self, int32_t partition) except -1
    cdef int finish_load(self, int32_t partition) except -1
    cdef int load_log(self, int32_t partition) except -1
    cdef int load_replayed(self, int32_t partition) except -1
    cdef int load_offsets(self, dict maps, object load_filter) except -1

# ---- offsetCommit, TxnOffsetCommit, markers, OffsetFetch: declarations ---------------------------

cdef class Offsets

cdef class CommitAppend(AppendOp):             # of offsets, plain or of a transaction
    cdef Offsets offsets
    cdef OffsetMap map                         # of the group when it committed
    cdef int64_t id                            # of the request, and its op
    cdef int op
    cdef tuple rows                            # what it commits
    cdef list entries                          # of each row its Offset; None: it was refused
    cdef bint waited                           # the map has the entries as pending

cdef class Offsets:
    cdef Runtime runtime
    cdef OffsetStore store
    cdef int64_t max_metadata

    cdef int commit(self, int64_t id, int op, Group group, str group_id, int32_t generation_id,
                    str member_id, str instance, tuple rows, int64_t producer_id,
                    int16_t epoch) except -1
    cdef int check_metadata(self, tuple rows) except -1
    cdef int write_commit(self, int64_t id, int op, str group_id, tuple rows,
                          int64_t producer_id, int16_t epoch, bint transactional) except -1
    cdef int pend(self, CommitAppend op) except -1
    cdef int commit_finished(self, CommitAppend op, int error, int64_t position) except -1
    cdef int plain_finished(self, int64_t id, int op, OffsetMap offsets, tuple rows, list entries,
                            Batch batch, bint waited, int error, int64_t position) except -1
    cdef int end_txn(self, int64_t producer_id, bint committed) except -1
    cdef int fetch(self, int64_t id, str group_id, tuple keys, bint stable) except -1

# ---- deletions, clean-up, ListGroups: declarations -----------------------------------------------

cdef int OFFSET_DELETE, DELETE_GROUPS, LIST_GROUPS

cdef dict partitions_by_topic(tuple keys)

cdef class AdminOperations(Component):
    cdef OffsetStore store
    cdef int64_t check_interval_ms

    cdef int join_operations(self, Runtime runtime, OffsetStore store, settings) except -1
    cdef int delete_offsets(self, int64_t id, Group group, str group_id, tuple keys) except -1
    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1
    cdef int delete_partitions(self, tuple keys) except -1
    cdef int clean_up(self) except -1
    cdef int list_groups(self, int64_t id, tuple details) except -1

cdef class Admin(AdminOperations):
    cdef int arm_clean_up(self) except -1
    cdef int write_tombstones(self, Group group, list removed) except -1

# ---- A compiled trace: declarations --------------------------------------------------------------

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(object items, Py_ssize_t n) noexcept

cdef enum:
    AHEAD = 12                     # events to prefetch: their objects are scattered

cdef struct Event:                 # 40 bytes
    int64_t at_ms
    int64_t id
    int32_t op
    int32_t generation_id
    int32_t group                  # indexes into the trace's objects; 0 is None
    int32_t member
    int32_t instance
    int32_t details

cdef class Trace:
    cdef Event* events
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef readonly dict header
    cdef list objects              # names and details; each name once
    cdef dict index                # name, or (operation, details) -> its place in `objects`
    cdef int details_count         # of `index`
    cdef public bint sugar         # some member id refers to an earlier answer
    cdef readonly int64_t last_id  # the largest id of a request
    cdef list lines                # the line of each event

    cdef int32_t intern(self, name) except -1
    cdef int32_t intern_details(self, int op, tuple details) except -1


cdef inline void fetch_ahead(list objects, const Event* event) noexcept:
    """Prefetch the objects of an event while the events before it are played."""
    coterie_prefetch(PyList_GET_ITEM(objects, event.group))
    coterie_prefetch(PyList_GET_ITEM(objects, event.member))
    coterie_prefetch(PyList_GET_ITEM(objects, event.details))


cdef object desugar(value, dict member_ids)
