"""Keys and values of the offsets topic, by the table of messages.

What a key is, whether a value can be read, subscriptions of the consumer protocol, and group
metadata as named tuples.
Source: GroupMetadataManager.scala (readMessageKey, readGroupMessageValue).
"""
from collections import namedtuple
from libc.stdint cimport int16_t, uint8_t
from libc.stdlib cimport free

from coterie._core.checks cimport bytes_of, dict_of, flag_of, int64_of, int64_or_none
from coterie._core.codec.cursor cimport OK, TRUNCATED, Cursor, Status, load_i16, read_i16, remaining
from coterie._core.codec.layout cimport (
    KEY, MAX_FIELDS, VALUE, Layout, Reading, Writing, begin, end, put_i16, read_struct, read_text,
    reading, struct_of, write_struct, written)
from coterie._core.codec.walk cimport MAX_VERSIONS, Rows, Span, Versions, walk, walk_value

from coterie.errors import ArgumentError, CorruptData, shown
from coterie.base.schemas import OFFSETS_TOPIC, SECTIONS


# ---- schema --------------------------------------------------------------------------------------
# The keys and values of a log, and the consumer protocol, from bytes to plain dicts and back. The
# layouts come from the table of messages (``base/schemas.txt``), by the version of the key. Only
# the members of a group are known by name here, because the bytes inside them are decoded, too, and
# because Redpanda, which writes the same records, has a version before each of them (its
# group_metadata.cc). Its layout is tried where Kafka's does not fit. Knows single records; knows no
# batches and no state. Cost: see `decode` and `encode`; the layouts of all versions are made at
# import.

cdef enum:
    MAX_KEYS = 64                 # key versions; Kafka has 24
    KEY_GROUP = 2
    REDPANDA_VERSION = 3          # of the only value that Redpanda writes, and of each member

cdef dict TYPES = {}, KEYS = {}, VALUES = {}     # by key version; VALUES has lists by version
cdef dict SHARE_TYPES = {}, SHARE_KEYS = {}, SHARE_VALUES = {}   # of __share_group_state
cdef list REPLACED = []
cdef Layout REDPANDA
cdef Versions BY_KEY[MAX_KEYS]                  # VALUES, for `walk`; zeros at first

cdef str TOO_SHORT = "shorter than a version"
cdef str UNKNOWN = "unknown version"


def define(str name not None, section not None):
    """Make the layouts of a record of the table, at import or in a test.

    Layouts that a later call replaces stay alive, because compiled code may point to them. A
    section that replaces another must have its new fields after the old ones.
    """
    cdef int first = section.keys[0], last = section.keys[1], count = section.last + 1, n, v
    cdef list layouts
    if section.first != 0 or not 0 <= first <= last < MAX_KEYS or count > MAX_VERSIONS:
        raise ValueError(f"{name}: versions must be below {MAX_KEYS} for a key, and from 0 to at "
                         f"most {MAX_VERSIONS - 1} for a value")
    value = section.fields("value")
    if first == KEY_GROUP:
        with_member_versions(value)
    layouts = [struct_of(value, v, v >= section.flexible, 0) for v in range(count)]
    for n in range(first, last + 1):
        REPLACED.append(VALUES.get(n))
        TYPES[n], VALUES[n] = name, layouts
        KEYS[n] = struct_of(section.fields("key"), n, False, 0)
        for v in range(count):
            BY_KEY[n].plans[v] = &(<Layout>layouts[v]).plan
        BY_KEY[n].count = count


cdef int with_member_versions(list fields) except -1:
    """Give members a field that no version of Kafka's has, and make the layout that has it."""
    global REDPANDA
    cdef list members = dict([(row[0], row[8]) for row in fields])["members"]
    members.insert(0, ("version", "int16", 0, REDPANDA_VERSION, 1, 0, -1, None, []))
    REDPANDA = struct_of(fields, REDPANDA_VERSION, False, 0)
    members[0] = ("version", "int16", 1, 0, 1, 0, -1, None, [])
    return 0


cdef list protocol(section):
    """Make the layouts of a message of the consumer protocol."""
    fields = section.fields("message")
    return [struct_of(fields, version, False, 0) for version in range(section.last + 1)]


for _name, _section in SECTIONS.items():
    if "value" in _section.parts and _section.topic == OFFSETS_TOPIC:
        define(_name, _section)
    elif "value" in _section.parts:
        _version = _section.keys[0]
        SHARE_TYPES[_version] = _name
        SHARE_KEYS[_version] = struct_of(_section.fields("key"), 0, False, 0)
        SHARE_VALUES[_version] = [struct_of(_section.fields("value"), 0, True, 0)]
cdef list SUBSCRIPTIONS = protocol(SECTIONS["consumer_protocol_subscription"])
cdef list ASSIGNMENTS = protocol(SECTIONS["consumer_protocol_assignment"])


cdef const Versions* versions_of(int key_version) except NULL:
    """Return the layouts of a key version's values, which live as long as the module."""
    if key_version not in VALUES:
        raise ValueError(f"key version {key_version}")
    return &BY_KEY[key_version]


cdef Layout value_layout(int key_version):
    """Return a value's layout in the last version; its slots are those of all versions."""
    cdef list layouts = VALUES[key_version]
    return <Layout>layouts[len(layouts) - 1]


cdef Layout subscription_layout(int version):
    return <Layout>SUBSCRIPTIONS[version]


cdef int slot_of(Layout layout, str name) except -1:
    """Return the index of a field among the fields of all versions."""
    return list(layout.blank).index(name)


cdef int16_t read_version(Reading* r) except? -32768:
    cdef int16_t version
    if read_i16(&r.cur, &version) != OK:
        raise CorruptData(TOO_SHORT, kind="key" if r.source == KEY else "value", position=0)
    return version


cdef object read_version_of(Reading* r, list layouts, str name):
    """Read the fields of a value, which begins with its version, by the layouts of all versions."""
    cdef int16_t version = read_version(r)
    if not 0 <= version < len(layouts):
        raise CorruptData(f"{UNKNOWN} {version} of a {name} value", kind="value", position=0)
    return read_struct(r, <Layout>layouts[version])


cdef object read_value(Reading* r, object key_version):
    try:
        return read_version_of(r, <list>VALUES[key_version], TYPES[key_version])
    except CorruptData:
        group = redpanda_group(r) if key_version == KEY_GROUP else None
        if group is None:
            raise
        return group


cdef object redpanda_group(Reading* r):
    """Read group metadata in Redpanda's layout; None: the bytes do not fit it exactly."""
    if not fits_redpanda(r.start, r.cur.end - r.start, NULL, NULL):
        return None
    r.cur.at = r.start + 2
    return read_struct(r, REDPANDA)


cdef bint fits_redpanda(const uint8_t* value, Py_ssize_t size, Span* out,
                        Rows* rows) noexcept nogil:
    """Whether a value is group metadata in Redpanda's layout, to its last byte."""
    cdef Span unused[MAX_FIELDS]
    cdef Cursor cur
    cur.at, cur.end = value + 2, value + size
    return (size >= 2 and load_i16(value) == REDPANDA_VERSION
            and walk(&cur, &REDPANDA.plan, out if out != NULL else unused, rows) == OK
            and cur.at == cur.end)


cdef Status walk_group(const uint8_t* value, Py_ssize_t size, Span* out, Rows* rows) noexcept nogil:
    cdef Status status = walk_value(value, size, &BY_KEY[KEY_GROUP], out, rows)
    if status == OK:
        return OK
    if rows != NULL:
        rows.count = 0
    return OK if fits_redpanda(value, size, out, rows) else status


def is_redpandas(value):
    """Whether a group metadata value has Redpanda's layout, and not Kafka's."""
    cdef bytes data = bytes_of(value, "value")
    cdef Span spans[MAX_FIELDS]
    return (walk_value(data, len(data), &BY_KEY[KEY_GROUP], spans, NULL) != OK
            and fits_redpanda(data, len(data), NULL, NULL))


cdef tuple value_row(int key_version, bytes value):
    """Read a value of any version as a row: fields in the table's order, missing ones at their
    default."""
    cdef Reading r = reading(value, len(value), VALUE)
    r.rows = True
    return <tuple>read_value(&r, key_version)


def key_type(int version):
    """Return the type of a record by the version of its key; None: an unknown version."""
    return TYPES.get(version)


def decode_key(key):
    """Decode a record's key."""
    return key_message(bytes_of(key, "key"), KEYS, TYPES)


def decode_share_key(key):
    """Decode the key of a record of __share_group_state."""
    return key_message(bytes_of(key, "key"), SHARE_KEYS, SHARE_TYPES)


cdef dict key_message(bytes data, dict layouts, dict types):
    cdef Reading r = reading(data, len(data), KEY)
    r.tags = True
    cdef object version = read_version(&r)
    cdef Layout layout = layouts.get(version)
    if layout is None:
        return {"version": version, "raw": data, "error": UNKNOWN}
    return finish(&r, data, {"version": version, "type": types[version],
                             "data": read_struct(&r, layout)})


def decode_share_value(int key_version, value):
    """Decode the value of a record of __share_group_state."""
    if value is None:
        return None
    cdef bytes data = bytes_of(value, "value")
    cdef Reading r = reading(data, len(data), VALUE)
    r.tags = True
    fields = read_version_of(&r, SHARE_VALUES[key_version], SHARE_TYPES[key_version])
    return finish(&r, data, {"version": load_i16(r.start), "data": fields})


def decode_value(key_version, value, *, tags=True):
    """Decode a record's value; the version of its key decides its type."""
    if key_version is not None and type(key_version) is not int:
        key_version = int64_of(key_version, "key_version")
    if value is None:
        return None
    cdef bytes data = bytes_of(value, "value")
    cdef Reading r = reading(data, len(data), VALUE)
    cdef dict fields
    r.tags = flag_of(tags, "tags")
    if key_version not in VALUES:
        short = len(data) < 2
        return {"version": None if short else load_i16(r.start), "raw": data,
                "error": TOO_SHORT if short else UNKNOWN}
    fields = read_value(&r, key_version)
    if key_version == 2 and fields["protocolType"] == "consumer":
        for member in fields["members"]:
            decode_member(member)
    return finish(&r, data, {"version": load_i16(r.start), "data": fields})


cdef dict finish(Reading* r, bytes data, dict message):
    """Add the number of left-over bytes to a message, and `data` as `raw` unless it is None."""
    if remaining(&r.cur):
        message["trailing_bytes"] = remaining(&r.cur)
        if data is not None:
            message["raw"] = data
    return message


cdef int decode_member(dict member) except -1:
    """Add the decoded protocol to a member; bytes that cannot be decoded are no fault."""
    for name, layouts in (("subscription", SUBSCRIPTIONS), ("assignment", ASSIGNMENTS)):
        try:
            decoded = decode_protocol(member[name], layouts)
        except CorruptData as error:
            decoded = {"error": str(error)}
        member[name + "_decoded"] = decoded
    return 0


cdef dict decode_protocol(bytes data, list layouts):
    if not data:
        return None
    cdef Reading r = reading(data, len(data), VALUE)
    cdef int16_t version = read_version(&r)
    if version < 0:
        raise CorruptData(f"{UNKNOWN} {version} of the consumer protocol", kind="value")
    return finish(&r, None, {"version": version, "data": read_struct(
        &r, <Layout>layouts[min(version, len(layouts) - 1)])})


def decode_subscription(data):
    """Decode a member's subscription (consumer protocol 0-3; later versions as 3)."""
    return decode_protocol(bytes_of(data, "data"), SUBSCRIPTIONS)


def decode_assignment(data):
    """Decode a member's assignment; see ``decode_subscription``."""
    return decode_protocol(bytes_of(data, "data"), ASSIGNMENTS)


cdef object version_of(dict message, Py_ssize_t count):
    version = message.get("version")
    if not isinstance(version, int) or not 0 <= version < count:
        raise ArgumentError(f"version {shown(version)} is unknown")
    return version


cdef bytes write_message(int16_t version, Layout layout, dict message):
    cdef Writing w
    if "data" not in message:
        raise ArgumentError("data is missing")
    begin(&w)
    w.record = True
    try:
        put_i16(&w, version)
        write_struct(&w, layout, message["data"], "data")
        return written(&w)
    finally:
        end(&w)


def encode_key(key):
    """Encode a record's key from ``version`` and ``data``."""
    cdef dict message = dict_of(key, "key")
    if "raw" in message:
        return bytes_of(message["raw"], "raw")
    version = version_of(message, MAX_KEYS)
    if version not in KEYS:
        raise ArgumentError(f"version {version} is unknown")
    return write_message(version, <Layout>KEYS[version], message)


def encode_value(key_version, value):
    """Encode a record's value from ``version`` and ``data``; None, a tombstone, gives None."""
    cdef object of_key = int64_or_none(key_version, "key_version")
    if value is None:
        return None
    cdef dict message = dict_of(value, "value")
    if "raw" in message:
        return bytes_of(message["raw"], "raw")
    cdef list layouts = VALUES.get(of_key, [])
    version = version_of(message, len(layouts))
    return write_message(version, <Layout>layouts[version], message)


cdef bytes encode_protocol(object value, str name, list layouts):
    if value is None:
        return b""
    cdef dict message = dict_of(value, name)
    version = version_of(message, 32768)
    return write_message(version, <Layout>layouts[min(version, len(layouts) - 1)], message)


def encode_subscription(subscription):
    """Encode a member's subscription from ``version`` and ``data``; None gives no bytes."""
    return encode_protocol(subscription, "subscription", SUBSCRIPTIONS)


def encode_assignment(assignment):
    """Encode a member's assignment from ``version`` and ``data``; None gives no bytes."""
    return encode_protocol(assignment, "assignment", ASSIGNMENTS)


# ---- the topics that a group's consumers subscribe to, as Kafka's coordinator reads them ---------
# Reads only the topics of a subscription, with version 0's layout, by `walk`. Knows no group and no
# member. Cost: a text for each topic. Sources: GroupMetadata.computeSubscribedTopics,
# ConsumerProtocol.java.
# Rules: docs/rules/coordinator.md#protocols.

cdef Layout VERSION_0 = subscription_layout(0)
cdef int TOPICS = slot_of(VERSION_0, "topics")


cdef Readable read_topics(bytes metadata, set topics) except *:
    """Add the topics of a subscription, read with version 0's layout whatever its version.

    If the bytes end inside a number, Kafka catches its exception: CUT_SHORT. If a string or an
    array is null, or longer than the rest, Kafka does not: UNREADABLE.
    """
    cdef Span fields[MAX_FIELDS]
    cdef Rows rows = [TOPICS, 0, 0, 0, False, NULL]
    cdef int16_t version
    cdef Cursor cur
    cdef Status status
    cdef int i
    cur.at, cur.end = <const unsigned char*>metadata, <const unsigned char*>metadata + len(metadata)
    if read_i16(&cur, &version) != OK or version < 0:
        return CUT_SHORT
    status = walk(&cur, &VERSION_0.plan, fields, &rows)
    try:
        if rows.failed:
            raise MemoryError
        if status != OK:
            return CUT_SHORT if status == TRUNCATED else UNREADABLE
        for i in range(rows.count):
            topics.add(read_text(rows.spans[i].at, rows.spans[i].size))
        return READ
    finally:
        free(rows.spans)


def consumer_topics(subscriptions not None, str protocol):
    """Return the topics that a group of protocol type ``consumer`` subscribes to."""
    cdef bytes subscription
    cdef set topics = set()
    if not subscriptions:
        return frozenset()
    if protocol is None:
        return None
    for subscription in subscriptions:
        if read_topics(subscription, topics) != READ:
            return None
    return frozenset(topics)


# ---- group value ---------------------------------------------------------------------------------
# A group metadata value as Kafka's loader reads it: what a missing, empty or null field means. The
# load of a log and the replay both use it, so they agree. Knows one value; knows no earlier ones
# and no clock. Cost: a named tuple for each member.
# Source: GroupMetadataManager.readGroupMessageValue, GroupMetadata.loadGroup. Rules:
# docs/rules/offsets.md#load.

GroupValue = namedtuple(
    "GroupValue", "protocol_type generation protocol leader current_state_timestamp members",
    module=__name__)
GroupValue.__doc__ = """A group; an empty protocol type is None."""
MemberValue = namedtuple(
    "MemberValue",
    "member_id group_instance_id client_id client_host session_timeout_ms rebalance_timeout_ms "
    "subscription assignment", module=__name__)
MemberValue.__doc__ = """A member of a group."""


def read_group_value(bytes value not None):
    """Decode a group metadata value of any known version."""
    cdef tuple row = value_row(KEY_GROUP, value)
    cdef bint one_timeout = load_i16(value) == 0
    protocol_type, generation, protocol, leader, timestamp_ms, rows = row[:6]
    members = [member_value(member, one_timeout) for member in rows]
    if leader is None and members:
        leader = members[0].member_id
    return GroupValue(protocol_type or None, generation, protocol, leader, timestamp_ms, members)


cdef object member_value(tuple row, bint one_timeout):
    _, member_id, instance_id, client_id, client_host, rebalance_ms, session_ms = row[:7]
    return MemberValue(
        member_id, instance_id, client_id, client_host, session_ms,
        session_ms if one_timeout else rebalance_ms, row[7], row[8])
