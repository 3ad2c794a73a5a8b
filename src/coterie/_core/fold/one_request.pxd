"""Whether the commits of a batch are those of one request. Header only: inlined into the scan.

A coordinator appends the commits of a request as one batch, but older tools and other writers may
put several into one. Then a batch has records of other kinds or groups beside its commits, or two
commits of one partition.
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
    uint32_t batch               # the slot is free for any other

cdef struct Request:
    bint mixed                   # the batch cannot be one request
    bint rising                  # its commits are of one topic, partitions rising
    const uint8_t* group         # of the record before; NULL: it has none
    int32_t group_size
    bint commits                 # the record before is a commit
    bint any                     # there is a record before
    const uint8_t* names         # of the commit before
    int32_t names_size
    int32_t partition
    Slot* slots
    uint64_t mask
    uint32_t batch


cdef inline void request_free(Request* request) noexcept:
    free(request.slots)
    request.slots = NULL


cdef inline void request_begin(Request* request) noexcept nogil:
    """A new batch."""
    request.mixed = request.any = request.commits = False
    request.rising = True
    request.group = request.names = NULL


cdef inline void request_note(Request* request, const Record* record, bint commits,
                              const uint8_t* group, int32_t group_size) noexcept nogil:
    """The next record that counts; `commits`: it is a commit, no tombstone of one."""
    cdef int32_t names_size = record.key_size - KEY_ENDS
    cdef int32_t partition
    if request.any and (commits or request.commits) and (
            commits != request.commits or (group == NULL) != (request.group == NULL)
            or group_size != request.group_size
            or not coterie_equal(group, request.group, group_size)):
        request.mixed = True
    if commits:
        partition = load_i32(record.key + record.key_size - 4)
        # Bytes left over behind a key would be taken for its partition.
        if load_i16(record.key + 4 + group_size) != names_size - 4 - group_size or (
                request.names != NULL and (
                    names_size != request.names_size or partition <= request.partition
                    or not coterie_equal(record.key + 2, request.names, names_size))):
            request.rising = False
        request.names, request.names_size = record.key + 2, names_size
        request.partition = partition
    request.any, request.commits = True, commits
    request.group, request.group_size = group, group_size


cdef inline bint request_room(Request* request, uint64_t records) noexcept nogil:
    """Room to look for two commits of one partition among so many. False: no memory."""
    cdef uint64_t want = SLOTS_MIN
    while want < 2 * records:
        want *= 2
    request.batch += 1
    if request.slots == NULL or want > request.mask + 1 or request.batch == 0:
        free(request.slots)
        request.slots = <Slot*>calloc(want, sizeof(Slot))
        request.mask, request.batch = want - 1, 1
    return request.slots != NULL


cdef inline bint request_again(Request* request, const uint8_t* key, int32_t size) noexcept nogil:
    """Whether a key, after its version, came before in the batch; remember it."""
    cdef uint64_t at = coterie_keyhash(key, size) >> 32 & request.mask
    cdef Slot* slot = &request.slots[at]
    while slot.key != NULL and slot.batch == request.batch:
        if slot.size == size and coterie_equal(slot.key, key, size):
            return True
        at = (at + 1) & request.mask
        slot = &request.slots[at]
    slot.key, slot.size, slot.batch = key, size, request.batch
    return False


cdef inline bint commit_comes_again(Request* request, const Record* record,
                                    int64_t until_ms) noexcept nogil:
    """Whether a record is a commit of a partition that the batch has had one of."""
    cdef Commit commit
    if record.key_size < 2 or not 0 <= load_i16(record.key) <= KEY_OFFSET_MAX or (
            record.value_size < 0 or not in_time(record, until_ms)):
        return False
    if read_commit_key(record.key, record.key_size, &commit) != OK or (
            read_any_value(record.value, record.value_size, &commit) != OK):
        return False
    return request_again(request, commit.key, commit.key_size)
