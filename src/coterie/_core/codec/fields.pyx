"""The messages of ``__consumer_offsets`` as tables of fields, one table for all versions of each.

A field is (name, type[, since[, until]]) or (name, type, {options}). Types: a name of ``OPS``,
``[type]`` for an array, a tuple of fields for a struct; "?" after a name: may be null. Options:
tag, default, always. Names and order are those of Kafka's JSON, whose converters print them.
A new version of a value: its fields, and the last version in RECORDS. All readers follow.
Facts: group-coordinator/src/main/resources/common/message/*.json of Kafka 3.9 and 4.1.
"""

from libc.stdlib cimport calloc, free
from libc.string cimport memset

from coterie._core.codec.walk cimport (
    ARRAY, BYTES, INT8, INT16, INT32, INT64, MOST_FIELDS, MOST_VERSIONS, STRING, STRUCT, UINT16,
    UUID)

OPS = {"int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "int64": INT64,
       "uuid": UUID, "string": STRING, "bytes": BYTES}
WIDTHS = {INT8: 1, INT16: 2, UINT16: 2, INT32: 4, INT64: 8, UUID: 16}       # bytes

# Consumer protocol: inside the members of a group of protocol type "consumer".
OWNED = (("topic", "string"), ("partitions", ["int32"]))
SUBSCRIPTION = (("topics", ["string"]), ("userData?", "bytes"), ("ownedPartitions", [OWNED], 1),
                ("generationId", "int32", 2), ("rackId?", "string", 3))
ASSIGNMENT = (("assignedPartitions", [OWNED]), ("userData?", "bytes"))

OFFSET_COMMIT = (
    ("offset", "int64"), ("leaderEpoch", "int32", 3), ("metadata", "string"),
    ("commitTimestamp", "int64"), ("expireTimestamp", "int64", 1, 1))

MEMBER = (
    ("memberId", "string"), ("groupInstanceId?", "string", 3), ("clientId", "string"),
    ("clientHost", "string"), ("rebalanceTimeout", "int32", 1), ("sessionTimeout", "int32"),
    ("subscription", "bytes"), ("assignment", "bytes"))
GROUP_METADATA = (
    ("protocolType", "string"), ("generation", "int32"), ("protocol?", "string"),
    ("leader?", "string"), ("currentStateTimestamp", "int64", 2), ("members", [MEMBER]))

PARTITIONS_OF_ID = (("topicId", "uuid"), ("partitions", ["int32"]))
PARTITION_METADATA = (("topics", [(
    ("topicId", "uuid"), ("topicName", "string"), ("numPartitions", "int32"),
    ("partitionMetadata", [(("partition", "int32"), ("racks", ["string"]))]))]),)
CLASSIC_MEMBER = (
    ("sessionTimeoutMs", "int32"),
    ("supportedProtocols", [(("name", "string"), ("metadata", "bytes"))]))
CONSUMER_MEMBER = (
    ("instanceId?", "string"), ("rackId?", "string"), ("clientId", "string"),
    ("clientHost", "string"), ("subscribedTopicNames", ["string"]),
    ("subscribedTopicRegex?", "string"), ("rebalanceTimeoutMs", "int32"),
    ("serverAssignor?", "string"),
    ("classicMemberMetadata?", CLASSIC_MEMBER, {"tag": 0, "default": None, "always": True}))
ASSIGNMENT_EPOCH = (("assignmentEpoch", "int32"),)
TARGET_ASSIGNMENT = (("topicPartitions", [PARTITIONS_OF_ID]),)
CURRENT_ASSIGNMENT = (
    ("memberEpoch", "int32"), ("previousMemberEpoch", "int32"), ("state", "int8"),
    ("assignedPartitions", [PARTITIONS_OF_ID]))
EPOCH_AND_HASH = (("epoch", "int32"), ("metadataHash", "int64"))
SHARE_TOPIC = (("topicId", "uuid"), ("topicName", "string"))
SHARE_PARTITIONS = SHARE_TOPIC + (("partitions", ["int32"]),)

TASKS = [(("subtopologyId", "string"), ("partitions", ["int32"]))]
ALL_TASKS = (("activeTasks", TASKS), ("standbyTasks", TASKS), ("warmupTasks", TASKS))
REVOKED_TASKS = tuple([(name + "PendingRevocation", tasks) for name, tasks in ALL_TASKS])
KEY_VALUES = [(("key", "string"), ("value", "string"))]
TOPIC_INFO = (("name", "string"), ("partitions", "int32"), ("replicationFactor", "int16"),
              ("topicConfigs", KEY_VALUES))
# Numbers of topics in the lists of the subtopology.
COPARTITION_GROUP = (("sourceTopics", ["int16"]), ("sourceTopicRegex", ["int16"]),
                     ("repartitionSourceTopics", ["int16"]))
STREAMS_MEMBER = (
    ("instanceId?", "string"), ("rackId?", "string"), ("clientId", "string"),
    ("clientHost", "string"), ("rebalanceTimeoutMs", "int32"), ("topologyEpoch", "int32"),
    ("processId", "string"), ("userEndpoint?", (("host", "string"), ("port", "uint16"))),
    ("clientTags", KEY_VALUES))
TOPOLOGY = (("epoch", "int32"), ("subtopologies", [(
    ("subtopologyId", "string"), ("sourceTopics", ["string"]), ("sourceTopicRegex", ["string"]),
    ("stateChangelogTopics", [TOPIC_INFO]), ("repartitionSinkTopics", ["string"]),
    ("repartitionSourceTopics", [TOPIC_INFO]), ("copartitionGroups", [COPARTITION_GROUP]))]))

GROUP = (("groupId", "string"),)
GROUP_AND_MEMBER = GROUP + (("memberId", "string"),)
OFFSET_KEY = (("group", "string"), ("topic", "string"), ("partition", "int32"))

# Key version -> (type, key, value, last value version, first flexible value version).
RECORDS = {
    0: ("offset_commit", OFFSET_KEY, OFFSET_COMMIT, 4, 4),
    1: ("offset_commit", OFFSET_KEY, OFFSET_COMMIT, 4, 4),
    2: ("group_metadata", (("group", "string"),), GROUP_METADATA, 4, 4),
    3: ("consumer_group_metadata", GROUP,
        (("epoch", "int32"), ("metadataHash", "int64", {"tag": 0, "default": 0})), 0, 0),
    4: ("consumer_group_partition_metadata", GROUP, PARTITION_METADATA, 0, 0),
    5: ("consumer_group_member_metadata", GROUP_AND_MEMBER, CONSUMER_MEMBER, 0, 0),
    6: ("consumer_group_target_assignment_metadata", GROUP, ASSIGNMENT_EPOCH, 0, 0),
    7: ("consumer_group_target_assignment_member", GROUP_AND_MEMBER, TARGET_ASSIGNMENT, 0, 0),
    8: ("consumer_group_current_member_assignment", GROUP_AND_MEMBER,
        CURRENT_ASSIGNMENT + (("partitionsPendingRevocation", [PARTITIONS_OF_ID]),), 0, 0),
    9: ("share_group_partition_metadata", GROUP, PARTITION_METADATA, 0, 0),
    10: ("share_group_member_metadata", GROUP_AND_MEMBER,
         (("rackId?", "string"), ("clientId", "string"), ("clientHost", "string"),
          ("subscribedTopicNames", ["string"])), 0, 0),
    11: ("share_group_metadata", GROUP, EPOCH_AND_HASH, 0, 0),
    12: ("share_group_target_assignment_metadata", GROUP, ASSIGNMENT_EPOCH, 0, 0),
    13: ("share_group_target_assignment_member", GROUP_AND_MEMBER, TARGET_ASSIGNMENT, 0, 0),
    14: ("share_group_current_member_assignment", GROUP_AND_MEMBER, CURRENT_ASSIGNMENT, 0, 0),
    15: ("share_group_state_partition_metadata", GROUP,
         (("initializingTopics", [SHARE_PARTITIONS]), ("initializedTopics", [SHARE_PARTITIONS]),
          ("deletingTopics", [SHARE_TOPIC])), 0, 0),
    16: ("consumer_group_regular_expression", GROUP + (("regularExpression", "string"),),
         (("topics", ["string"]), ("version", "int64"), ("timestamp", "int64")), 0, 0),
    17: ("streams_group_metadata", GROUP, EPOCH_AND_HASH, 0, 0),
    19: ("streams_group_member_metadata", GROUP_AND_MEMBER, STREAMS_MEMBER, 0, 0),
    20: ("streams_group_target_assignment_metadata", GROUP, ASSIGNMENT_EPOCH, 0, 0),
    21: ("streams_group_target_assignment_member", GROUP_AND_MEMBER, ALL_TASKS, 0, 0),
    22: ("streams_group_current_member_assignment", GROUP_AND_MEMBER,
         (("memberEpoch", "int32"), ("previousMemberEpoch", "int32"), ("state", "int8"))
         + ALL_TASKS + REVOKED_TASKS, 0, 0),
    23: ("streams_group_topology", GROUP, TOPOLOGY, 0, 0),
}

cdef enum:
    LAST_KEY = 23                 # of RECORDS


cdef class Field:
    pass


cdef class Layout:
    def __dealloc__(self):
        free(self.plan.steps)


cdef Field field_of(str name, kind, int version, bint flexible):
    cdef Field field = Field.__new__(Field)
    field.name = name.rstrip("?")
    field.nullable = name.endswith("?")
    field.tag = -1
    if isinstance(kind, list):
        field.op = ARRAY
        field.item = field_of(field.name, kind[0], version, flexible)
        field.layout = field.item.layout if field.item.op == STRUCT else alone(field.item, flexible)
    elif isinstance(kind, tuple):
        field.op = STRUCT
        field.layout = layout_of(kind, version, flexible)
    else:
        field.op = OPS[kind]
    return field


cdef Layout alone(Field field, bint flexible):
    """A field without a struct around it, as an array has it."""
    cdef Layout layout = Layout.__new__(Layout)
    layout.fields, layout.tagged = [field], []
    layout.flexible = flexible
    make_plan(layout, {field.name: 0}, False)
    return layout


cdef Layout layout_of(tuple table, int version, bint flexible):
    """The fields that one version has. Cost: a walk of the table; done at import."""
    cdef Layout layout = Layout.__new__(Layout)
    cdef Field field
    layout.fields = []
    layout.tagged = []
    layout.flexible = flexible
    for name, kind, *rest in table:
        if rest and isinstance(rest[0], dict):
            field = field_of(name, kind, version, flexible)
            field.tag = rest[0]["tag"]
            field.default = rest[0]["default"]
            field.always = rest[0].get("always", False)
            layout.tagged.append(field)
        elif (rest[0] if rest else 0) <= version <= (rest[1] if len(rest) > 1 else version):
            layout.fields.append(field_of(name, kind, version, flexible))
    make_plan(layout, {row[0].rstrip("?"): slot for slot, row in enumerate(table)}, flexible)
    return layout


cdef int make_plan(Layout layout, dict slots, bint tagged) except -1:
    """What `walk` reads of a layout, which keeps the layouts that the steps point into."""
    cdef list fields = layout.fields + layout.tagged
    cdef Field field
    cdef Step* step
    cdef Py_ssize_t i
    if len(slots) > MOST_FIELDS:
        raise ValueError(f"a struct of {len(slots)} fields: `walk` has room for {MOST_FIELDS}")
    layout.plan.steps = <Step*>calloc(len(fields) + 1, sizeof(Step))
    if layout.plan.steps == NULL:
        raise MemoryError
    layout.plan.count, layout.plan.tagged_count = len(layout.fields), len(layout.tagged)
    layout.plan.slots = len(slots)
    layout.plan.flexible, layout.plan.tagged = layout.flexible, tagged
    for i in range(len(fields)):
        field = <Field?>fields[i]
        step = &field.step
        step.op, step.nullable, step.tag = field.op, field.nullable, field.tag
        step.width = WIDTHS.get(field.op, 0)
        step.slot = slots[field.name]
        step.inner = NULL if field.layout is None else &field.layout.plan
        layout.plan.steps[i] = step[0]
    return 0


# Key version -> its layout; a list of those of its values; the same for `walk`.
KEYS, VALUES = {}, {}
REPLACED = []
cdef Versions BY_KEY[1 + LAST_KEY]
memset(BY_KEY, 0, sizeof(BY_KEY))


def define(version, *, tuple key not None, tuple value not None, last, flexible):
    """Make the layouts of one key version, as a row of RECORDS has them.

    Done at import, for each row. What was made of an earlier row is kept, as whoever walks may
    hold it; a row that replaces one has its new fields after the old ones.
    """
    cdef list layouts
    cdef Py_ssize_t v
    if not 0 <= version <= LAST_KEY or not 0 <= last < MOST_VERSIONS:
        raise ValueError(f"key version {version}, value versions up to {last}: there is room up "
                         f"to {LAST_KEY} and {MOST_VERSIONS - 1}")
    layouts = [layout_of(value, v, v >= flexible) for v in range(last + 1)]
    REPLACED.append(VALUES.get(version))
    KEYS[version] = layout_of(key, version, False)
    VALUES[version] = layouts
    for v in range(len(layouts)):
        BY_KEY[version].plans[v] = plan_of(layouts[v])
    BY_KEY[version].count = len(layouts)


cdef const Versions* versions_of(int key_version) except NULL:
    """The values of a key version; there for as long as the module, whatever is defined anew."""
    if not 0 <= key_version <= LAST_KEY:
        raise ValueError(f"key version {key_version}")
    return &BY_KEY[key_version]


cdef const Plan* plan_of(Layout layout) noexcept:
    return &layout.plan


cdef int slot_of(tuple table, str name) except -1:
    """The number of a field among those of a table."""
    return [row[0].rstrip("?") for row in table].index(name)


TYPES = {version: record[0] for version, record in RECORDS.items()}
for _version, (_, _key, _value, _last, _flexible) in RECORDS.items():
    define(_version, key=_key, value=_value, last=_last, flexible=_flexible)
SUBSCRIPTIONS = [layout_of(SUBSCRIPTION, version, False) for version in range(4)]
ASSIGNMENTS = [layout_of(ASSIGNMENT, version, False) for version in range(4)]
