"""The fields of Kafka's messages in one version, compiled into layouts that loops can follow.

A layout has the fields of a struct in wire order, as objects for Python values and as C structs for
loops over bytes. Knows the kinds of fields that Kafka's generated classes have; knows no message by
name, and reads no bytes itself. Cost: made once for each version of a message, in one walk over the
rows of the table.
"""
cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.string cimport memcpy
from operator import itemgetter

from coterie.errors import ArgumentError

cdef enum:
    MAX_DEPTH = 20             # of nested structs; Kafka's have at most five
    NO_SIZE = -2               # equals the size of no text

cdef dict KINDS = {
    "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
    "int64": INT64, "float64": FLOAT64, "bool": BOOL, "uuid": UUID, "string": STRING,
    "bytes": BYTES, "records": BYTES, "struct": STRUCT}
cdef dict WIDTHS = {INT8: 1, BOOL: 1, INT16: 2, UINT16: 2, INT32: 4, UINT32: 4, INT64: 8,
                    FLOAT64: 8, UUID: 16}
cdef str NO_UUID = "A" * 22


@cython.final
cdef class Field:
    """One field in one version, under its name in Kafka's JSON."""


@cython.final
cdef class Layout:
    """The fields of a struct in one version."""

    def __dealloc__(self):
        PyMem_Free(self.plan.steps)
        PyMem_Free(self.first)

    @property
    def names(self):
        """The names of the fields in wire order, tagged ones after all others."""
        return tuple([field.name for field in self.fields + self.tagged])

    @property
    def least_bytes(self):
        """The fewest bytes of such a struct: above 0, so a sender pays for each list element."""
        return self.least

    def below(self, str name not None):
        """Return the layout of a field that is a struct or a list of structs; None of any other."""
        cdef Field field
        for field in self.fields + self.tagged:
            if field.name == name:
                return field.layout
        raise KeyError(name)


cdef int least_of(Field field, bint flexible) except -1:
    """Return the fewest bytes that a field takes."""
    cdef Kind kind = field.step.kind
    if kind == STRUCT:
        return 1 if field.step.nullable else field.layout.least
    if kind == LIST or kind == BYTES:
        return 1 if flexible else 4
    if kind == STRING:
        return 1 if flexible else 2
    return field.step.width


def layout_of(fields, int version, bint flexible):
    """Make the layout of one version."""
    return struct_of(fields, version, flexible, 0)


cdef Layout struct_of(fields, int version, bint flexible, int depth):
    cdef Layout layout = Layout.__new__(Layout)
    cdef Field field
    cdef list plain = [], tagged = [], fresh = [], absent = []
    if depth > MAX_DEPTH:
        raise ArgumentError(f"fields: structs are nested more than {MAX_DEPTH} deep")
    layout.plan.flexible = flexible
    layout.blank = {}
    for row in fields:
        field = field_of(row, version, flexible, depth)
        field.step.slot = layout.plan.slots
        layout.plan.slots += 1
        layout.blank[field.name] = field.default
        here = row[2] <= version <= row[3]
        if here and field.step.tag < 0:
            plain.append(field)
            continue
        absent.append(field)
        if field.made:
            fresh.append(field)
        if here:
            tagged.append((field.step.tag, field))
    if layout.plan.slots > MAX_FIELDS:
        raise ArgumentError(f"fields: a struct has more than {MAX_FIELDS} fields")
    tagged.sort(key=itemgetter(0))
    layout.fields = tuple(plain)
    layout.tagged = tuple([field for _, field in tagged])
    layout.fresh = tuple(fresh)
    layout.absent = tuple(absent)
    layout.keys = {field.name: field.default for field in plain}
    layout.keys.update({field.name: None for field in layout.tagged if field.step.always})
    layout.least = sum([least_of(field, flexible) for field in plain]) + flexible
    set_steps(layout)
    return layout


cdef int set_steps(Layout layout) except -1:
    cdef Field field
    cdef int n
    layout.plan.count, layout.plan.tagged_count = len(layout.fields), len(layout.tagged)
    layout.plan.steps = <Step*>PyMem_Calloc(layout.plan.slots + 1, sizeof(Step))
    layout.first = <Seen*>PyMem_Calloc(layout.plan.count + 1, sizeof(Seen))
    if layout.plan.steps == NULL or layout.first == NULL:
        raise MemoryError
    for n, field in enumerate(layout.fields + layout.tagged):
        layout.plan.steps[n] = field.step
        if n < layout.plan.count:
            layout.first[n].number = seen_at_first(field)
    return 0


cdef int64_t seen_at_first(Field field) except? -1:
    """Return Seen's number for the default, which a dict has before anything is read."""
    cdef double value
    cdef int64_t bits
    if field.step.kind == STRING:
        return -1 if field.default is None else NO_SIZE if field.default else 0
    if field.step.kind == FLOAT64:
        value = field.default
        memcpy(&bits, &value, 8)
        return bits
    return field.default if field.step.kind < UUID else NO_SIZE


cdef Field field_of(row, int version, bint flexible, int depth):
    cdef Field field = Field.__new__(Field)
    cdef Step* step = &field.step
    cdef str kind
    name, kind, _, _, null_first, null_last, step.tag, text, fields = row
    field.name = name
    step.kind = LIST if kind.startswith("[]") else KINDS[kind]
    step.item = KINDS[kind.removeprefix("[]")]
    step.nullable = null_first <= version <= null_last
    step.width = WIDTHS.get(step.item, 0)
    step.name, step.field = <PyObject*>field.name, <PyObject*>field
    if step.item == STRUCT:
        field.layout = struct_of(fields, version, flexible, depth + 1)
        step.inner = &field.layout.plan
    if text != "null" and kind != "records":
        set_default(field, text)
    step.always = step.kind == STRUCT and step.tag >= 0 and not field.made
    return field


cdef int set_default(Field field, str text) except -1:
    cdef Kind kind = field.step.kind
    if kind == LIST or kind == STRUCT:
        field.made = True
    elif kind == STRING:
        field.default = text or ""
    elif kind == BYTES:
        field.default = b""
    elif kind == UUID:
        field.default = NO_UUID
    elif kind == BOOL:
        field.default = text == "true"
    elif kind == FLOAT64:
        field.default = float(text or 0)
    else:
        field.default = int(text or 0)
    return 0


cdef object default_of(Field field, bint fill):
    """Return the default for a new message: a list or a struct is a new object."""
    cdef Field inner
    if not field.made:
        return field.default
    if field.step.kind == LIST:
        return []
    if fill:
        return blank_of(field.layout)
    return {inner.name: default_of(inner, False) for inner in field.layout.fields}


cdef dict blank_of(Layout layout):
    """Return a struct of defaults with the fields of all versions."""
    cdef dict struct = layout.blank.copy()
    cdef Field field
    for field in layout.fresh + layout.fields:
        if field.made:
            struct[field.name] = default_of(field, True)
    return struct
