"""What a server does often: heartbeats and plain commits, from bytes to answers.

A request that is not plain, or not whole, goes the long way; nothing of it has happened by then.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcmp

from coterie._core.checks cimport dict_of, within
from coterie._core.codec.cursor cimport (
    NEGATIVE, OK, Cursor, Status, load_i16, load_i32, read_count, read_i32, read_i64,
    remaining, store)
from coterie._core.codec.layout cimport (
    Writing, begin, end, put_bytes, put_i16, put_i32, put_uvarint, reserve, skip_tags, write_text)
from coterie._core.coordinator.coordinator cimport Coordinator
from coterie._core.coordinator.runtime cimport Writes
from coterie._core.fast_path.member_header cimport MemberHeader, read_header
from coterie._core.fast_path.texts cimport Text, read_text, text_of

from coterie.errors import ArgumentError, shown


# ---- commits -------------------------------------------------------------------------------------
# OffsetCommit from its bytes to the coordinator and back, without objects besides the core's rows.
# Only plain commits take this path. All others are left to the server's handler, which reports the
# error: unknown partitions, a topic that comes twice, times that a client has set.
# Of the 6.7 us of a commit of 10 partitions, 3.1 are the write to the server's log, 1.3 the core,
# 1.2 parsing and encoding, and 0.6 the connection (`benchmarks/without_sockets.py`).
# Source: ``OffsetCommitRequest.json``, ``OffsetCommitResponse.json``, ``KafkaApis.scala``.

cdef enum:
    FIRST = 2                  # version 0 went to ZooKeeper, 1 has a time for each offset
    THROTTLED = 3              # first version whose response has a throttle time
    LAST_RETENTION = 4         # last version with a retention time
    WITH_EPOCH = 6             # first version with a leader epoch,
    WITH_INSTANCE = 7          # an instance id,
    FLEXIBLE = 8               # tagged fields
    WITH_IDS = 10              # topic ids in place of names
    LAST = 10
    TOPIC_ID_SIZE = 16
    ANSWER = 3                 # most values of a row of key, error and topic id

cdef bint answer_commit(Coordinator coordinator, dict topics, dict ids, Writing* w,
                        int version, Cursor* cur) except -1:
    """Commit and write the response; false: not a plain commit, and nothing was changed.

    `topics`: the existing topics, by name; `ids`: by id, where the log has ids.
    """
    cdef MemberHeader header
    cdef str group_id, member_id, instance = None
    cdef list rows = []
    cdef tuple result
    if version >= WITH_IDS and ids is None:
        return False
    if not FIRST <= version <= LAST or read_head(cur, version, &header) != OK:
        return False
    try:
        group_id = text_of(&header.group)
        member_id = text_of(&header.member)
        if header.instance.size >= 0:
            instance = text_of(&header.instance)
        if not read_topics(cur, version, topics, ids, rows):
            return False
    except UnicodeDecodeError:
        return False
    try:
        result = coordinator.commit(group_id, header.generation_id, member_id, instance,
                                    tuple(rows), version)
    except ArgumentError:                  # metadata too long for a record; nothing has changed
        return False
    write_answer(w, version, header.correlation_id, result)
    return True


cdef Status read_head(Cursor* cur, int version, MemberHeader* header) noexcept nogil:
    """Read the fields before the topics."""
    cdef int64_t retention_ms = -1
    cdef Status status = read_header(cur, version >= FLEXIBLE, version >= WITH_INSTANCE, False,
                                     header)
    if status == OK and version <= LAST_RETENTION:
        status = read_i64(cur, &retention_ms)
    return NEGATIVE if retention_ms != -1 else status


cdef bint read_topics(Cursor* cur, int version, dict topics, dict ids, list rows) except -1:
    """Add a row for each partition; false: it is no plain commit."""
    cdef bint flexible = version >= FLEXIBLE
    cdef int32_t count, partitions, partition_count, _
    cdef Text text
    cdef str name
    cdef set names = None
    cdef tuple topic_id = ()
    if read_count(cur, flexible, &count) != OK:
        return False
    if count > 1:
        names = set()
    for _ in range(count):
        if version >= WITH_IDS:
            if cur.end - cur.at < TOPIC_ID_SIZE:
                return False
            topic = ids.get(PyBytes_FromStringAndSize(<const char*>cur.at, TOPIC_ID_SIZE))
            cur.at += TOPIC_ID_SIZE
        elif read_text(cur, flexible, &text) != OK or text.size < 0:
            return False
        else:
            topic = topics.get(text_of(&text))
        if topic is None:
            return False
        name = topic.name
        if names is not None and name in names:
            return False
        if ids is not None:
            topic_id = (topic.id_bytes,)
        if names is not None:
            names.add(name)
        partition_count = <int32_t>len(topic.partitions)
        if read_count(cur, flexible, &partitions) != OK or partitions < 0:
            return False
        if not read_partitions(cur, version, name, topic_id, partition_count, partitions, rows):
            return False
        if flexible and skip_tags(cur) != OK:
            return False
    return len(rows) > 0 and (not flexible or skip_tags(cur) == OK)


cdef bint read_partitions(Cursor* cur, int version, str name, tuple topic_id,
                          int32_t partition_count, int32_t count, list rows) except -1:
    """Add the rows of a topic with `partition_count` partitions; false: it is no plain commit."""
    cdef bint flexible = version >= FLEXIBLE
    cdef int32_t number, epoch = -1, _
    cdef int64_t offset
    cdef Text metadata
    cdef str text
    for _ in range(count):
        if read_i32(cur, &number) != OK or read_i64(cur, &offset) != OK:
            return False
        if version >= WITH_EPOCH and read_i32(cur, &epoch) != OK:
            return False
        if read_text(cur, flexible, &metadata) != OK or not 0 <= number < partition_count:
            return False
        if flexible and skip_tags(cur) != OK:
            return False
        text = text_of(&metadata) if metadata.size > 0 else ""
        rows.append(((name, number), offset, epoch, text, None, -1) + topic_id)
    return True


cdef inline int put_count(Writing* w, bint flexible, Py_ssize_t count) except -1:
    return put_uvarint(w, <unsigned int>count + 1) if flexible else put_i32(w, <int32_t>count)


cdef inline int put_no_tags(Writing* w, bint flexible) except -1:
    if flexible:
        reserve(w, 1)[0] = 0
    return 0


cdef Py_ssize_t end_of_topic(tuple rows, Py_ssize_t at) except -1:
    """Return where the rows of the next topic begin; rows are grouped by topic."""
    cdef tuple key = <tuple?>(<tuple?>rows[at])[0]
    name = key[0]
    while at < len(rows) and (<tuple?>(<tuple?>rows[at])[0])[0] is name:
        at += 1
    return at


cdef int write_answer(Writing* w, int version, int32_t correlation_id, tuple rows) except -1:
    """Write the response from rows of key, error and topic id; a row of the commit has no error."""
    cdef bint flexible = version >= FLEXIBLE
    cdef Py_ssize_t start = w.size, at = 0, topic_end, topics = 0
    cdef tuple row
    put_i32(w, 0)                          # the length, set at the end
    put_i32(w, correlation_id)
    put_no_tags(w, flexible)
    if version >= THROTTLED:
        put_i32(w, 0)
    while at < len(rows):
        at = end_of_topic(rows, at)
        topics += 1
    put_count(w, flexible, topics)
    at = 0
    while at < len(rows):
        topic_end = end_of_topic(rows, at)
        row = <tuple?>rows[at]
        if version >= WITH_IDS:
            put_bytes(w, PyBytes_AS_STRING(<bytes?>row[len(row) - 1]), TOPIC_ID_SIZE)
        else:
            write_text(w, "name", (<tuple?>row[0])[0], flexible)
        put_count(w, flexible, topic_end - at)
        while at < topic_end:
            row = <tuple?>rows[at]
            put_i32(w, <int32_t>(<tuple?>row[0])[1])
            put_i16(w, <int16_t>row[1] if len(row) <= ANSWER else 0)
            put_no_tags(w, flexible)
            at += 1
        put_no_tags(w, flexible)
    put_no_tags(w, flexible)
    store(w.data + start, w.size - start - 4, 4)
    return 0


# ---- the fast path: heartbeats and plain commits at the head of the bytes of a connection --------
# It parses a request, calls the coordinator and encodes the response, without Python objects
# besides the ids. It stops at the first other request, at an incomplete frame, and as soon as the
# coordinator has other outputs. It knows no connection: bytes in, bytes out. Cost: one pass over
# the bytes.
# Source: ``HeartbeatRequest.json``, ``HeartbeatResponse.json``,
# ``ConsumerGroupHeartbeatRequest.json``, ``ConsumerGroupHeartbeatResponse.json``.

cdef enum:
    HEARTBEAT = 12
    BEAT_WITH_INSTANCE = 3          # the first version with an instance id
    FLEXIBLE_BEAT = 4               # the first version with tagged fields, and the last one
    CONSUMER_HEARTBEAT = 68
    LAST_CONSUMER_BEAT = 1

LAST_VERSION, LAST_CONSUMER_VERSION = FLEXIBLE_BEAT, LAST_CONSUMER_BEAT

# What ConsumerGroupHeartbeat 0 has after the instance id if it names nothing: no rack, rebalance
# timeout -1, no topics, assignor or partitions; in version 1 no regular expression either.
cdef const char* NOTHING_NAMED = b"\0\xff\xff\xff\xff\0\0\0\0"
cdef enum:
    SIZE_OF_NOTHING = 8             # in version 0; each later version has a zero more


def answer_quick(Coordinator coordinator not None, topics, data, position, longest, ids=None,
                 host_of=None):
    """Answer the heartbeats and commits at the head of a connection's received bytes."""
    cdef Py_buffer view
    cdef Py_ssize_t at, most = within(longest, "longest", 0, 0x7FFFFFFF)
    cdef dict known_topics = None
    cdef dict known_ids = None if ids is None else dict_of(ids, "ids")
    cdef Writes writes = coordinator.runtime.writes
    if topics is not None and coordinator.runtime.sink.at_once() and (
            not coordinator.runtime.deferred) and (
            writes is None or not (writes.holding or writes.pending)):
        known_topics = topics if type(topics) is dict else dict_of(topics, "topics")
    try:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    except (TypeError, ValueError, BufferError):
        raise ArgumentError(f"data must be bytes, not {shown(data)}") from None
    try:
        at = within(position, "position", 0, view.len)
        return answer_all(coordinator, known_topics, known_ids, host_of, <const uint8_t*>view.buf,
                          at, view.len, most)
    finally:
        PyBuffer_Release(&view)


cdef tuple answer_all(Coordinator coordinator, dict topics, dict ids, object host_of,
                      const uint8_t* data, Py_ssize_t at, Py_ssize_t size, Py_ssize_t most):
    cdef Writing w
    cdef Cursor cur
    cdef int32_t length
    cdef int16_t key, version
    cdef bint done = True
    begin(&w)
    try:
        while done and size - at >= 12:          # the shortest is longer
            length = load_i32(data + at)
            if not 8 <= length <= most or length > size - at - 4:
                break
            key, version = load_i16(data + at + 4), load_i16(data + at + 6)
            cur.at, cur.end = data + at + 8, data + at + 4 + length
            if key == HEARTBEAT:
                done = answer_beat(coordinator, &w, version, &cur)
            elif key == CONSUMER_HEARTBEAT:
                done = host_of is not None and (
                    answer_consumer_beat(coordinator, host_of, &w, version, &cur))
            else:
                done = key == OFFSET_COMMIT and topics is not None and (
                    answer_commit(coordinator, topics, ids, &w, version, &cur))
            if done:
                at += 4 + length
                done = (coordinator.runtime.outputs.count == 0
                        and coordinator.runtime.sink.failure is None)
        return at, PyBytes_FromStringAndSize(<const char*>w.data, w.size)
    finally:
        end(&w)


cdef Status read_beat(Cursor* cur, int version, MemberHeader* header) noexcept nogil:
    cdef Status status = read_header(
        cur, version >= FLEXIBLE_BEAT, version >= BEAT_WITH_INSTANCE, False, header)
    if status == OK and version >= FLEXIBLE_BEAT:
        status = skip_tags(cur)
    return status


cdef bint answer_beat(Coordinator coordinator, Writing* w, int version, Cursor* cur) except -1:
    """Answer a heartbeat; false: it is none, or may have to wait, and nothing was done."""
    cdef MemberHeader header
    cdef str group_id, member_id, instance = None
    cdef Writes writes = coordinator.runtime.writes
    cdef int code
    if writes is not None and writes.pending:      # it may wait for a write of its group
        return False
    if not 0 <= version <= FLEXIBLE_BEAT or read_beat(cur, version, &header) != OK:
        return False
    try:
        group_id = text_of(&header.group)
        member_id = text_of(&header.member)
        if header.instance.size >= 0:
            instance = text_of(&header.instance)
    except UnicodeDecodeError:
        return False
    code = coordinator.beat(group_id, header.generation_id, member_id, instance)
    # length, correlation id, (no tags,) throttle time from version 1 on, error(, no tags)
    put_i32(w, 6 if version == 0 else 12 if version >= FLEXIBLE_BEAT else 10)
    put_i32(w, header.correlation_id)
    if version >= FLEXIBLE_BEAT:
        reserve(w, 1)[0] = 0
    if version >= 1:
        put_i32(w, 0)
    put_i16(w, <int16_t>code)
    if version >= FLEXIBLE_BEAT:
        reserve(w, 1)[0] = 0
    return True


cdef Status read_consumer_beat(Cursor* cur, int version, MemberHeader* header) noexcept nogil:
    """Read a heartbeat that names its member only; `NEGATIVE`: it names more."""
    cdef Py_ssize_t size = SIZE_OF_NOTHING + version
    cdef Status status = read_header(cur, True, True, True, header)
    if status == OK and (remaining(cur) < size or memcmp(cur.at, NOTHING_NAMED, size) != 0):
        status = NEGATIVE
    if status == OK:
        cur.at += size
        status = skip_tags(cur)
    return status


cdef bint answer_consumer_beat(Coordinator coordinator, object host_of, Writing* w, int version,
                               Cursor* cur) except -1:
    """Answer a ConsumerGroupHeartbeat that changes nothing; false: it is none, nothing was done."""
    cdef MemberHeader header
    cdef str group_id, member_id, client_host, client_id = "", instance = None
    cdef Writes writes = coordinator.runtime.writes
    cdef Py_ssize_t start = w.size
    if not 0 <= version <= LAST_CONSUMER_BEAT or read_consumer_beat(cur, version, &header) != OK:
        return False
    client_host = host_of()
    if client_host is None or (writes is not None and writes.pending):
        return False
    try:
        group_id = text_of(&header.group)
        member_id = text_of(&header.member)
        if header.client.size > 0:
            client_id = text_of(&header.client)
        if header.instance.size >= 0:
            instance = text_of(&header.instance)
    except UnicodeDecodeError:
        return False
    interval_ms = coordinator.steady_beat(group_id, header.generation_id, member_id, instance,
                                          client_id, client_host)
    if interval_ms is None:
        return False
    put_i32(w, 0)                          # the length, set at the end
    put_i32(w, header.correlation_id)
    put_no_tags(w, True)
    put_i32(w, 0)                          # throttle time
    put_i16(w, 0)                          # no error,
    put_uvarint(w, 0)                      # and no message
    put_uvarint(w, <unsigned int>header.member.size + 1)
    put_bytes(w, header.member.at, header.member.size)
    put_i32(w, header.generation_id)
    put_i32(w, <int32_t>interval_ms)
    reserve(w, 1)[0] = 0xFF                # the assignment is as it was
    put_no_tags(w, True)
    store(w.data + start, w.size - start - 4, 4)
    return True
