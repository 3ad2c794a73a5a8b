"""Each kind of field has its own bounds and forms, which a request's field and its entries have.

The sizes of numbers are those of Kafka's protocol (JoinGroupRequest.json and the others).
"""

import pytest

from coterie import ArgumentError, Error, GroupCoordinator, OffsetAndMetadata
from coterie.base.operations import ABSENT, OPERATIONS
from coterie.coordinator import fields
from coterie.coordinator.fields import MemberOf
from coterie.coordinator.requests import OPS, compile_request, compile_values

BITS = {
    "generation_id": 32, "session_timeout_ms": 32, "rebalance_timeout_ms": 32, "producer_id": 64,
    "producer_epoch": 16, "member_epoch": 32, "version": 16, "retention_time_ms": 64,
}  # fmt: skip
OF_ENTRIES = {"partition": 32, "offset": 64, "leader_epoch": 32, "expire_timestamp": 64}
OF_VALUES = {"offset": 64, "leader_epoch": 32, "commit_timestamp": 64, "expire_timestamp": 64}
REQUIRED = {"protocol_type": "consumer", "client_id": "", "client_host": "", "producer_id": 1,
            "producer_epoch": 0, "session_timeout_ms": 1, "rebalance_timeout_ms": 1}  # fmt: skip
TOPIC_ID = "AAAAAAAAQACAAAAAAAAAAQ"


def compiled(op, **fields):
    """A request with the fields that it needs, and these."""
    names = {field.name for field in OPERATIONS[op].fields if field.default is ABSENT}
    return compile_request(op, {n: v for n, v in REQUIRED.items() if n in names} | fields)


def check_bits(read, bits):
    """Values at and beyond the bounds of a signed number; those of fewer bits are there, too."""
    edge = 1 << bits - 1
    for value in (edge - 1, -edge, 2**15 - 1, -(2**15), 0):
        assert value in read(value)
    for wrong in (edge, -edge - 1, 1.5, "5", True):
        with pytest.raises(ArgumentError):
            read(wrong)


def flat(row):
    """All values of a request, also those in tuples."""
    for value in row:
        if isinstance(value, tuple):
            yield from flat(value)
        else:
            yield value


@pytest.mark.parametrize("name", BITS)
def test_a_number_has_the_size_of_kafkas_protocol(name):
    ops = [op for op in OPS for field in OPERATIONS[op].fields if field.name == name]
    assert ops
    for op in ops:
        check_bits(lambda value, op=op: [*flat(compiled(op, **{name: value}))], BITS[name])


@pytest.mark.parametrize("name", OF_ENTRIES)
def test_a_number_of_a_commits_entry_has_its_size(name):
    entry = {"topic": "t", "partition": 1, "offset": 5}
    check_bits(
        lambda value: [*flat(compiled("offset_commit", offsets=[entry | {name: value}]))],
        OF_ENTRIES[name],
    )


@pytest.mark.parametrize("name", OF_VALUES)
def test_a_number_of_a_committed_value_has_its_size(name):
    def read(value):
        row = compile_values("offset_commit", ("g", -1, "", None, {("t", 1): value}, 9, -1))
        return [*row[-1][0][0]]

    fields = {"offset": 5, "leader_epoch": 2, "metadata": "m"}
    check_bits(lambda value: read(OffsetAndMetadata(**fields | {name: value})), OF_VALUES[name])
    check_bits(read, 64)
    unset = read(OffsetAndMetadata(5, 2, "m", commit_timestamp=-1))
    assert unset == [("t", 1), 5, 2, "m", None, -1]  # -1 is the time of the commit


def test_a_value_without_some_fields_has_their_defaults():
    rows = {
        "entry": compiled("offset_commit", offsets=[{"topic": "t", "partition": 1, "offset": 5}]),
        "value": compile_values(
            "offset_commit", ("g", -1, "", None, {("t", 1): OffsetAndMetadata(5)}, 9, -1)
        ),
        "nothing": compile_values(
            "offset_commit",
            ("g", -1, "", None, {("t", 1): OffsetAndMetadata(5, None, None, None, None)}, 9, -1),
        ),
        "number": compile_values("offset_commit", ("g", -1, "", None, {("t", 1): 5}, 9, -1)),
    }
    for row in rows.values():
        assert row[-1][0] == ((("t", 1), 5, -1, "", None, -1),)


def test_a_reference_to_an_answer_is_a_long_and_excludes_an_id():
    for number in (0, 5, 2**63 - 1):
        reference = compiled("heartbeat", group_id="g", member_id_of=number)[2]
        assert isinstance(reference, MemberOf)
        assert reference.request_id == number
    with pytest.raises(ArgumentError, match="member_id_of must fit 64 bits"):
        compiled("heartbeat", member_id_of=2**63)
    with pytest.raises(ArgumentError, match="exclude each other"):
        compiled("heartbeat", member_id="m", member_id_of=5)


@pytest.mark.parametrize("wrong", ["AA!E=", "AAE", "é", 5, ["AAE="], None])
def test_bytes_are_bytes_or_base64(wrong):
    forms = [b"\0\1", bytearray(b"\0\1"), memoryview(b"\0\1"), "AAE="]
    for given in forms:
        row = compiled("join_group", protocols=[{"name": "range", "metadata": given}])
        assert row[-1][1] == (("range", b"\0\1"),)
    with pytest.raises(ArgumentError, match="metadata"):
        compiled("join_group", protocols=[{"name": "range", "metadata": wrong}])


def test_lists_of_protocols_members_and_partitions_have_several_forms():
    pairs = (("range", b"r"), ("sticky", b"s"))
    for protocols in (dict(pairs), [*pairs], [{"name": n, "metadata": m} for n, m in pairs]):
        assert compiled("join_group", protocols=protocols)[-1][1] == pairs
    assert compiled("leave_group", members=[
        "a", ("b", "i"), ("c", None), {"member_id": "d", "group_instance_id": "j"},
    ])[-1] == (("a", None), ("b", "i"), ("c", None), ("d", "j"))  # fmt: skip
    parts = (("t", 1), ("u", 0))
    for partitions in ([*parts], [{"topic": t, "partition": n} for t, n in parts]):
        assert compiled("offset_delete", partitions=partitions)[-1] == parts
    for topics in ({"t": [1, 2], "u": [0]}, [{"topic": "t", "partitions": [1, 2]},
                                             {"topic": "u", "partitions": [0]}]):  # fmt: skip
        assert compiled("offset_fetch", topics=topics)[-1][0] == (("t", 1), ("t", 2), ("u", 0))
    assert compiled("offset_fetch")[-1][0] is None
    plans = {"a": b"1", "b": b"2"}
    for given in (plans, [{"member_id": m, "assignment": data} for m, data in plans.items()]):
        assert compiled("sync_group", assignments=given)[-1][2] == plans


@pytest.mark.parametrize(
    ("op", "fields", "named"),
    [
        ("join_group", {"protocols": [{"name": "r", "topics": ["t"], "metadata": b"x"}]}, "exclud"),
        ("join_group", {"protocols": [{"name": "r", "topics": "t"}]}, "topics must be a list of"),
        ("join_group", {"protocols": [("r", b"x", 5)]}, "protocols must be a list of objects"),
        ("join_group", {"protocols": [{"metadata": b"x"}]}, "needs name, a string"),
        ("sync_group", {"assignments": [{"member_id": "m", "assigned": {"t": [0]},
                                         "assignment": b"x"}]}, "exclude each other"),
        ("sync_group", {"assignments": [{"member_id": "m", "assigned": ["t"]}]}, "assigned must"),
        ("sync_group", {"assignments": [{"member_id": "m", "assigned": {"t": [2**31]}}]}, "partit"),
        ("offset_commit", {"offsets": [{"topic": "t", "offset": 5}]}, "needs partition, an int"),
        ("offset_commit", {"offsets": {"t": 5}}, "offsets must be"),
        ("offset_commit", {"offsets": {("t", 0, 1): 5}}, "offsets must be"),
        ("fail_append", {"error": "NOPE", "count": 1}, "error must be the name of one of Kafka's"),
        ("fail_append", {"error": 1000, "count": 1}, "error must be one of Kafka's errors"),
        ("fail_append", {"error": "NONE", "count": -1}, "count must not be negative, not -1"),
        ("fail_append", {"error": "NONE", "count": 2**63}, "count must fit 64 bits"),
        ("metadata", {"topics": [{"topic": "t", "topic_id": TOPIC_ID, "partitions": -1}]},
         "a topic cannot have -1 partitions"),
        ("metadata", {"topics": [{"topic": "t", "topic_id": TOPIC_ID, "partitions": 2,
                                  "replicas": [[1]]}]}, "those of 2 partitions, not 1"),
        ("metadata", {"topics": [{"topic": "t", "topic_id": b"x" * 15, "partitions": 1}]},
         "topic_id must be"),
        ("metadata", {"topics": [{"topic": "t", "topic_id": "x", "partitions": 1}]}, "16 bytes or"),
        ("group_config", {"group_id": "g", "config": {"consumer.x": 5}},
         "'consumer.x' is no setting of a group"),
        ("consumer_group_heartbeat", {"topic_partitions": [{"topic_id": TOPIC_ID,
                                                            "partitions": [2**31]}]}, "partition"),
    ],
)  # fmt: skip
def test_a_form_that_no_field_has_is_refused_by_the_operation_and_the_field(op, fields, named):
    with pytest.raises(ArgumentError, match=f"^{op}: .*{named}"):
        compiled(op, **fields)


def test_topics_of_a_cluster_have_replicas_on_four_brokers_unless_named():
    def replicas(**fields):
        topic = {"topic": "t", "topic_id": TOPIC_ID} | fields
        ((name, raw, rows),) = compiled("metadata", topics=[topic])[-1][2]
        assert (name, len(raw)) == ("t", 16)
        return rows

    assert replicas(partitions=1) == [[0, 1]]
    assert replicas(partitions=5) == [[0, 1], [1, 2], [2, 3], [3, 0], [0, 1]]
    assert replicas(partitions=2, replicas=[[7], [8, 9]]) == [[7], [8, 9]]
    brokers = compiled("metadata", brokers=[{"id": 2, "rack": "r"}, {"id": 3}])[-1][0]
    assert brokers == ((2, "r"), (3, None))


def test_no_append_fails_of_a_count_of_none():
    coordinator = GroupCoordinator()
    coordinator.fail_append("NOT_ENOUGH_REPLICAS", 3)
    coordinator.fail_append("NOT_ENOUGH_REPLICAS", 0)  # replaces the one before
    answer = coordinator.offset_commit("g", {("t", 0): 5}).response
    assert answer.partitions[0].error is Error.NONE
    coordinator.fail_append(Error.NOT_ENOUGH_REPLICAS, 2)
    answers = [coordinator.offset_commit("g", {("t", 0): 5}).response for _ in range(3)]
    assert [one.partitions[0].error.name for one in answers] == [
        "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE", "NONE",
    ]  # fmt: skip


def test_bytes_and_metadata_have_the_largest_length_of_an_int32_at_most(monkeypatch):
    """A shorter bound stands for it: no test has texts of 2 GiB."""
    monkeypatch.setattr(fields, "_MOST_BYTES", 5)
    value = OffsetAndMetadata(1, metadata="x" * 5)
    compiled("join_group", protocols={"range": b"x" * 5})
    compiled("offset_commit", offsets={("t", 0): value})
    with pytest.raises(ArgumentError, match="metadata must have at most 5 bytes, not 6"):
        compiled("join_group", protocols={"range": b"x" * 6})
    with pytest.raises(ArgumentError, match="metadata must have at most 5 bytes"):
        compiled("offset_commit", offsets={("t", 0): OffsetAndMetadata(1, metadata="x" * 6)})
