"""The offsets of one group: plain and transactional commits, visibility, removal.

Three things are separate: what readers see, plain commits whose append has not finished, and
transactional commits that no marker has decided. Log positions decide between plain and
transactional commits, not the time of a marker. It knows no members and no states of a group.
Cost: O(1) a partition; expiry is one pass over the group.
Source: GroupMetadata.scala, GroupMetadataManager.scala. Rules: docs/rules/offsets.md#data.
"""
cimport cython
from cpython.dict cimport PyDict_Next
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t

from coterie._core.collector cimport PyGC_Disable, PyGC_Enable
from coterie._core.checks cimport (
    flag_of, int32_of, int64_of, items_of, need_pickled, text_of, texts_of)
from coterie._core.structures.expiry cimport NO_TIME, is_expired

import json
from collections.abc import Mapping
from types import MappingProxyType
from zlib import crc32

from coterie.errors import ArgumentError, CoterieError, shown
from coterie.values import OffsetAndMetadata

cdef extern from "Python.h":
    PyObject* PyDict_SetDefault(object mapping, object key, object value) except NULL

cdef enum:
    PICKLED = 1                    # the form of a pickled map


@cython.final
@cython.freelist(1024)
cdef class Offset:
    """A committed offset and where it was appended. -1: no epoch, no expiry, not appended."""

    def __init__(self, offset, leader_epoch=-1, metadata="", commit_timestamp=-1,
                 expire_timestamp=NO_TIME, position=NO_POSITION):
        if self.metadata is not None:   # a group may use it
            raise CoterieError("an Offset does not change, make another one")
        self.offset = int64_of(offset, "offset")
        self.leader_epoch = int32_of(leader_epoch, "leader_epoch")
        self.commit_timestamp = int64_of(commit_timestamp, "commit_timestamp")
        self.expire_timestamp = int64_of(expire_timestamp, "expire_timestamp")
        self.position = int64_of(position, "position")
        self.metadata = text_of(metadata, "metadata")

    cdef bint same(self, Offset other) noexcept:
        """Whether the five fields of an offset are equal; its position does not count."""
        return (self.offset == other.offset and self.leader_epoch == other.leader_epoch
                and self.commit_timestamp == other.commit_timestamp
                and self.expire_timestamp == other.expire_timestamp
                and self.metadata == other.metadata)

    def __eq__(self, other):
        if not isinstance(other, Offset):
            return NotImplemented
        return self.same(other) and self.position == (<Offset>other).position

    def __hash__(self):
        return hash((self.offset, self.position, self.commit_timestamp))

    def __reduce__(self):
        return _offset_of, tuple(_fields_of(self))

    def __repr__(self):
        return (f"Offset(offset={self.offset}, leader_epoch={self.leader_epoch}, "
                f"metadata={self.metadata!r}, commit_timestamp={self.commit_timestamp}, "
                f"expire_timestamp={self.expire_timestamp}, position={self.position})")


cdef Offset make_offset(int64_t offset, int32_t leader_epoch, str metadata,
                        int64_t commit_timestamp, int64_t expire_timestamp, int64_t position):
    cdef Offset entry = Offset.__new__(Offset)
    entry.offset = offset
    entry.leader_epoch = leader_epoch
    entry.metadata = metadata
    entry.commit_timestamp = commit_timestamp
    entry.expire_timestamp = expire_timestamp
    entry.position = position
    return entry


cdef list _fields_of(Offset entry):
    """Return the fields of an offset as JSON has them."""
    return [entry.offset, entry.leader_epoch, entry.metadata, entry.commit_timestamp,
            entry.expire_timestamp, entry.position,
            None if entry.topic_id is None else entry.topic_id.hex()]


def _offset_of(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, position,
               topic_id):
    """Return the offset of these fields: the inverse of `_fields_of`."""
    cdef Offset entry = make_offset(offset, leader_epoch, metadata, commit_timestamp,
                                    expire_timestamp, position)
    entry.topic_id = None if topic_id is None else bytes.fromhex(<str?> topic_id)
    return entry


cdef dict NOTHING = {}              # shared by maps whose field has no entry


@cython.final
@cython.no_gc                      # texts, numbers and Offsets: nothing that could lead back to it
cdef class OffsetMap:
    """One group's offsets: commits, transactions, expiry; a mapping of what readers see."""

    def __cinit__(self):
        # Most groups have no offset in flight, many have none at all: they share one empty dict.
        # What adds an entry gives the group a dict of its own first.
        self.topics = self.pending_plain = self.pending_by_producer = NOTHING

    # Copies: values are cast to Offset below, so no caller may write into these dicts.

    @property
    def pending(self):
        """Plain commits whose append has not finished: a read-only copy."""
        return MappingProxyType(dict(self.pending_plain))

    @property
    def pending_txn(self):
        """Transactional commits without a marker, by producer id: a read-only copy."""
        return MappingProxyType({producer: MappingProxyType(dict(undecided))
                                 for producer, undecided in self.pending_by_producer.items()})

    def __len__(self):
        """How many offsets readers see."""
        return self.count

    def __iter__(self):
        return iter(self.keys())

    def __repr__(self):
        return (f"<OffsetMap: {self.count} offsets, {len(self.pending_plain)} pending, "
                f"{len(self.pending_by_producer)} producers>")

    def __reduce__(self):
        state = json.dumps([
            _rows_of(self.items()), _rows_of(self.pending_plain.items()),
            [[producer, _rows_of((<dict>undecided).items())]
             for producer, undecided in self.pending_by_producer.items()],
        ]).encode()
        return _map_of, (PICKLED, state, crc32(state))

    def __contains__(self, key):
        """Whether readers see an offset of this (topic, partition)."""
        return self.find(_key(key)) is not None

    def __getitem__(self, key):
        """Return the offset that readers see; KeyError if there is none."""
        found = self.find(_key(key))
        if found is None:
            raise KeyError(key)
        return found

    @property
    def has_offsets(self):
        """Whether the group must stay: for an offset, a pending one, or a producer's entry."""
        return self.has_any()

    cdef bint has_any(self) noexcept:
        # A producer's empty map counts: it is dropped only by a marker or a failed append.
        return self.count > 0 or bool(self.pending_plain) or bool(self.pending_by_producer)

    cdef dict undecided(self, int64_t producer_id):
        """Return the offsets that a producer's next marker decides."""
        self.pending_by_producer = self.pending_by_producer or {}
        return <dict?>self.pending_by_producer.setdefault(producer_id, {})

    cdef dict partitions_of(self, topic):
        """Return the offsets of a topic; create an empty dict if there is none."""
        partitions = self.topics.get(topic)
        if partitions is None:
            self.topics = self.topics or {}
            partitions = self.topics[topic] = {}
        return <dict?>partitions

    cdef int put(self, tuple key, Offset entry) except -1:
        """Show the entry unless a later one is shown; equal positions do not replace."""
        cdef dict partitions = self.partitions_of(key[0])
        cdef Py_ssize_t before = len(partitions)
        cdef PyObject* present
        present = PyDict_SetDefault(partitions, key[1], entry)
        if len(partitions) > before:
            self.count += 1
            return 0
        if (<Offset>present).position >= entry.position:
            return 0
        partitions[key[1]] = entry
        return 0

    cdef Offset find(self, tuple key):
        partitions = self.topics.get(key[0])
        return None if partitions is None else <Offset>(<dict>partitions).get(key[1])

    cdef int set_offset(self, tuple key, Offset entry) except -1:
        cdef dict partitions = self.partitions_of(key[0])
        self.count += key[1] not in partitions
        partitions[key[1]] = entry
        return 0

    cdef Offset take(self, tuple key):
        partitions = self.topics.get(key[0])
        found = None if partitions is None else (<dict>partitions).pop(key[1], None)
        if found is not None:
            self.count -= 1
            if not partitions:
                del self.topics[key[0]]
        return <Offset>found

    cpdef list keys(self):
        """Return the keys of the offsets that readers see."""
        return [(topic, partition) for topic, partitions in self.topics.items()
                for partition in <dict>partitions]

    # ``partitions``: by topic. Neither function walks both these topics and the group's own.

    cdef list keys_among(self, dict partitions):
        """Keys of committed offsets of these partitions."""
        cdef list found = []
        cdef dict fewer = self.topics if len(self.topics) <= len(partitions) else partitions
        for topic in fewer:
            committed = self.topics.get(topic)
            numbers = partitions.get(topic)
            if committed is not None and numbers is not None:
                found += [(topic, number) for number in <dict>committed if number in numbers]
        return found

    cdef list pending_among(self, dict partitions):
        """Keys of pending and of undecided offsets of these partitions; one may come twice."""
        cdef list found = []
        for pending in (self.pending_plain, *self.pending_by_producer.values()):
            for key in <dict>pending:
                if key[1] in partitions.get(key[0], ()):
                    found.append(key)
        return found

    cdef int prepare(self, tuple rows, list entries) except -1:
        """Make offsets pending until their append finishes."""
        cdef Py_ssize_t n
        self.pending_plain = self.pending_plain or {}
        for n in range(len(rows)):
            if entries[n] is not None:
                self.pending_plain[(<tuple?>rows[n])[0]] = entries[n]
        return 0

    cdef int appended(self, tuple rows, list entries, int64_t position, bint waited) except -1:
        """Show appended offsets; one that was never pending replaces a pending one."""
        cdef Py_ssize_t n
        cdef Offset entry
        for n in range(len(rows)):
            if entries[n] is None:
                continue
            key = (<tuple?>rows[n])[0]
            entry = <Offset?>entries[n]
            pending = None
            if waited:
                pending = self.pending_plain.get(key)
                if pending is None:
                    continue      # removed while in flight: only the log has it
            elif self.pending_plain:
                self.pending_plain.pop(key, None)
            entry.position = position
            self.put(<tuple?>key, entry)
            if not waited:
                continue
            if (<Offset>pending).same(entry):
                del self.pending_plain[key]
        return 0

    cdef int failed(self, tuple rows, list entries, bint waited) except -1:
        """Forget offsets whose append has failed."""
        cdef Py_ssize_t n
        for n in range(len(rows)):
            if entries[n] is None:
                continue
            key = (<tuple?>rows[n])[0]
            pending = self.pending_plain.get(key)
            if pending is not None and (not waited or (<Offset>pending).same(<Offset?>entries[n])):
                self.pending_plain.pop(key, None)
        return 0

    cdef int prepare_txn(self, int64_t producer_id, tuple rows, list entries) except -1:
        cdef dict undecided = self.undecided(producer_id)
        cdef Py_ssize_t n
        for n in range(len(rows)):
            if entries[n] is not None:
                undecided[(<tuple?>rows[n])[0]] = entries[n]
        return 0

    cdef int appended_txn(self, int64_t producer_id, tuple rows, list entries,
                          int64_t position) except -1:
        cdef dict undecided = <dict?>self.pending_by_producer.get(producer_id, {})
        cdef Py_ssize_t n
        for n in range(len(rows)):
            pending = undecided.get((<tuple?>rows[n])[0])
            if pending is not None and entries[n] is not None and (
                    (<Offset>pending).same(<Offset?>entries[n])):
                (<Offset>pending).position = position
        return 0

    cdef int failed_txn(self, int64_t producer_id, tuple rows, list entries) except -1:
        cdef Py_ssize_t n
        undecided = self.pending_by_producer.get(producer_id)
        if undecided is None:
            return 0
        for n in range(len(rows)):
            if entries[n] is not None:
                # Also if an earlier commit is pending: Kafka removes by key.
                (<dict>undecided).pop((<tuple?>rows[n])[0], None)
        if not undecided:
            del self.pending_by_producer[producer_id]
        return 0

    cdef bint complete_txn(self, int64_t producer_id, bint committed) except -1:
        """Apply a marker; False: Kafka's internal error, a marker before an append finished."""
        undecided = self.pending_by_producer.pop(producer_id, None)
        if undecided is None or not committed:
            return True
        for key, value in (<dict>undecided).items():
            if (<Offset>value).position == NO_POSITION:
                return False
            self.put(key, value)
        return True

    cdef bint unstable(self, tuple key) except -1:
        if key in self.pending_plain:
            return True
        for undecided in self.pending_by_producer.values():
            if key in <dict>undecided:
                return True
        return False

    cdef list drop(self, keys):
        cdef list removed = []
        for key in keys:
            self.pending_plain.pop(key, None)
            for undecided in self.pending_by_producer.values():
                (<dict>undecided).pop(key, None)     # an emptied map stays
            if self.take(key) is not None:
                removed.append(key)
        return removed

    cdef list expire_all(self, int64_t now_ms, int64_t retention_ms, bint has_base,
                         int64_t base_ms, keep):
        """Remove expired offsets, except for topics in `keep` and pending plain commits."""
        # The keys make no reference cycles. The collector, which runs at every 700th, takes as long
        # as the work itself: 135 to 142 ms in place of 61 to 83 ms where half of a million offsets
        # expire (CPU time, CPython 3.11).
        cdef bint collects = PyGC_Disable()
        try:
            return self.take_expired(now_ms, retention_ms, has_base, base_ms, keep)
        finally:
            if collects:
                PyGC_Enable()

    cdef list take_expired(self, int64_t now_ms, int64_t retention_ms, bint has_base,
                           int64_t base_ms, keep):
        cdef PyObject* partition
        cdef PyObject* value
        cdef Py_ssize_t at
        cdef list removed = [], expired
        cdef Offset entry
        for topic, partitions in list(self.topics.items()):
            if keep is not None and topic in keep:
                continue
            expired = []
            at = 0
            while PyDict_Next(<dict>partitions, &at, &partition, &value):
                entry = <Offset>value
                if is_expired(entry.expire_timestamp,
                              base_ms if has_base else entry.commit_timestamp,
                              now_ms, retention_ms):
                    key = (topic, <object>partition)
                    if not self.pending_plain or key not in self.pending_plain:
                        expired.append(key)
            if len(expired) == len(<dict>partitions):
                del self.topics[topic]
            else:
                for key in expired:
                    del (<dict>partitions)[(<tuple>key)[1]]
            self.count -= len(expired)
            removed += expired
        return removed

    # For callers in Python, by Kafka's names (GroupMetadata.scala).

    def prepare_offset_commit(self, offsets):
        """Record a plain commit whose append has begun: it is pending until that finishes."""
        rows, entries = _entries(offsets)
        self.prepare(rows, entries)

    def on_offset_commit_append(self, offsets, position):
        """Finish an append at a log position: show pending offsets that are not superseded."""
        rows, entries = _entries(offsets)
        self.appended(rows, entries, int64_of(position, "position"), True)

    def fail_pending_offset_write(self, offsets):
        """Forget a plain commit whose append failed, unless a later commit is pending."""
        rows, entries = _entries(offsets)
        self.failed(rows, entries, True)

    def prepare_txn_offset_commit(self, producer_id, offsets):
        """Record a transactional commit whose append has begun."""
        rows, entries = _entries(offsets)
        self.prepare_txn(int64_of(producer_id, "producer_id"), rows, entries)

    def on_txn_offset_commit_append(self, producer_id, offsets, position):
        """Finish the append of a transactional commit: record its log position."""
        rows, entries = _entries(offsets)
        self.appended_txn(int64_of(producer_id, "producer_id"), rows, entries,
                          int64_of(position, "position"))

    def fail_pending_txn_offset_commit(self, producer_id, offsets):
        """Forget all that is pending for the partitions of a commit whose append failed."""
        rows, entries = _entries(offsets)
        self.failed_txn(int64_of(producer_id, "producer_id"), rows, entries)

    def complete_pending_txn_offset_commit(self, producer_id, is_commit):
        """Apply a transaction's marker; CoterieError if one of its appends has not finished."""
        if not self.complete_txn(int64_of(producer_id, "producer_id"),
                                 flag_of(is_commit, "is_commit")):
            raise CoterieError(f"producer {producer_id}: the marker came before the append of "
                               "its offsets finished")

    def commit(self, offsets, position):
        """Prepare and append a plain commit in one step."""
        cdef int64_t appended_at = int64_of(position, "position")
        rows, entries = _entries(offsets)
        self.prepare(rows, entries)
        self.appended(rows, entries, appended_at, True)

    def fetch(self, topic, partition, *, require_stable=False):
        """Return the offset that readers see, or None."""
        key = _key((topic, partition))
        if flag_of(require_stable, "require_stable") and self.unstable(key):
            raise CoterieError(f"{topic}-{partition} is unstable: a commit of it is undecided")
        return self.find(key)

    def is_pending(self, topic, partition):
        """Whether a commit of the partition is pending, plain or transactional."""
        return self.unstable(_key((topic, partition)))

    def remove(self, keys):
        """Remove partitions, with their pending commits; return those that readers saw."""
        return self.drop([_key(key) for key in items_of(keys, "keys")])

    def expire(self, now_ms, retention_ms, *, base_ms=None, keep=None):
        """Remove the offsets that have expired; return their keys, in no defined order."""
        return self.expire_all(
            int64_of(now_ms, "now_ms"), int64_of(retention_ms, "retention_ms"),
            base_ms is not None, 0 if base_ms is None else int64_of(base_ms, "base_ms"),
            None if keep is None else frozenset(texts_of(keep, "keep")))

    def get(self, key, default=None):
        """Return the offset that readers see, or the default."""
        found = self.find(_key(key))
        return default if found is None else found

    def values(self):
        """Return the offsets that readers see."""
        return [self.find(key) for key in self.keys()]

    def items(self):
        """Return the keys and offsets that readers see."""
        return [(key, self.find(key)) for key in self.keys()]


Mapping.register(OffsetMap)


cdef list _rows_of(items):
    return [[key[0], key[1], *_fields_of(entry)] for key, entry in items]


cdef list _entries_of(rows):
    return [((topic, partition), _offset_of(*fields)) for topic, partition, *fields in rows]


def _map_of(version, state, check):
    """Return the map of a pickle."""
    cdef OffsetMap made = OffsetMap.__new__(OffsetMap)
    need_pickled("OffsetMap", version == PICKLED, state, check)
    offsets, pending, producers = json.loads(state)
    for key, entry in _entries_of(offsets):
        made.set_offset(key, entry)
    if pending:
        made.pending_plain = dict(_entries_of(pending))
    if producers:
        made.pending_by_producer = {producer: dict(_entries_of(rows))
                                    for producer, rows in producers}
    return made


cdef tuple _key(key):
    """Check the key of a partition: (topic, partition)."""
    if not isinstance(key, (tuple, list)) or len(key) != 2:
        raise ArgumentError(f"a partition is (topic, number), not {shown(key)}")
    return text_of(key[0], "a topic"), int32_of(key[1], "a partition")


cdef tuple _entries(offsets):
    """Return rows and their offsets, as `prepare` takes them.

    The offsets are copies: an entry's position is set when its append finishes.
    """
    cdef dict entries = {}
    if type(offsets) is not dict and not isinstance(offsets, Mapping):
        raise ArgumentError("offsets must be {(topic, partition): offset}, not "
                            f"{shown(offsets)}")
    for key, value in offsets.items():
        if isinstance(value, OffsetAndMetadata):
            value = Offset(value.offset, value.leader_epoch, value.metadata,
                           -1 if value.commit_timestamp is None else value.commit_timestamp,
                           NO_TIME if value.expire_timestamp is None else value.expire_timestamp)
        elif not isinstance(value, Offset):
            value = Offset(value)
        entry = <Offset>value
        entries[_key(key)] = make_offset(
            entry.offset, entry.leader_epoch, entry.metadata, entry.commit_timestamp,
            entry.expire_timestamp, entry.position)
    return tuple([(key,) for key in entries]), list(entries.values())
