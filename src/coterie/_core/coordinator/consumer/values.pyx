"""Values of the consumer protocol that never change: topic ids, assignments, subscriptions.

An assignment is flat: its topics in the order of their ids, and the partitions of all in one array.
Comparing two is a comparison of memory. Knows no group and no member.
Source: org.apache.kafka.common.Uuid, modern/Assignment.java,
modern/consumer/ConsumerGroupMember.java.
"""
cimport cython
from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_Compare
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from coterie._core.structures.collector cimport PyObject_GC_UnTrack

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
        free(self.ends)            # the partitions lie behind them

    cdef bint equals(self, Assignment other) noexcept:
        cdef Py_ssize_t n
        if self is other:
            return True
        if self.topic_count != other.topic_count or self.count != other.count:
            return False
        for n in range(self.topic_count):
            if self.topics[n] is not other.topics[n]:
                return False
        return (memcmp(self.ends, other.ends, self.topic_count * sizeof(int32_t)) == 0
                and memcmp(self.partitions, other.partitions, self.count * sizeof(int32_t)) == 0)

    cdef Py_ssize_t find(self, TopicId topic) noexcept:
        """The index of a topic, or -1."""
        cdef Py_ssize_t n
        for n in range(self.topic_count):
            if self.topics[n] is topic:
                return n
        return -1

    cdef bint holds(self, TopicId topic, int32_t partition) noexcept:
        cdef Py_ssize_t n = self.find(topic)
        cdef int32_t at
        if n < 0:
            return False
        for at in range(self.ends[n - 1] if n else 0, self.ends[n]):
            if self.partitions[at] == partition:
                return True
        return False

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


cdef Assignment new_assignment(list topics, const int32_t* ends, const int32_t* partitions):
    """Copy an assignment: topics in order, where the partitions of each end, and these."""
    return assignment_of(tuple(topics), ends, partitions)


cdef Assignment assignment_of(tuple topics, const int32_t* ends, const int32_t* partitions):
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
    made.ends = <int32_t*>malloc((count + made.count) * sizeof(int32_t))
    if made.ends == NULL:
        raise MemoryError
    made.partitions = made.ends + count
    memcpy(made.ends, ends, count * sizeof(int32_t))
    memcpy(made.partitions, partitions, made.count * sizeof(int32_t))
    return made


cdef Assignment assignment_of_refs(PyObject** topics, Py_ssize_t count, const int32_t* ends,
                                   const int32_t* partitions):
    """As ``new_assignment``; the topics are borrowed references."""
    cdef tuple named = PyTuple_New(count)
    cdef Py_ssize_t n
    for n in range(count):
        Py_INCREF(<object>topics[n])
        PyTuple_SET_ITEM(named, n, <object>topics[n])
    return assignment_of(named, ends, partitions)


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
