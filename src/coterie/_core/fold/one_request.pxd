"""Whether the commits of a batch are those of one request. Header only: inlined into `record_scan`.

A coordinator appends the commits of a request as one batch. Older tools and other writers may put
several requests into one: then a batch has records of other kinds or groups beside its commits, or
two commits of one partition. Cost: a comparison a record; a hash table only if the partitions of a
batch are not in ascending order.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from coterie._core.codec.batch cimport Record, in_time
from coterie._core.codec.cursor cimport OK, load_i16, load_i32
from coterie._core.fold.commit cimport (
    KEY_ENDS, KEY_OFFSET_MAX, Commit, read_any_value, read_commit_key)
from coterie._core.fold.keytable cimport coterie_equal, coterie_keyhash

cdef enum:
    SLOTS_MIN = 1024

cdef struct Slot:
    const uint8_t* key           # after its version; NULL: free
    int32_t size
    uint32_t batch               # the slot is free for other batches

cdef struct Request:
    bint mixed                   # the batch cannot be one request
    bint ascending               # its commits are of one topic, partitions in ascending order
    const uint8_t* group         # of the previous record; NULL: it has none
    int32_t group_size
    bint previous_commits        # the previous record is a commit
    bint has_previous
    const uint8_t* names         # of the previous commit
    int32_t names_size
    int32_t partition
    Slot* slots
    uint64_t mask
    uint32_t batch


cdef inline void request_begin(Request* request) noexcept nogil:
    """Begin a batch."""
    request.mixed = request.has_previous = request.previous_commits = False
    request.ascending = True
    request.names = NULL


cdef inline void request_add(Request* request, const Record* record, bint commits,
                             const uint8_t* group, int32_t group_size) noexcept nogil:
    """Add the next record that counts; `commits`: it is a commit, not a tombstone."""
    cdef int32_t names_size = record.key_size - KEY_ENDS
    cdef int32_t partition
    if request.has_previous and (commits or request.previous_commits) and (
            commits != request.previous_commits or (group == NULL) != (request.group == NULL)
            or group_size != request.group_size
            or not coterie_equal(group, request.group, group_size)):
        request.mixed = True
    if commits:
        partition = load_i32(record.key + record.key_size - 4)
        # Bytes after a key would be read as its partition.
        if load_i16(record.key + 4 + group_size) != names_size - 4 - group_size or (
                request.names != NULL and (
                    names_size != request.names_size or partition <= request.partition
                    or not coterie_equal(record.key + 2, request.names, names_size))):
            request.ascending = False
        request.names, request.names_size = record.key + 2, names_size
        request.partition = partition
    request.has_previous, request.previous_commits = True, commits
    request.group, request.group_size = group, group_size


cdef inline bint request_room(Request* request, uint64_t records) noexcept nogil:
    """Make room to look for a repeated partition among so many records. False: no memory."""
    cdef uint64_t want = SLOTS_MIN
    while want < 2 * records:
        want *= 2
    request.batch += 1
    if request.slots == NULL or want > request.mask + 1 or request.batch == 0:
        free(request.slots)
        request.slots = <Slot*>calloc(want, sizeof(Slot))
        request.mask, request.batch = want - 1, 1
    return request.slots != NULL


cdef inline bint request_add_key(Request* request, const uint8_t* key, int32_t size) noexcept nogil:
    """Add a key without its version. True: the batch had it before."""
    cdef uint64_t at = coterie_keyhash(key, size) >> 32 & request.mask
    cdef Slot* slot = &request.slots[at]
    while slot.key != NULL and slot.batch == request.batch:
        if slot.size == size and coterie_equal(slot.key, key, size):
            return True
        at = (at + 1) & request.mask
        slot = &request.slots[at]
    slot.key, slot.size, slot.batch = key, size, request.batch
    return False


cdef inline bint repeats_partition(Request* request, const Record* record,
                                   int64_t until_ms) noexcept nogil:
    """Whether a record is a commit of a partition that the batch has committed before."""
    cdef Commit commit
    if record.key_size < 2 or not 0 <= load_i16(record.key) <= KEY_OFFSET_MAX or (
            record.value_size < 0 or not in_time(record, until_ms)):
        return False
    if read_commit_key(record.key, record.key_size, &commit) != OK or (
            read_any_value(record.value, record.value_size, &commit) != OK):
        return False
    return request_add_key(request, commit.key, commit.key_size)
