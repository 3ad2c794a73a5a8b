"""The history of a partition: each commit and each generation of its groups, as rows.

Rows of transactions wait for their marker. A history is dumped and merged with its fold: the
histories of a log's pieces, joined in order, equal the history of the log.
"""
cimport cython
from collections import namedtuple
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from coterie._core.checks cimport begin_change, begin_read, end_use, within
from coterie._core.codec.batch cimport Record
from coterie._core.codec.cursor cimport OK, Status
from coterie._core.codec.layout cimport MAX_FIELDS, Layout
from coterie._core.codec.layout import decode_utf8
from coterie._core.codec.schema cimport slot_of, value_layout, walk_group
from coterie._core.codec.walk cimport Span, number_at
from coterie._core.fold.commit cimport (
    KEY_GROUP, enter_topic_ids, key_fits, name_at, names_as_bytes, topic_id_bytes)
from coterie._core.fold.history_buffer cimport (
    ABORTED, COMMITTED, PENDING, TOMBSTONE, HistoryBuffer, HistoryRow, buffer_append, buffer_clear,
    buffer_commit, buffer_free, buffer_reserve, metadata_start, names_into)
from coterie._core.fold.keytable cimport TOPIC_ID_SIZE, Table, Value, table_init, topic_id_at
from coterie._core.fold.names cimport name_number, names_init

from coterie.errors import CorruptData, CoterieError, shown


# ---- the generations of a group: what each record of its metadata changed ------------------------
# The log of a group stores its first and its last record whole, because pieces of a log are joined
# there. Of every other record it stores the difference to the record before. Values are compared as
# bytes, and only members that differ become Python objects. Knows values; knows no batches and no
# commits. Cost: a record in which no member changed costs one walk over its members; pickled, 57
# bytes.

MetadataRecord = namedtuple("MetadataRecord", "log_offset timestamp value", module=__name__)
MetadataRecord.__doc__ = """A record of group metadata as it stands in the log."""
Generation = namedtuple(
    "Generation",
    "log_offset timestamp tombstone protocol_type generation protocol leader "
    "current_state_timestamp member_count joined left replaced subscription_changed "
    "leader_changed protocol_changed previous_generation since_previous_ms", module=__name__)
Generation.__doc__ = """A group at a metadata record, and what changed since the record before."""
cdef object new_tuple = tuple.__new__    # takes a third of the time of a named tuple's own

cdef enum:                           # flags of a packed row
    GROUP_TOMBSTONE = 1
    LEADER_CHANGED = 2
    PROTOCOL_CHANGED = 4
    NO_TIMESTAMP = 8
    NO_GENERATION = 16
    NO_STATE_TIMESTAMP = 32
    NO_PREVIOUS = 64
    NO_SINCE = 128

cdef Layout GROUP_METADATA = value_layout(KEY_GROUP)
cdef Layout MEMBER = <Layout?>GROUP_METADATA.below("members")
cdef int PROTOCOL_TYPE = slot_of(GROUP_METADATA, "protocolType")
cdef int GENERATION = slot_of(GROUP_METADATA, "generation")
cdef int PROTOCOL = slot_of(GROUP_METADATA, "protocol")
cdef int LEADER = slot_of(GROUP_METADATA, "leader")
cdef int STATE_TIMESTAMP = slot_of(GROUP_METADATA, "currentStateTimestamp")
cdef int MEMBERS = slot_of(GROUP_METADATA, "members")
cdef int MEMBER_ID = slot_of(MEMBER, "memberId")
cdef int INSTANCE_ID = slot_of(MEMBER, "groupInstanceId")
cdef int SUBSCRIPTION = slot_of(MEMBER, "subscription")


cdef inline bint same(const Span* a, const Span* b) noexcept nogil:
    if a.at == NULL or b.at == NULL:
        return a.at == b.at
    return a.size == b.size and memcmp(a.at, b.at, a.size) == 0


cdef inline object text_of(const Span* span):
    return None if span.at == NULL else decode_utf8(span.at[:span.size])


@cython.final
cdef class GroupView:
    """The fields of a group metadata value as spans of its bytes; a tombstone has none."""

    def __cinit__(self, bytes value):
        cdef Span fields[MAX_FIELDS]
        cdef Status status
        self.value = value
        self.state_timestamp = -1
        if value is None:
            return
        self.members.slot = MEMBERS
        status = walk_group(value, len(value), fields, &self.members)
        if self.members.failed:
            raise MemoryError
        if status != OK:
            raise CorruptData("a group metadata value that cannot be read", kind="value")
        self.protocol_type, self.protocol = fields[PROTOCOL_TYPE], fields[PROTOCOL]
        self.leader = fields[LEADER]
        self.generation = <int32_t>number_at(&fields[GENERATION], -1)
        self.state_timestamp = number_at(&fields[STATE_TIMESTAMP], -1)

    def __dealloc__(self):
        free(self.members.spans)

    cdef inline const Span* member(self, int32_t number) noexcept:
        """The fields of a member, by slot."""
        return &self.members.spans[<Py_ssize_t>number * self.members.width]

    cdef dict by_id(self):
        cdef int32_t i
        cdef const Span* member
        cdef dict members = {}
        for i in range(self.members.count):
            member = self.member(i)
            members[text_of(&member[MEMBER_ID])] = (
                text_of(&member[INSTANCE_ID]),
                member[SUBSCRIPTION].at[:member[SUBSCRIPTION].size])
        return members


class GroupLog:
    """The metadata records of one group, in log order."""

    __slots__ = ("_view", "changes", "first", "last")

    def __init__(self):
        self.first = self.last = self._view = None
        self.changes = []

    def __getstate__(self):
        return (self.first, self.last, pack(self.changes))

    def __setstate__(self, state):
        self.first, self.last, packed = state
        self.changes = unpack(packed)
        self._view = None

    def add(self, log_offset, timestamp, bytes value):
        """Add the next record."""
        add_generation(self, log_offset, timestamp, GroupView(value))

    def _last_view(self):
        return GroupView(self.last.value) if self._view is None else self._view

    def copy(self):
        """Return an independent copy."""
        copied = GroupLog()
        copied.first, copied.last, copied.changes = self.first, self.last, list(self.changes)
        return copied

    def absorb(self, later):
        """Append the records of a later piece of the log."""
        if not isinstance(later, GroupLog):
            raise TypeError(f"later must be a GroupLog, not {shown(later)}")
        first = later.first
        self.changes.append(change(self.last.timestamp, self._last_view(), first.log_offset,
                                   first.timestamp, GroupView(first.value)))
        self.changes.extend(later.changes)
        self.last, self._view = later.last, None

    def generations(self):
        """Return a row for each record."""
        first = self.first
        return [change(-1, None, first.log_offset, first.timestamp, GroupView(first.value)),
                *self.changes]


cdef packed struct Packed:       # a generation without its lists of members; see `pack_row`
    int64_t log_offset, timestamp, state_timestamp, since_previous_ms
    int32_t generation, previous_generation, member_count
    int32_t protocol_type, protocol, leader                  # indexes in a list of texts
    uint8_t flags


cdef tuple pack(list rows):
    """Turn generations into few objects, as a pickle takes a microsecond for each tuple and text.

    Most texts are repeated, so a text is its index in a list. In most records no member changed, so
    only the lists of the other rows are there, by the row's number.
    """
    cdef dict places = {}
    cdef dict changed = {}
    cdef Py_ssize_t i, count = len(rows)
    cdef bytes numbers = PyBytes_FromStringAndSize(NULL, count * <Py_ssize_t>sizeof(Packed))
    cdef Packed* at = <Packed*>PyBytes_AS_STRING(numbers)
    for i in range(count):
        lists = pack_row(rows[i], &at[i], places)
        if lists is not None:
            changed[i] = lists
    return numbers, list(places), changed


cdef tuple pack_row(object row, Packed* to, dict places):
    """Fill `to`; return the lists of members, or None if all are empty."""
    if not isinstance(row, tuple):
        raise TypeError(f"a generation must be a Generation, not {shown(row)}")
    (log_offset, timestamp, tombstone, protocol_type, generation, protocol, leader,
     state_timestamp, member_count, joined, left, replaced, subscription_changed, leader_changed,
     protocol_changed, previous_generation, since_previous_ms) = <tuple>row
    to.log_offset, to.member_count = log_offset, member_count
    to.timestamp = 0 if timestamp is None else timestamp
    to.state_timestamp = 0 if state_timestamp is None else state_timestamp
    to.since_previous_ms = 0 if since_previous_ms is None else since_previous_ms
    to.generation = 0 if generation is None else generation
    to.previous_generation = 0 if previous_generation is None else previous_generation
    to.protocol_type = places.setdefault(protocol_type, len(places))
    to.protocol = places.setdefault(protocol, len(places))
    to.leader = places.setdefault(leader, len(places))
    to.flags = (
        (GROUP_TOMBSTONE if tombstone else 0) | (LEADER_CHANGED if leader_changed else 0)
        | (PROTOCOL_CHANGED if protocol_changed else 0)
        | (NO_TIMESTAMP if timestamp is None else 0)
        | (NO_GENERATION if generation is None else 0)
        | (NO_STATE_TIMESTAMP if state_timestamp is None else 0)
        | (NO_PREVIOUS if previous_generation is None else 0)
        | (NO_SINCE if since_previous_ms is None else 0))
    if joined or left or replaced or subscription_changed:
        return joined, left, replaced, subscription_changed
    return None


cdef list unpack(tuple packed):
    """Turn the values of `pack` into generations; they may have been changed on their way."""
    cdef bytes numbers
    cdef list texts
    cdef dict changed
    numbers, texts, changed = packed
    cdef Py_ssize_t i, count = len(numbers) // <Py_ssize_t>sizeof(Packed)    # `len` raises for None
    cdef const Packed* at = <const Packed*>PyBytes_AS_STRING(numbers)
    cdef list rows = []
    if count * <Py_ssize_t>sizeof(Packed) != len(numbers):
        raise CoterieError("generations of a partial state are cut off")
    for i in range(count):
        rows.append(unpack_row(&at[i], texts, changed.get(i)))
    return rows


cdef object unpack_row(const Packed* row, list texts, tuple lists):
    cdef int flags = row.flags
    if lists is None:
        lists = ([], [], [], [])
    elif len(lists) != 4:
        raise CoterieError("a generation of a partial state does not have four lists of members")
    return new_tuple(Generation, (
        row.log_offset, None if flags & NO_TIMESTAMP else row.timestamp,
        (flags & GROUP_TOMBSTONE) != 0, text_at(texts, row.protocol_type),
        None if flags & NO_GENERATION else row.generation, text_at(texts, row.protocol),
        text_at(texts, row.leader), None if flags & NO_STATE_TIMESTAMP else row.state_timestamp,
        row.member_count, *lists, (flags & LEADER_CHANGED) != 0, (flags & PROTOCOL_CHANGED) != 0,
        None if flags & NO_PREVIOUS else row.previous_generation,
        None if flags & NO_SINCE else row.since_previous_ms))


cdef object text_at(list texts, int32_t place):
    if not 0 <= place < len(texts):
        raise CoterieError("a generation of a partial state names a text that is not there")
    return texts[place]


cdef int add_generation(object log, object log_offset, object timestamp,
                        GroupView view) except -1:
    """Add the next record to a GroupLog."""
    cdef object record = new_tuple(MetadataRecord, (log_offset, timestamp, view.value))
    if log.first is None:
        log.first = record
    else:
        log.changes.append(
            change(log.last.timestamp, log._last_view(), log_offset, timestamp, view))
    log.last, log._view = record, view
    return 0


cdef bint same_members(GroupView before, GroupView after) noexcept:
    """Whether ids, instance ids and subscriptions are the same, in the same order."""
    cdef const Span* old
    cdef const Span* new
    cdef int32_t i
    if before.members.count != after.members.count:
        return False
    for i in range(after.members.count):
        old, new = before.member(i), after.member(i)
        if not (same(&old[MEMBER_ID], &new[MEMBER_ID])
                and same(&old[INSTANCE_ID], &new[INSTANCE_ID])
                and same(&old[SUBSCRIPTION], &new[SUBSCRIPTION])):
            return False
    return True


cdef tuple compare_members(dict old, dict new):
    """Return (joined, left, replaced, subscription_changed), each in the order of its record."""
    was_static = {instance: member_id for member_id, (instance, _) in old.items() if instance}
    replaced, joined = [], []
    for member_id, (instance, _) in new.items():
        if member_id in old:
            continue
        if instance in was_static and was_static[instance] not in new:
            replaced.append((instance, was_static[instance], member_id))
        else:
            joined.append(member_id)
    gone = {old_id for _, old_id, _ in replaced}
    left = [member_id for member_id in old if member_id not in new and member_id not in gone]
    became = {new_id: old_id for _, old_id, new_id in replaced}
    changed = [member_id for member_id, (_, subscription) in new.items()
               if became.get(member_id, member_id) in old
               and old[became.get(member_id, member_id)][1] != subscription]
    return joined, left, replaced, changed


cdef object change(object before_ms, GroupView before, object log_offset, object after_ms,
                   GroupView after):
    """Make the Generation of a record: its changes since the record before."""
    cdef bint first = before is None or before.value is None
    cdef bint gone = after.value is None
    cdef tuple members
    if before is not None and same_members(before, after):
        members = ([], [], [], [])
    else:
        members = compare_members({} if before is None else before.by_id(), after.by_id())
    since = None
    if before is not None and before_ms >= 0 and after_ms >= 0:
        since = after_ms - before_ms
    return new_tuple(Generation, (
        log_offset, None if after_ms < 0 else after_ms, gone,
        text_of(&after.protocol_type), None if gone else after.generation,
        text_of(&after.protocol), text_of(&after.leader),
        None if after.state_timestamp < 0 else after.state_timestamp, after.members.count, *members,
        not first and not same(&before.leader, &after.leader),
        not first and not same(&before.protocol, &after.protocol),
        None if first else before.generation, since))


# ---- the commits of a log, each with its outcome, in the order in which they are decided ---------
# A commit outside of transactions is decided at once and is a row of C (`history_buffer.pxd`). The
# commits of a transaction are pending, each as bytes of its own, until the fold applies the
# producer's next marker. Knows no batches and no faults. Cost: 80 bytes a row, and the metadata; a
# pending commit is a Python object.

OUTCOMES = ("committed", "aborted", "pending")

COLUMNS = dict.fromkeys(
    ("log_offset", "timestamp", "producer_id", "offset", "commit_timestamp", "expire_timestamp",
     "metadata_bounds"), 8)          # column -> bytes of its integers
COLUMNS |= dict.fromkeys(("leader_epoch", "group", "topic", "partition", "topic_id"), 4)
COLUMNS |= dict.fromkeys(("kind", "transactional", "outcome"), 1)
ROW_BYTES = sum(COLUMNS.values())

cdef str IN_USE = "this history"


@cython.final
cdef class History:
    """The decided commits of a fold, in the order of their decision."""

    def __cinit__(self):
        names_init(&self.buffer.names)
        table_init(&self.buffer.topic_ids)
        self.open_transactions = {}

    def __dealloc__(self):
        buffer_free(&self.buffer)

    def __len__(self):
        return self.buffer.count

    def clear(self):
        """Remove all rows. Pending commits stay, and become rows with their marker."""
        begin_change(&self.users, IN_USE)
        self.cleared += self.buffer.count
        buffer_clear(&self.buffer)
        end_use(&self.users)

    def columns(self, start=0, end=None):
        """Return the rows from ``start`` to ``end`` as arrays."""
        cdef Py_ssize_t stop
        begin_read(&self.users, IN_USE)
        try:
            stop = within(self.buffer.count if end is None else end, "end", 0, self.buffer.count)
            return columns_of(&self.buffer, within(start, "start", 0, stop), stop)
        finally:
            end_use(&self.users)

    def rows(self):
        """Yield the rows one by one, in the form of the table ``commits``."""
        cdef Py_ssize_t i = 0
        cdef dict texts = {}
        row = row_at(self, i, texts)
        while row is not None:           # rows may be added and cleared between two
            yield row
            i += 1
            row = row_at(self, i, texts)

    def pending(self):
        """Return the commits that no marker has decided yet, in order of their log offsets."""
        cdef History undecided = History()
        cdef list ordered = []
        begin_read(&self.users, IN_USE)
        try:
            for producer_id, commits in self.open_transactions.items():
                for packed in commits:   # their number breaks the tie of two at one log offset
                    ordered.append((log_offset_of(packed), len(ordered), producer_id, packed))
            for _, _, producer_id, packed in sorted(ordered):
                add_row(&undecided.buffer, producer_id, packed, PENDING)
        finally:
            end_use(&self.users)
        return undecided


cdef str table_text(const Table* table, int32_t number, dict texts, bint topic):
    place = (number, topic)
    text = texts.get(place)
    if text is None:
        text = texts[place] = decode_utf8(name_at(table, number))
    return text


cdef bytes metadata_at(const HistoryBuffer* buffer, Py_ssize_t i):
    cdef int64_t start = metadata_start(buffer, i)
    return (<const char*>buffer.metadata)[start:buffer.rows[i].metadata_end] if (
        buffer.rows[i].metadata_end > start) else b""


cdef tuple row_at(History history, Py_ssize_t i, dict texts):
    """A commit in the form of ``rows``; None after the last one."""
    cdef const HistoryRow* row
    cdef HistoryBuffer* buffer = &history.buffer
    cdef bint tombstone
    begin_read(&history.users, IN_USE)
    try:
        if i >= buffer.count:
            return None
        row = &buffer.rows[i]
        tombstone = row.kind == TOMBSTONE
        return (
            table_text(&buffer.names.groups, row.group, texts, False), row.log_offset,
            None if row.timestamp == -1 else row.timestamp,
            table_text(&buffer.names.topics, row.topic, texts, True), row.partition,
            None if tombstone else row.offset, None if tombstone else row.leader_epoch,
            None if tombstone else decode_utf8(metadata_at(buffer, i)),
            None if tombstone else row.commit_timestamp,
            None if row.expire_timestamp == -1 else row.expire_timestamp,
            tombstone, row.producer_id if row.transactional else None, OUTCOMES[row.outcome],
            topic_id_bytes(topic_id_at(&buffer.topic_ids, row.topic_id)))
    finally:
        end_use(&history.users)


@cython.boundscheck(False)    # every array has the rows from `start` to `end`
cdef dict columns_of(const HistoryBuffer* buffer, Py_ssize_t start, Py_ssize_t end):
    import numpy as np     # not at import: it takes longer to load than a small log
    cdef Py_ssize_t i, n = end - start
    cdef int64_t metadata_from = metadata_start(buffer, start)
    cdef int64_t metadata_size = metadata_start(buffer, end) - metadata_from
    cdef const HistoryRow* row
    # One block for all columns, as in columns.pyx: else page faults would take most of the time.
    block, at = np.empty((n + 1) * ROW_BYTES, dtype=np.uint8), 0
    out = {}
    for name, size in COLUMNS.items():
        out[name] = block[at:at + (n + 1) * size].view(f"i{size}")
        at += (n + 1) * size
    metadata = np.empty(metadata_size, dtype=np.uint8)
    cdef int64_t[::1] log_offset = out["log_offset"], timestamp = out["timestamp"]
    cdef int64_t[::1] producer_id = out["producer_id"], offset = out["offset"]
    cdef int64_t[::1] committed = out["commit_timestamp"]
    cdef int64_t[::1] expires = out["expire_timestamp"], bound = out["metadata_bounds"]
    cdef int32_t[::1] epoch = out["leader_epoch"], group = out["group"]
    cdef int32_t[::1] topic = out["topic"], partition = out["partition"]
    cdef int32_t[::1] topic_id = out["topic_id"]
    cdef int8_t[::1] kind = out["kind"], transactional = out["transactional"]
    cdef int8_t[::1] outcome = out["outcome"]
    cdef uint8_t[::1] metadata_view = metadata
    if metadata_size:
        memcpy(&metadata_view[0], buffer.metadata + metadata_from, metadata_size)
    bound[0] = 0
    with nogil:
        for i in range(n):
            row = &buffer.rows[start + i]
            log_offset[i], timestamp[i] = row.log_offset, row.timestamp
            producer_id[i], offset[i] = row.producer_id, row.offset
            committed[i], expires[i] = row.commit_timestamp, row.expire_timestamp
            bound[i + 1] = row.metadata_end - metadata_from
            epoch[i], group[i], topic[i] = row.leader_epoch, row.group, row.topic
            partition[i], kind[i], topic_id[i] = row.partition, row.kind, row.topic_id
            transactional[i], outcome[i] = row.transactional, row.outcome
    cut = {name: column[:n] for name, column in out.items() if name != "metadata_bounds"}
    return {**cut, "metadata": metadata, "metadata_bounds": out["metadata_bounds"],
            "groups": names_as_bytes(&buffer.names.groups),
            "topics": names_as_bytes(&buffer.names.topics),
            "topic_ids": names_as_bytes(&buffer.topic_ids)[0]}


cdef int begin_fold_change(int* users, History history) except -1:
    """Refuse other calls that change or read a fold or its history, until `end_fold_change`."""
    begin_change(users, "this partial state")
    if history is not None:
        try:
            begin_change(&history.users, IN_USE)
        except BaseException:
            end_use(users)
            raise
    return 0


cdef void end_fold_change(int* users, History history) noexcept:
    if history is not None:
        end_use(&history.users)
    end_use(users)


cdef int add_pending(History history, int64_t producer_id, const Record* record,
                     const uint8_t* key, int32_t key_size, const Value* value,
                     const uint8_t* topic_id) except -1:
    cdef PendingCommit commit
    cdef int32_t size = 0 if value == NULL else value.metadata_size
    cdef bytes packed
    cdef char* at
    if history is None:
        return 0
    memset(&commit, 0, sizeof(PendingCommit))
    commit.log_offset, commit.timestamp = record.offset, record.timestamp
    commit.key_size, commit.tombstone = key_size, value == NULL
    if value != NULL:
        commit.value = value[0]
        commit.value.metadata = NULL
        if topic_id != NULL:
            commit.has_topic_id = True
            memcpy(commit.topic_id, topic_id, TOPIC_ID_SIZE)
    packed = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>sizeof(PendingCommit) + key_size + size)
    at = PyBytes_AS_STRING(packed)
    memcpy(at, &commit, sizeof(PendingCommit))
    memcpy(at + sizeof(PendingCommit), key, key_size)
    if size:
        memcpy(at + sizeof(PendingCommit) + key_size, value.metadata, size)
    history.open_transactions.setdefault(producer_id, []).append(packed)
    return 0


cdef int decide(History history, int64_t producer_id, bint committed) except -1:
    if history is not None:
        for packed in history.open_transactions.pop(producer_id, ()):
            add_row(&history.buffer, producer_id, packed, COMMITTED if committed else ABORTED)
    return 0


cdef int add_row(HistoryBuffer* buffer, int64_t producer_id, bytes packed,
                 int8_t outcome) except -1:
    cdef const uint8_t* key = <const uint8_t*>PyBytes_AS_STRING(packed) + sizeof(PendingCommit)
    cdef PendingCommit commit
    cdef HistoryRow* row
    memcpy(&commit, PyBytes_AS_STRING(packed), sizeof(PendingCommit))
    commit.value.metadata = key + commit.key_size
    row = buffer_commit(buffer, commit.log_offset, commit.timestamp, key,
                        NULL if commit.tombstone else &commit.value,
                        commit.topic_id if commit.has_topic_id else NULL)
    if row == NULL:
        raise MemoryError
    row.transactional, row.producer_id, row.outcome = 1, producer_id, outcome
    return 0


cdef int64_t log_offset_of(bytes packed) noexcept:
    return (<const PendingCommit*>PyBytes_AS_STRING(packed)).log_offset


cdef int64_t row_number(History history) noexcept:
    return 0 if history is None else history.cleared + history.buffer.count


cdef int absorb_history(History history, History later, list markers) except -1:
    if history is None or later is None:
        return 0
    begin_change(&history.users, IN_USE)
    try:
        begin_read(&later.users, IN_USE)
        try:
            absorb_rows(history, later, markers)
        finally:
            end_use(&later.users)
    finally:
        end_use(&history.users)
    return 0


cdef int absorb_rows(History history, History later, list markers) except -1:
    """Append the later rows. The producer's first marker in the later piece decides the commits
    that the earlier piece left open."""
    cdef HistoryBuffer* to = &history.buffer
    cdef const HistoryBuffer* of = &later.buffer
    cdef Py_ssize_t at = 0, row
    cdef int32_t* groups = <int32_t*>malloc(
        (of.names.groups.count + of.names.topics.count + 1) * sizeof(int32_t))
    cdef int32_t* topics = groups + (of.names.groups.count if groups != NULL else 0)
    try:
        if (groups == NULL
                or not names_into(&to.names, &to.names.groups, &of.names.groups, groups)
                or not names_into(&to.names, &to.names.topics, &of.names.topics, topics)):
            raise MemoryError
        for _, producer_id, theirs, first_of in sorted(markers):
            # A caller may have written any number there; rows may have been cleared.
            row = max(at, within(theirs.first_row, "the row of a marker", 0, row_number(later))
                      - later.cleared)
            if not buffer_append(to, of, at, row, groups, topics):
                raise MemoryError
            at = row
            if first_of is not None:
                first_of.first_row = row_number(history)
            decide(history, producer_id, theirs.first_committed)
        if not buffer_append(to, of, at, of.count, groups, topics):
            raise MemoryError
    finally:
        free(groups)
    for producer_id, commits in later.open_transactions.items():
        history.open_transactions.setdefault(producer_id, []).extend(commits)
    return 0


# ---- A history as plain values that pickle, and back ---------------------------------------------
# Part of the values of `dump`. `restore_history` takes nothing on trust: a name that does not
# exist, or a length that does not fit, raises CorruptData before anything reads it. Cost: a copy of
# the rows, the metadata and the names.

cdef int64_t MAX_ROWS = <int64_t>1 << 62
cdef int64_t MIN_ID = -0x8000000000000000
cdef int64_t MAX_ID = 0x7FFFFFFFFFFFFFFF


cdef tuple dump_history(History history):
    """(rows, metadata, bytes and bounds of group names, the same of topic names, bytes of topic
    ids, open transactions, number of cleared rows)."""
    import numpy as np     # not at import: it takes longer to load than a small log
    cdef HistoryBuffer* buffer = &history.buffer
    cdef uint8_t[::1] row_view, metadata_view
    begin_read(&history.users, IN_USE)
    try:
        rows = np.empty(buffer.count * sizeof(HistoryRow), dtype=np.uint8)
        metadata = np.empty(buffer.metadata_size, dtype=np.uint8)
        row_view, metadata_view = rows, metadata
        if buffer.count:
            memcpy(&row_view[0], buffer.rows, buffer.count * sizeof(HistoryRow))
        if buffer.metadata_size:
            memcpy(&metadata_view[0], buffer.metadata, buffer.metadata_size)
        pending = {producer_id: tuple(commits)
                   for producer_id, commits in history.open_transactions.items()}
        return (rows, metadata, *names_as_bytes(&buffer.names.groups),
                *names_as_bytes(&buffer.names.topics), names_as_bytes(&buffer.topic_ids)[0],
                pending, history.cleared)
    finally:
        end_use(&history.users)


cdef History restore_history(tuple state):
    """Rebuild a history from the values that `dump_history` returned."""
    cdef History history = History()
    cdef HistoryBuffer* buffer = &history.buffer
    cdef const uint8_t[::1] rows, metadata
    (rows, metadata, groups, group_bounds, topics, topic_bounds, topic_ids, pending,
     cleared) = state
    if rows.shape[0] % sizeof(HistoryRow):
        raise CorruptData("the rows of a history are cut short")
    enter_names(buffer, &buffer.names.groups, groups, group_bounds)
    enter_names(buffer, &buffer.names.topics, topics, topic_bounds)
    enter_topic_ids(&buffer.topic_ids, topic_ids)
    if not buffer_reserve(buffer, rows.shape[0] // sizeof(HistoryRow), metadata.shape[0]):
        raise MemoryError
    if rows.shape[0]:
        memcpy(buffer.rows, &rows[0], rows.shape[0])
    if metadata.shape[0]:
        memcpy(buffer.metadata, &metadata[0], metadata.shape[0])
    buffer.metadata_size = metadata.shape[0]
    enter_rows(buffer, rows.shape[0] // sizeof(HistoryRow))
    enter_pending(history, pending)
    if not 0 <= cleared <= MAX_ROWS:
        raise CorruptData(f"a history with {cleared} cleared rows")
    history.cleared = cleared
    return history


cdef int enter_names(HistoryBuffer* buffer, Table* table, const uint8_t[::1] names,
                     const int64_t[::1] bounds) except -1:
    cdef Py_ssize_t i
    cdef int64_t start = 0
    cdef const uint8_t* first = &names[0] if names.shape[0] else NULL
    for i in range(1, bounds.shape[0]):
        if not start <= bounds[i] <= min(names.shape[0], start + 0xFFFF) or name_number(
                &buffer.names, table, first + start, <int32_t>(bounds[i] - start)) != i - 1:
            raise CorruptData(f"name {i - 1} of a history does not fit it")
        start = bounds[i]
    if start != names.shape[0]:
        raise CorruptData("a history has bytes that are of no name")
    return 0


cdef int enter_rows(HistoryBuffer* buffer, Py_ssize_t count) except -1:
    cdef Py_ssize_t i
    cdef int64_t start = 0
    cdef HistoryRow* row
    for i in range(count):
        row = &buffer.rows[i]
        if not (0 <= row.kind <= TOMBSTONE and 0 <= row.transactional <= 1
                and 0 <= row.outcome <= (ABORTED if row.transactional else COMMITTED)
                and start <= row.metadata_end <= buffer.metadata_size
                and row.metadata_end - start <= 0x7FFFFFFF):
            raise CorruptData(f"row {i} of a history's {count} does not fit it")
        if not (0 <= row.group < <int64_t>buffer.names.groups.count
                and 0 <= row.topic < <int64_t>buffer.names.topics.count
                and row.topic_id <= buffer.topic_ids.count):
            raise CorruptData(f"row {i} of a history's {count} names what is not there")
        start = row.metadata_end
    if start != buffer.metadata_size:
        raise CorruptData("a history has metadata that are of no row")
    buffer.count = count
    return 0


cdef int enter_pending(History history, dict pending) except -1:
    for producer_id, commits in pending.items():
        if not (type(producer_id) is int and MIN_ID <= producer_id <= MAX_ID
                and type(commits) is tuple and all([pending_fits(packed) for packed in commits])):
            raise CorruptData(f"a pending commit of producer {producer_id!r} is damaged")
        history.open_transactions[producer_id] = list(commits)
    return 0


cdef bint pending_fits(object packed) except -1:
    cdef PendingCommit commit
    cdef const uint8_t* start
    cdef int64_t key_end, size
    if type(packed) is not bytes or len(packed) < <Py_ssize_t>sizeof(PendingCommit):
        return False
    start, size = <const uint8_t*>PyBytes_AS_STRING(packed), len(packed)
    memcpy(&commit, start, sizeof(PendingCommit))
    key_end = <int64_t>sizeof(PendingCommit) + commit.key_size
    return (0 <= commit.tombstone <= 1 and 0 <= commit.has_topic_id <= 1
            and key_fits(start, sizeof(PendingCommit), key_end, size)
            and key_end + commit.value.metadata_size == size)
