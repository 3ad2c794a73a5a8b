"""Values of consumer groups: assignments, member fields, regular expressions, topic metadata.

Values never change; equal ones are shared.
Source: ConsumerGroupMember.java, Assignment.java, the records of the group coordinator.
"""
cimport cython
import struct
from cpython.ref cimport PyObject, Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_Compare
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from coterie._core.structures.collector cimport PyObject_GC_UnTrack

from coterie.errors import CoterieError


# ---- values of the consumer protocol that never change: topic ids, assignments, subscriptions ----
# An assignment is flat: its topics in the order of their ids, and the partitions of all in one
# array. Comparing two is a comparison of memory. Knows no group and no member.
# Source: org.apache.kafka.common.Uuid, modern/Assignment.java,
# modern/consumer/ConsumerGroupMember.java.

cdef extern from "Python.h":
    int PyUnicode_KIND(object text) noexcept
    enum: PyUnicode_4BYTE_KIND


@cython.final
@cython.no_gc                      # no reference cycles
cdef class TopicId:
    """A topic's id, and the topic of that id while the metadata image has one."""

    def __cinit__(self, bytes raw not None):
        self.raw = raw
        self.upper = <int64_t>int.from_bytes(raw[:8], "big", signed=True)
        self.lower = <int64_t>int.from_bytes(raw[8:], "big", signed=True)
        self.mark = -1


cdef bint before(TopicId one, TopicId other) noexcept:
    """Whether one id stands before another, as ``Uuid.compareTo`` orders them."""
    if one.upper != other.upper:
        return one.upper < other.upper
    return one.lower < other.lower


@cython.final
@cython.no_gc                      # no reference cycles
@cython.freelist(64)
cdef class Assignment:
    """Partitions by topic."""

    def __dealloc__(self):
        free(self.ends)            # partitions and epochs lie behind them

    cdef bint equals(self, Assignment other) noexcept:
        cdef Py_ssize_t n
        if self is other:
            return True
        if self.topic_count != other.topic_count or self.count != other.count:
            return False
        for n in range(self.topic_count):
            if self.topics[n] is not other.topics[n]:
                return False
        if memcmp(self.ends, other.ends, self.topic_count * sizeof(int32_t)) != 0 or (
                memcmp(self.partitions, other.partitions, self.count * sizeof(int32_t)) != 0):
            return False
        if self.epochs == NULL or other.epochs == NULL:
            return self.epochs == other.epochs
        return memcmp(self.epochs, other.epochs, self.count * sizeof(int32_t)) == 0

    cdef Py_ssize_t find(self, TopicId topic) noexcept:
        """The index of a topic, or -1."""
        cdef Py_ssize_t n
        for n in range(self.topic_count):
            if self.topics[n] is topic:
                return n
        return -1

    cdef bint holds(self, TopicId topic, int32_t partition) noexcept:
        return self.place(topic, partition) >= 0

    cdef int32_t place(self, TopicId topic, int32_t partition) noexcept:
        """Where a partition stands among all, or -1."""
        cdef Py_ssize_t n = self.find(topic)
        cdef int32_t at
        if n < 0:
            return -1
        for at in range(self.ends[n - 1] if n else 0, self.ends[n]):
            if self.partitions[at] == partition:
                return at
        return -1

    cdef dict epochs_by_topic(self):
        """The epoch of each partition by TopicId; 0 without epochs."""
        cdef dict made = {}
        cdef int32_t start = 0
        cdef Py_ssize_t n
        for n in range(self.topic_count):
            made[self.topics[n]] = {
                self.partitions[at]: 0 if self.epochs == NULL else self.epochs[at]
                for at in range(start, self.ends[n])}
            start = self.ends[n]
        return made

    def rows(self):
        """Return ((topic id, (partition, ...)), ...), in order."""
        cdef list made = []
        cdef int32_t start = 0
        cdef Py_ssize_t n
        for n in range(self.topic_count):
            made.append(((<TopicId>self.topics[n]).raw,
                         tuple([self.partitions[at] for at in range(start, self.ends[n])])))
            start = self.ends[n]
        return tuple(made)


cdef Assignment new_assignment(list topics, const int32_t* ends, const int32_t* partitions,
                               const int32_t* epochs):
    """Copy an assignment: topics in order, where the partitions of each end, and these.

    ``epochs``: at which each partition was assigned; NULL: nothing has them.
    """
    return assignment_of(tuple(topics), ends, partitions, epochs)


cdef Assignment assignment_of(tuple topics, const int32_t* ends, const int32_t* partitions,
                              const int32_t* epochs):
    """As ``new_assignment``; the topics are not copied."""
    cdef Py_ssize_t count = len(topics)
    cdef Assignment made
    if not count:
        return EMPTY
    made = Assignment.__new__(Assignment)
    PyObject_GC_UnTrack(topics)
    made.topics = topics
    made.topic_count = count
    made.count = ends[count - 1]
    made.ends = <int32_t*>malloc(
        (count + made.count + (made.count if epochs != NULL else 0)) * sizeof(int32_t))
    if made.ends == NULL:
        raise MemoryError
    made.partitions = made.ends + count
    memcpy(made.ends, ends, count * sizeof(int32_t))
    memcpy(made.partitions, partitions, made.count * sizeof(int32_t))
    if epochs != NULL:
        made.epochs = made.partitions + made.count
        memcpy(made.epochs, epochs, made.count * sizeof(int32_t))
    return made


cdef Assignment at_epoch(Assignment assignment, int32_t epoch):
    """The same partitions, all assigned at one epoch."""
    cdef Assignment made
    cdef int32_t at
    # Any epochs make room for those that follow.
    made = assignment_of(assignment.topics, assignment.ends, assignment.partitions,
                         assignment.partitions)
    for at in range(made.count):
        made.epochs[at] = epoch
    return made


cdef Assignment assignment_of_refs(PyObject** topics, Py_ssize_t count, const int32_t* ends,
                                   const int32_t* partitions, const int32_t* epochs):
    """As ``assignment_of``; the topics are borrowed references."""
    cdef tuple named = PyTuple_New(count)
    cdef Py_ssize_t n
    for n in range(count):
        Py_INCREF(<object>topics[n])
        PyTuple_SET_ITEM(named, n, <object>topics[n])
    return assignment_of(named, ends, partitions, epochs)


cdef Assignment make_empty():
    cdef Assignment made = Assignment.__new__(Assignment)
    made.topics = ()
    return made


cdef Assignment EMPTY = make_empty()


cdef Assignment no_partitions():
    """The assignment of nothing: one object."""
    return EMPTY


cdef tuple utf16_sorted(object texts):
    """Texts in the order of their UTF-16 units."""
    for text in texts:
        if PyUnicode_KIND(<str?>text) == PyUnicode_4BYTE_KIND:
            return tuple(sorted(texts, key=utf16_units))
    return tuple(sorted(texts))        # keys for the texts take three times as long


def utf16_units(str text not None):
    return text.encode("utf-16-be", "surrogatepass")


cdef bint utf16_before(str one, str other) except -1:
    """Whether a text stands before another by UTF-16 units; only pairs differ from code points."""
    if PyUnicode_KIND(one) == PyUnicode_4BYTE_KIND or PyUnicode_KIND(other) == PyUnicode_4BYTE_KIND:
        return utf16_units(one) < utf16_units(other)
    return PyUnicode_Compare(one, other) < 0


@cython.final
@cython.no_gc                      # no reference cycles
cdef class Names:
    """A set of topic names."""

    def __cinit__(self, tuple ordered not None):
        self.ordered = ordered
        self.names = frozenset(ordered)
        self.hash_stamp = self.topics_stamp = -1


cdef Names NO_NAMES = Names(())


cdef Names no_names():
    """The set without names: one object."""
    return NO_NAMES


@cython.final
@cython.no_gc                      # no reference cycles
cdef class ClassicPart:
    """What a member of the classic protocol brings: its session timeout and its protocols."""


@cython.final
@cython.no_gc                      # no reference cycles
@cython.freelist(64)
cdef class MemberFields:
    """What a member record says of a member."""


@cython.final
@cython.no_gc                      # no reference cycles
cdef class Resolved:
    """The topics that a regular expression matched in an image."""


cdef int add_count(dict counts, object name, int by) except -1:
    """Add to a count; one that is 0 goes."""
    cdef object total = counts.get(name, 0) + by
    if total:
        counts[name] = total
    else:
        del counts[name]


# ---- regular expressions of subscriptions: RE2's syntax, the whole topic name must match ---------
# RE2 comes with the extra ``regex`` (package google-re2). Source: GroupMetadataManager.java
# (refreshRegularExpressions), com.google.re2j.

TOGETHER = 100                     # expressions in one set of RE2's
ANYTHING = "(?s).*"


def engine():
    """Return the module ``re2`` and its options."""
    try:
        import re2
    except ModuleNotFoundError:
        raise CoterieError("subscriptions by regular expression need RE2: "
                           "pip install 'coterie[regex]'") from None
    options = re2.Options()
    options.log_errors = False
    return re2, options


def compile_regex(str regex not None):
    """Return whether an expression compiles."""
    re2, options = engine()
    try:
        re2.compile(regex, options)
    except re2.error:
        return False
    return True


def matching(regexes, names):
    """Return the names that each expression matches whole."""
    cdef list each = list(dict.fromkeys(regexes))
    cdef dict found = {}
    for start in range(0, len(each), TOGETHER):
        found.update(matching_together(each[start:start + TOGETHER], list(names)))
    return found


cdef dict matching_together(list regexes, list names):
    """One walk over the names for several expressions."""
    cdef dict found = {regex: [] for regex in regexes}
    re2, options = engine()
    several = re2.Set.FullMatchSet(options)
    for regex in regexes:
        several.Add(regex)
    several.Add(ANYTHING)
    several.Compile()
    for name in names:
        matched = several.Match(name)
        # RE2 says nothing if it has no memory for a set of expressions: then even ANYTHING fails.
        if len(regexes) not in matched:
            return {regex: matching_alone(regex, names) for regex in regexes}
        for number in matched:
            if number < len(regexes):
                found[regexes[number]].append(name)
    return found


cdef list matching_alone(str regex, list names):
    re2, options = engine()
    pattern = re2.compile(regex, options)
    return [name for name in names if pattern.fullmatch(name)]


# ---- the metadata image that a coordinator assigns by: topics, brokers, and hashes of both -------
# A group's metadata hash is computed of the hashes of its topics, which are cached as Kafka caches
# them: until the topic changes, or no group subscribes to it. So a change of racks alone is not
# noticed. Knows no group.
# Source: org.apache.kafka.coordinator.group.Utils (computeTopicHash, computeGroupHash).

cdef object text_and_length(str text):
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw + struct.pack("<i", len(raw) // 2)


@cython.final
cdef class MetadataImage:
    """Topics by name and by id; brokers and their racks."""

    def __cinit__(self):
        self.topics = {}
        self.ids = {}
        self.racks = {}
        self.hashes = {}
        self.names = {(): no_names()}
        self.version = 0           # the first update makes it 1

    cdef TopicId topic_id(self, bytes raw):
        """The one object of an id, whether there is such a topic or not."""
        topic = self.ids.get(raw)
        if topic is None:
            topic = self.ids[raw] = TopicId(raw)
        return <TopicId>topic

    cdef Names names_of(self, tuple texts):
        """The one object of a set of names, in whatever order and however often they come."""
        names = self.names.get(texts)
        if names is None:
            ordered = utf16_sorted(set(texts))
            names = self.names.get(ordered)
            if names is None:
                names = self.names[ordered] = Names(ordered)
            self.names[texts] = names
        return <Names>names

    cdef set update(self, object brokers, object deleted, object topics, list gone):
        """Apply a new image; names of topics that were created, deleted or grew.

        ``brokers``: (id, rack) pairs; ``deleted``: names; ``topics``: (name, id, replicas), where
        the replicas of a partition are broker ids. ``gone`` gets (id, name) of what is deleted.
        """
        cdef set changed = set()
        cdef bint created = False
        cdef TopicId topic
        for broker, rack in brokers:
            self.racks[broker] = rack
        for name in deleted:
            topic = self.topics.pop(name, None)
            if topic is not None:
                topic.name = None
                changed.add(name)
                gone.append((topic.raw, name))
        for name, raw, replicas in topics:
            topic = self.topics.get(name)
            if topic is None or topic.raw != raw:
                if topic is not None:
                    topic.name = None
                    gone.append((topic.raw, name))
                topic = self.topics[name] = self.topic_id(raw)
                topic.name = name
                topic.replicas = []
                created = True
            topic.replicas.extend(replicas[len(topic.replicas):])
            topic.partition_count = <int>len(topic.replicas)
            changed.add(name)
        for name in changed:
            self.hashes.pop(name, None)
        self.stamp += 1
        self.version += 1
        if created:
            self.version_with_new_topics = self.version
        return changed

    cdef int forget_hash(self, str name) except -1:
        """No group subscribes to a topic any more."""
        if self.hashes.pop(name, None) is not None:
            self.stamp += 1

    cdef int forget_hashes(self) except -1:
        """The coordinator loads: nothing is cached, and all topics count as new."""
        self.hashes = {}
        self.stamp += 1
        self.version_with_new_topics = self.version

    cdef int64_t hash_of(self, object names) except? -7:
        """The metadata hash over the topics of these names that exist; 0 without any."""
        from xxhash import xxh3_64_digest, xxh3_64_intdigest

        cdef list parts = []
        for name in sorted([name for name in names if name in self.topics]):
            digest = self.hashes.get(name)
            if digest is None:
                digest = xxh3_64_digest(self.described(self.topics[name]))[::-1]  # little-endian
                self.hashes[name] = digest
            parts.append(digest)
        if not parts:
            return 0
        value = xxh3_64_intdigest(b"".join(parts))
        return <int64_t>(value - (1 << 64) if value >> 63 else value)

    cdef int64_t hash_of_names(self, Names names) except? -7:
        """The same for one set of names, computed once for each state of the image."""
        if names.hash_stamp != self.stamp:
            names.digest = self.hash_of(names.names)
            names.hash_stamp = self.stamp
        return names.digest

    cdef bytes described(self, TopicId topic):
        """What a topic's hash is computed of."""
        cdef list parts = [b"\0", topic.raw[:8][::-1], topic.raw[8:][::-1],
                           text_and_length(topic.name), struct.pack("<i", topic.partition_count)]
        for number, replicas in enumerate(topic.replicas):
            parts.append(struct.pack("<i", number))
            racks = [self.racks.get(broker) for broker in replicas]
            for rack in sorted([rack for rack in racks if rack is not None]):
                parts.append(struct.pack("<i", len(rack.encode("utf-16-le")) // 2))
                parts.append(text_and_length(rack))
        return b"".join(parts)
