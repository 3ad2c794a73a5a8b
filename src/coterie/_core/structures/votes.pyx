"""Protocol votes: of one group by names, of many groups at once over columns of ids.

A candidate is a name with as many list entries as there are members. Each member votes for
the first candidate of its own list. Most votes win; a tie goes to the candidate whose first vote
was cast first, in member order. Kafka takes a hash map's order: docs/rules/trace-format.md#order.
It knows no group and no member. Cost: O(list entries).
Source: GroupMetadata.scala (candidateProtocols, selectProtocol).
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, intptr_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from coterie._core.structures.expiry cimport column_of
from coterie._core.structures.arrays cimport (
    NPY_INT32, NPY_INT64, NPY_UINT64, PyArray_EMPTY, PyArray_ZEROS, data_of, need_arrays, size_of)
from coterie._core.checks cimport items_of, text_of

from operator import itemgetter

from coterie.errors import ArgumentError, CoterieError

cdef extern from "votes.h" nogil:
    enum:
        COTERIE_LANES
        COTERIE_LIST_MAX
        COTERIE_AFTER_CODES
    bint coterie_has_lanes()
    uint64_t coterie_lengths(const int64_t* starts, size_t count)
    bint coterie_rank(const int32_t* names, int64_t first, int64_t last, uint64_t call,
                      uint64_t* seen, uint8_t* codes, int32_t* order)
    uint32_t coterie_vote(const int32_t* names, uint8_t* codes, const int64_t* start,
                          const int64_t* group, size_t groups, int32_t* winner, int32_t* votes)

cdef enum:
    NO_CANDIDATE = -1
    WIDEST = 1 << 26               # ids are indexes of a table: this many at most
    SHORT = 8                      # names of a list that are worth a comparison


@cython.final
@cython.no_gc                      # names and numbers: no reference cycles
cdef class ProtocolCounts:
    """How many list entries of a group's members name each protocol, updated by the caller."""

    # While all lists have the same names, as in most groups, one number is enough.

    cdef int settle(self) except -1:
        """Count each name separately from now on."""
        self.counts = self.as_dict()
        self.sharing = 0
        return 0

    cdef Py_ssize_t count_of(self, name) except -1:
        if self.counts is not None:
            return self.counts.get(name, 0)
        return self.sharing if self.sharing and names_it(self.shared, name) else 0

    cdef int count_in(self, tuple protocols) except -1:
        if self.counts is None:
            if not self.sharing and has_each_once(protocols):
                self.shared = protocols
                self.sharing = 1
                return 0
            if self.sharing and same_names(self.shared, protocols):
                self.sharing += 1
                return 0
            self.settle()
        for entry in protocols:
            name = (<tuple?>entry)[0]
            self.counts[name] = self.counts.get(name, 0) + 1
        return 0

    cdef int count_out(self, tuple protocols) except -1:
        if self.counts is None:
            if self.sharing and same_names(self.shared, protocols):
                self.sharing -= 1
                return 0
            self.settle()
        for entry in protocols:
            name = (<tuple?>entry)[0]
            left = self.counts.pop(name, 0) - 1
            if left > 0:                 # 0 and absent are the same to every rule
                self.counts[name] = left
        if not self.counts:
            self.counts = None
        return 0

    cdef bint is_candidate(self, name, Py_ssize_t members) except -1:
        return self.count_of(name) == members

    cdef str vote(self, tuple protocols, Py_ssize_t members):
        for entry in protocols:
            if self.is_candidate((<tuple?>entry)[0], members):
                return (<tuple?>entry)[0]
        return None

    def add(self, names):
        """Count a member's list."""
        self.count_in(tuple([(name,) for name in _names_of(names)]))

    def remove(self, names):
        """Take a member's list out; CoterieError if it was not counted."""
        cdef list listed = _names_of(names)
        for name in set(listed):
            if self.count_of(name) < listed.count(name):
                raise CoterieError(f"protocol {name!r} was not counted")
        self.count_out(tuple([(name,) for name in listed]))

    def candidates(self, Py_ssize_t members):
        """Return the names that are counted as often as there are members."""
        return {name for name, count in self.as_dict().items() if count == members}

    def __getitem__(self, str name):
        """How often a name is counted; 0 if it is not."""
        return self.count_of(name)

    def as_dict(self):
        """Return all counts."""
        if self.counts is not None:
            return dict(self.counts)
        return {entry[0]: self.sharing for entry in self.shared} if self.sharing else {}


cdef bint names_it(tuple protocols, name) except -1:
    for entry in protocols:
        named = (<tuple?>entry)[0]
        if named is name or named == name:
            return True
    return False


cdef bint same_names(tuple one, tuple other) except -1:
    cdef Py_ssize_t n
    if one is other:
        return True
    if len(one) != len(other):
        return False
    for n in range(len(one)):
        name = (<tuple?>one[n])[0]
        same = (<tuple?>other[n])[0]
        if name is not same and name != same:
            return False
    return True


cdef bint has_each_once(tuple protocols) except -1:
    cdef Py_ssize_t count = len(protocols)
    if count > SHORT:
        return False
    if count == 1:
        (<tuple?>protocols[0])[0]      # names in place of pairs fail here, not much later
        return True
    return len({(<tuple?>entry)[0] for entry in protocols}) == count


cdef list _names_of(names):
    return [text_of(name, "a name") for name in items_of(names, "names")]


cdef uint32_t java_hash(str name):
    """Return Java's String.hashCode."""
    cdef uint32_t h = 0
    cdef bytes units = name.encode("utf-16-be", "surrogatepass")
    cdef Py_ssize_t n
    for n in range(0, len(units), 2):
        h = 31 * h + (<uint32_t>units[n] << 8 | units[n + 1])
    return h


cdef uint32_t spread_hash(str name):
    """Return the hash of a name, improved as Scala 2.13's immutable.HashMap does."""
    cdef uint32_t h = java_hash(name)
    h += ~(h << 9)
    h ^= h >> 14
    h += h << 4
    return h ^ h >> 10


cdef list scala_order(names, int shift=0):
    """Return the order of Scala's map: a level's own keys by 5 bits, then its branches."""
    cdef dict places = {}
    cdef list own = [], below = []
    for name in names:
        places.setdefault(spread_hash(name) >> shift & 31, []).append(name)
    for _, keys in sorted(places.items()):
        if len(keys) == 1:
            own.append(keys[0])
        else:
            below += scala_order(keys, shift + 5) if shift < 30 else keys
    return own + below


cdef list java_order(names):
    """Return the order of a java.util.HashMap (8 and later) into which the names were put.

    A table of 16 places grows to twice its size beyond three quarters of it, and for a chain of
    nine names while it has fewer than 64. Longer chains become trees, which this does not order.
    """
    cdef Py_ssize_t size = 16, count = 0
    cdef list hashes = []
    cdef uint32_t h
    for name in names:
        h = java_hash(name)
        h ^= h >> 16
        chain = sum([1 for other in hashes if other & (size - 1) == h & (size - 1)])
        hashes.append(h)
        count += 1
        if count > size * 3 // 4 or (chain >= 8 and size < 64):
            size *= 2
    places = zip([h & (size - 1) for h in hashes], names)
    return [name for _, name in sorted(places, key=itemgetter(0))]  # a chain keeps its order


cdef str most_voted(dict votes, int ties):
    """Return the winner; a tie is decided by the first in the order that `ties` names.

    Source: GroupMetadata.selectProtocol (3.9) groups the votes into an immutable.HashMap,
    ClassicGroup.selectProtocol (4.x) counts them in a java.util.HashMap; both take the first of
    equals.
    """
    if len(votes) == 1 or ties == FIRST_VOTED:
        return max(votes, key=votes.get)
    return max(java_order(votes) if ties == JAVA_MAP else scala_order(votes), key=votes.get)


def select_protocol(protocols):
    """Return the protocol that a group's members vote for."""
    cdef ProtocolCounts counts = ProtocolCounts()
    cdef list lists = [tuple([(name,) for name in _names_of(names)])
                       for names in items_of(protocols, "protocols")]
    cdef dict votes = {}
    if not lists:
        raise CoterieError("a group without members selects no protocol")
    for entries in lists:
        counts.count_in(entries)
    for number, entries in enumerate(lists):
        name = counts.vote(entries, len(lists))
        if name is None:
            raise CoterieError(f"member {number} supports no protocol that all members support")
        votes[name] = votes.get(name, 0) + 1
    return max(votes, key=votes.get)     # the first of equals, in order of first votes


@cython.final
cdef class Counters:
    """Counts the votes of groups in arrays; for groups with too many names for lanes."""
    cdef int32_t* counts           # by name: entries, votes; then the names in order of first votes
    cdef int64_t width

    def __cinit__(self, int64_t width):
        self.width = width

    def __dealloc__(self):
        free(self.counts)

    cdef int32_t tally(self, const int32_t* names, const int64_t* member_start,
                       int64_t first, int64_t last, int32_t* winner) except -1:
        cdef int64_t at, start = member_start[first], end = member_start[last]
        cdef int32_t best
        if self.counts == NULL:
            self.counts = <int32_t*>calloc(3 * self.width, sizeof(int32_t))
            if self.counts == NULL:
                raise MemoryError
        best = tally(names, member_start, first, last, self.counts, self.counts + self.width,
                     self.counts + 2 * self.width, winner)
        if self.width <= end - start:
            memset(self.counts, 0, 2 * self.width * sizeof(int32_t))
        else:
            for at in range(start, end):
                self.counts[names[at]] = 0
                self.counts[self.width + names[at]] = 0
        return best


cdef int tally(const int32_t* names, const int64_t* member_start, int64_t first, int64_t last,
               int32_t* counts, int32_t* votes, int32_t* order, int32_t* winner) noexcept nogil:
    """Count the votes of one group; `counts` and `votes` must be zero and are not reset."""
    cdef int64_t at, member, voted = 0
    cdef int32_t name, best = 0, total = <int32_t>(last - first)
    for at in range(member_start[first], member_start[last]):
        counts[names[at]] += 1
    winner[0] = NO_CANDIDATE
    for member in range(first, last):
        at = member_start[member]
        while at < member_start[member + 1] and counts[names[at]] != total:
            at += 1
        if at == member_start[member + 1]:
            winner[0] = NO_CANDIDATE
            return 0
        name = names[at]
        votes[name] += 1
        if votes[name] == 1:
            order[voted] = name
            voted += 1
    for at in range(voted):
        if votes[order[at]] > best:      # not >=: the first of equals stays
            best = votes[order[at]]
            winner[0] = order[at]
    return best


cdef uint64_t lengths_of(const int64_t* starts, Py_ssize_t count, str name,
                         Py_ssize_t end) except? 0:
    """Check row offsets of a CSR column: from 0, not decreasing, to the number of rows."""
    cdef uint64_t lengths
    if count == 0 or starts[0] != 0 or starts[count - 1] != end:
        raise ArgumentError(f"{name} must start with 0 and end with {end}")
    lengths = coterie_lengths(starts, count)
    if lengths >> 63:
        raise ArgumentError(f"{name} must not fall")
    return lengths


cdef int64_t width_of(const int32_t* names, Py_ssize_t count) except -1:
    """Return the size of a table that is indexed by the ids."""
    cdef Py_ssize_t n
    cdef int32_t highest = 0, lowest = 0
    for n in range(count):
        highest = max(highest, names[n])
        lowest = min(lowest, names[n])
    if highest >= WIDEST or lowest < 0:
        raise ArgumentError(f"names must be ids from 0 to {WIDEST - 1}")
    return <int64_t>highest + 1


cdef list rank(const int32_t* names, Py_ssize_t entries, int64_t width, const int64_t* member_at,
               const int64_t* group_at, Py_ssize_t count, uint8_t* codes, int32_t* order):
    """Number the names that are not below COTERIE_LANES.

    Return None if there are few enough in all. Otherwise each group is numbered separately; return
    the groups with too many names.
    """
    cdef intptr_t shape = width
    cdef object zeros = PyArray_ZEROS(1, &shape, NPY_UINT64, 0)
    cdef uint64_t* seen = <uint64_t*>data_of(zeros)
    cdef Py_ssize_t g
    if coterie_rank(names, 0, entries, 1, seen, codes, order):
        return None
    return [g for g in range(count)
            if not coterie_rank(names, member_at[group_at[g]], member_at[group_at[g + 1]], g + 2,
                                seen, codes, order)]


cdef int elect(const int32_t* names, Py_ssize_t entries, const int64_t* member_at,
               const int64_t* group_at, Py_ssize_t count, int32_t* winner,
               int32_t* votes) except -1:
    """Count the votes of all groups; no list is longer than COTERIE_LIST_MAX."""
    cdef bytes buffer = PyBytes_FromStringAndSize(NULL, entries + COTERIE_AFTER_CODES)
    cdef uint8_t* codes = <uint8_t*>PyBytes_AS_STRING(buffer)
    cdef int32_t[COTERIE_LANES] order
    cdef int64_t at, width
    cdef Py_ssize_t g
    cdef list crowded
    if coterie_vote(names, codes, member_at, group_at, count, winner,
                    votes) < <uint32_t>COTERIE_LANES:
        return 0
    width = width_of(names, entries)
    memset(codes, 0, entries + COTERIE_AFTER_CODES)    # the part that was not reached, too
    crowded = rank(names, entries, width, member_at, group_at, count, codes, order)
    coterie_vote(NULL, codes, member_at, group_at, count, winner, votes)
    for g in range(count):
        if winner[g] == NO_CANDIDATE:
            continue
        if crowded is None:
            winner[g] = order[winner[g]]
        else:
            at = member_at[group_at[g]]
            while codes[at] != winner[g] << 4:
                at += 1
            winner[g] = names[at]
    if crowded:
        tally_each(crowded, names, width, member_at, group_at, winner, votes)
    return 0


cdef int tally_each(groups, const int32_t* names, int64_t width, const int64_t* member_at,
                    const int64_t* group_at, int32_t* winner, int32_t* votes) except -1:
    """Count the votes of some groups in arrays."""
    cdef Counters counters = Counters.__new__(Counters, width)
    cdef Py_ssize_t g
    for g in groups:
        votes[g] = counters.tally(names, member_at, group_at[g], group_at[g + 1], &winner[g])
    return 0


def select_protocols(names, member_start, group_start):
    """Select the protocols of many groups at once, as :func:`select_protocol` does for one."""
    need_arrays()
    cdef object columns = (column_of(names, "names", NPY_INT32),
                           column_of(member_start, "member_start", NPY_INT64),
                           column_of(group_start, "group_start", NPY_INT64))
    cdef const int32_t* ids = <const int32_t*>data_of(columns[0])
    cdef const int64_t* member_at = <const int64_t*>data_of(columns[1])
    cdef const int64_t* group_at = <const int64_t*>data_of(columns[2])
    cdef Py_ssize_t entries = size_of(columns[0]), members = size_of(columns[1])
    cdef Py_ssize_t count = size_of(columns[2]) - 1
    cdef uint64_t lengths = lengths_of(member_at, members, "member_start", entries)
    lengths_of(group_at, count + 1, "group_start", members - 1)
    # From here on every index is within its column.
    cdef intptr_t shape = count
    winners = PyArray_EMPTY(1, &shape, NPY_INT32, 0)
    most = PyArray_EMPTY(1, &shape, NPY_INT32, 0)
    cdef int32_t* winner = <int32_t*>data_of(winners)
    cdef int32_t* votes = <int32_t*>data_of(most)
    if lengths <= <uint64_t>COTERIE_LIST_MAX and coterie_has_lanes():
        elect(ids, entries, member_at, group_at, count, winner, votes)
    else:
        tally_each(range(count), ids, width_of(ids, entries), member_at, group_at, winner, votes)
    return winners, most
