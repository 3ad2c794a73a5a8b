"""OffsetCommit from its bytes to the coordinator and back, without objects besides the core's rows.

Only plain commits take this path. All others are left to the server's handler, which reports the
error: unknown partitions, a topic that comes twice, times that a client has set.
Of the 6.7 us of a commit of 10 partitions, 3.1 are the write to the server's log, 1.3 the core,
1.2 parsing and encoding, and 0.6 the connection (`benchmarks/without_sockets.py`).
Source: ``OffsetCommitRequest.json``, ``OffsetCommitResponse.json``, ``KafkaApis.scala``.
"""
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.codec.cursor cimport (
    NEGATIVE, OK, Cursor, Status, read_count, read_i32, read_i64, store)
from coterie._core.codec.decode cimport skip_tags
from coterie._core.codec.encode cimport (
    Writing, put_i16, put_i32, put_uvarint, reserve, write_text)
from coterie._core.coordinator.coordinator cimport Coordinator
from coterie._core.fast_path.texts cimport Text, read_text, text_of
from coterie._core.fast_path.member_header cimport MemberHeader, read_header

from coterie.errors import ArgumentError

cdef enum:
    FIRST = 2                  # version 0 went to ZooKeeper, 1 has a time for each offset
    THROTTLED = 3              # first version whose response has a throttle time
    LAST_RETENTION = 4         # last version with a retention time
    WITH_EPOCH = 6             # first version with a leader epoch,
    WITH_INSTANCE = 7          # an instance id,
    FLEXIBLE = 8               # tagged fields
    LAST = 9
    PAIR = 2                   # length of a row of key and error

cdef bint answer_commit(Coordinator coordinator, dict topics, Writing* w, int version,
                        Cursor* cur) except -1:
    """Commit and write the response; false: not a plain commit, and nothing was changed.

    `topics`: the existing topics, by name.
    """
    cdef MemberHeader header
    cdef str group_id, member_id, instance = None
    cdef list rows = []
    cdef tuple result
    if not FIRST <= version <= LAST or read_head(cur, version, &header) != OK:
        return False
    try:
        group_id = text_of(&header.group)
        member_id = text_of(&header.member)
        if header.instance.size >= 0:
            instance = text_of(&header.instance)
        if not read_topics(cur, version, topics, rows):
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
    cdef Status status = read_header(cur, version >= FLEXIBLE, version >= WITH_INSTANCE, header)
    if status == OK and version <= LAST_RETENTION:
        status = read_i64(cur, &retention_ms)
    return NEGATIVE if retention_ms != -1 else status


cdef bint read_topics(Cursor* cur, int version, dict topics, list rows) except -1:
    """Add a row for each partition; false: it is no plain commit."""
    cdef bint flexible = version >= FLEXIBLE
    cdef int32_t count, partitions, partition_count, _
    cdef Text text
    cdef str name
    cdef set names = None
    if read_count(cur, flexible, &count) != OK:
        return False
    if count > 1:
        names = set()
    for _ in range(count):
        if read_text(cur, flexible, &text) != OK or text.size < 0:
            return False
        name = text_of(&text)
        topic = topics.get(name)
        if topic is None or (names is not None and name in names):
            return False
        if names is not None:
            names.add(name)
        partition_count = <int32_t>len(topic.partitions)
        if read_count(cur, flexible, &partitions) != OK or partitions < 0:
            return False
        if not read_partitions(cur, version, name, partition_count, partitions, rows):
            return False
        if flexible and skip_tags(cur) != OK:
            return False
    return len(rows) > 0 and (not flexible or skip_tags(cur) == OK)


cdef bint read_partitions(Cursor* cur, int version, str name, int32_t partition_count,
                          int32_t count, list rows) except -1:
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
        rows.append(((name, number), offset, epoch, text, None, -1))
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
    """Write the response from rows of a key and an error; a row of the commit has no error."""
    cdef bint flexible = version >= FLEXIBLE
    cdef Py_ssize_t start = w.size, at = 0, topic_end, topics = 0
    cdef tuple row, key
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
        key = <tuple?>(<tuple?>rows[at])[0]
        write_text(w, "name", key[0], flexible)
        put_count(w, flexible, topic_end - at)
        while at < topic_end:
            row = <tuple?>rows[at]
            put_i32(w, <int32_t>(<tuple?>row[0])[1])
            put_i16(w, <int16_t>row[1] if len(row) == PAIR else 0)
            put_no_tags(w, flexible)
            at += 1
        put_no_tags(w, flexible)
    put_no_tags(w, flexible)
    store(w.data + start, w.size - start - 4, 4)
    return 0
