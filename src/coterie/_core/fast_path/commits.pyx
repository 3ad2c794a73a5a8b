"""OffsetCommit from its bytes to the coordinator and back, with no objects but the core's rows.

Only what is plainly a commit. All else is left to the handler of the server, which says what is
wrong: partitions that do not exist, a topic that comes twice, times that a client set.
Of the 6.7 us of a commit of 10 partitions, 3.1 are the write to the server's log, 1.3 the core's,
1.2 parsing and answering, and 0.6 the connection (`benchmarks/without_sockets.py`).
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
from coterie._core.fast_path.member_header cimport Who, read_who

from coterie.errors import ArgumentError

cdef enum:
    FIRST = 2                  # before, offsets were in ZooKeeper, then each had a time
    THROTTLED = 3              # from here on an answer says how long the client was slowed
    LAST_RETENTION = 4         # up to here a client may say how long offsets are kept
    WITH_EPOCH = 6             # from here on an offset has its leader epoch,
    WITH_INSTANCE = 7          # a member its instance id,
    FLEXIBLE = 8               # all structs tagged fields
    LAST = 9
    PAIR = 2                   # of a partition's key and its error

cdef bint answer_commit(Coordinator coordinator, dict topics, Writing* w, int version,
                        Cursor* cur) except -1:
    """Ask the coordinator and write what it says; false: nothing was done, others are to look.

    `topics`: those that exist, by name.
    """
    cdef Who who
    cdef str group_id, member_id, instance = None
    cdef list rows = []
    cdef tuple told
    if not FIRST <= version <= LAST or read_head(cur, version, &who) != OK:
        return False
    try:
        group_id = text_of(&who.group)
        member_id = text_of(&who.member)
        if who.instance.size >= 0:
            instance = text_of(&who.instance)
        if not read_topics(cur, version, topics, rows):
            return False
    except UnicodeDecodeError:
        return False
    try:
        told = coordinator.commit(group_id, who.generation_id, member_id, instance, tuple(rows))
    except ArgumentError:                  # metadata that no record holds; nothing has changed
        return False
    write_answer(w, version, who.correlation_id, told)
    return True


cdef Status read_head(Cursor* cur, int version, Who* who) noexcept nogil:
    """All that stands before the topics."""
    cdef int64_t kept_ms = -1
    cdef Status status = read_who(cur, version >= FLEXIBLE, version >= WITH_INSTANCE, who)
    if status == OK and version <= LAST_RETENTION:
        status = read_i64(cur, &kept_ms)
    return NEGATIVE if status == OK and kept_ms != -1 else status


cdef bint read_topics(Cursor* cur, int version, dict topics, list rows) except -1:
    """Add a row for each partition, as the core takes them; false: this is no plain commit."""
    cdef bint flexible = version >= FLEXIBLE
    cdef int32_t count, partitions, there, _
    cdef Text text
    cdef str name
    cdef set named = None
    if read_count(cur, flexible, &count) != OK:
        return False
    if count > 1:
        named = set()
    for _ in range(count):
        if read_text(cur, flexible, &text) != OK or text.size < 0:
            return False
        name = text_of(&text)
        topic = topics.get(name)
        if topic is None or (named is not None and name in named):
            return False
        if named is not None:
            named.add(name)
        there = <int32_t>len(topic.partitions)
        if read_count(cur, flexible, &partitions) != OK or partitions < 0:
            return False
        if not read_partitions(cur, version, name, there, partitions, rows):
            return False
        if flexible and skip_tags(cur) != OK:
            return False
    return len(rows) > 0 and (not flexible or skip_tags(cur) == OK)


cdef bint read_partitions(Cursor* cur, int version, str name, int32_t there, int32_t count,
                          list rows) except -1:
    """Add the rows of a topic that has so many partitions."""
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
        if read_text(cur, flexible, &metadata) != OK or not 0 <= number < there:
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


cdef Py_ssize_t end_of_topic(tuple told, Py_ssize_t at) except -1:
    """Where the rows of the next topic begin; each topic's stand together, as they were asked."""
    cdef tuple key = <tuple?>(<tuple?>told[at])[0]
    name = key[0]
    while at < len(told) and (<tuple?>(<tuple?>told[at])[0])[0] is name:
        at += 1
    return at


cdef int write_answer(Writing* w, int version, int32_t correlation_id, tuple told) except -1:
    """The error of each partition: rows of a key and an error, or as they were asked: all good."""
    cdef bint flexible = version >= FLEXIBLE
    cdef Py_ssize_t start = w.size, at = 0, behind, topics = 0
    cdef tuple row, key
    put_i32(w, 0)                          # the length, once it is known
    put_i32(w, correlation_id)
    put_no_tags(w, flexible)
    if version >= THROTTLED:
        put_i32(w, 0)
    while at < len(told):
        at = end_of_topic(told, at)
        topics += 1
    put_count(w, flexible, topics)
    at = 0
    while at < len(told):
        behind = end_of_topic(told, at)
        key = <tuple?>(<tuple?>told[at])[0]
        write_text(w, "name", key[0], flexible)
        put_count(w, flexible, behind - at)
        while at < behind:
            row = <tuple?>told[at]
            put_i32(w, <int32_t>(<tuple?>row[0])[1])
            put_i16(w, <int16_t>row[1] if len(row) == PAIR else 0)
            put_no_tags(w, flexible)
            at += 1
        put_no_tags(w, flexible)
    put_no_tags(w, flexible)
    store(w.data + start, w.size - start - 4, 4)
    return 0
