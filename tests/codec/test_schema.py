"""Keys and values: bytes of Kafka's own classes and records, every version both ways.

Rules: docs/rules/log-format.md#keys.
"""

import base64
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import scan
from coterie._core.codec.batch import LogReader
from coterie._core.codec.schema import (
    decode_assignment,
    decode_key,
    decode_subscription,
    decode_value,
    encode_assignment,
    encode_key,
    encode_subscription,
    encode_value,
)
from coterie.errors import CorruptData, CoterieError
from support import golden_data, log_writer, messages
from support.examples import examples

COMMIT = {"offset": 100, "metadata": "md", "commitTimestamp": 1000}
EMPTY_GROUP = {
    "protocolType": "consumer",
    "generation": 3,
    "protocol": None,
    "leader": None,
    "members": [],
}
MEMBER = {
    "memberId": "m1",
    "groupInstanceId": "i1",
    "clientId": "c",
    "clientHost": "/h",
    "rebalanceTimeout": 7,
    "sessionTimeout": 9,
    "subscription": b"\x01",
    "assignment": b"\x02\x03",
}
ONE_MEMBER = EMPTY_GROUP | {
    "protocol": "range",
    "leader": "m1",
    "currentStateTimestamp": 1234,
    "members": [MEMBER],
}
UUID_BYTES, UUID = "0000000000000001 0000000000000001", "AAAAAAAAAAEAAAAAAAAAAQ"
SPECIFIED_KEYS = [
    ("0001 0001 67 0001 74 00000003", 1, {"group": "g", "topic": "t", "partition": 3}),
    ("0002 0001 67", 2, {"group": "g"}),
]
SPECIFIED_VALUES = [
    (1, "0000 0000000000000064 0002 6d64 00000000000003e8", COMMIT),
    (
        1,
        "0001 0000000000000064 0002 6d64 00000000000003e8 00000000000007d0",
        COMMIT | {"expireTimestamp": 2000},
    ),
    (1, "0002 0000000000000064 0002 6d64 00000000000003e8", COMMIT),
    (
        1,
        "0003 0000000000000064 00000005 0002 6d64 00000000000003e8",
        COMMIT | {"leaderEpoch": 5},
    ),
    (1, "0004 0000000000000064 00000005 03 6d64 00000000000003e8 00", COMMIT | {"leaderEpoch": 5}),
    (
        1,
        f"0004 0000000000000064 00000005 03 6d64 00000000000003e8 01 00 10 {UUID_BYTES}",
        COMMIT | {"leaderEpoch": 5, "topicId": UUID},
    ),
    (2, "0000 0008 636f6e73756d6572 00000003 ffff ffff 00000000", EMPTY_GROUP),
    (
        2,
        "0003 0008 636f6e73756d6572 00000003 ffff ffff 00000000000004d2 00000000",
        EMPTY_GROUP | {"currentStateTimestamp": 1234},
    ),
    (
        2,
        "0004 09 636f6e73756d6572 00000003 00 00 00000000000004d2 01 00",
        EMPTY_GROUP | {"currentStateTimestamp": 1234},
    ),
    (
        2,
        "0003 0008 636f6e73756d6572 00000003 0005 72616e6765 0002 6d31 00000000000004d2 00000001"
        "0002 6d31 0002 6931 0001 63 0002 2f68 00000007 00000009 00000001 01 00000002 0203",
        ONE_MEMBER,
    ),
    (
        2,
        "0004 09 636f6e73756d6572 00000003 06 72616e6765 03 6d31 00000000000004d2 02"
        "03 6d31 03 6931 02 63 03 2f68 00000007 00000009 02 01 03 0203 00 00",
        ONE_MEMBER,
    ),
]


TOPIC = {"topicId": UUID, "partitions": [1, 0]}
TASKS = {"subtopologyId": "0", "partitions": [1, 0]}
EPOCHS = {"assignmentEpochs": [5, 7]}
EPOCHS_TAG = "01 00 09 03 00000005 00000007"  # one tag: 0, of 9 bytes: two int32
MEMBER_EPOCHS = {"memberEpoch": 7, "previousMemberEpoch": 6, "state": 0}
MEMBER_HEAD = "0000 00000007 00000006 00"
NO_TASKS = {
    f"{kind}Tasks{pending}": []
    for pending in ("", "PendingRevocation")
    for kind in ("active", "standby", "warmup")
}
SPECIFIED_VALUES += [  # tagged fields of Kafka 4.1 to 4.4
    *(
        (version, "0000 00000007 01 00 08 00000199c82d9c00", {
            "assignmentEpoch": 7, "assignmentTimestamp": 1_760_000_056_320,
        })
        for version in (6, 12, 20)
    ),
    (
        8,
        f"{MEMBER_HEAD} 02 {UUID_BYTES} 03 00000001 00000000 {EPOCHS_TAG} "
        f"02 {UUID_BYTES} 03 00000001 00000000 01 00 01 00 00",
        MEMBER_EPOCHS | {
            "assignedPartitions": [TOPIC | EPOCHS],
            "partitionsPendingRevocation": [TOPIC | {"assignmentEpochs": None}],
        },
    ),
    (
        22,
        f"{MEMBER_HEAD} 02 0230 03 00000001 00000000 {EPOCHS_TAG} 01 01 01 01 01 00",
        MEMBER_EPOCHS | NO_TASKS | {"activeTasks": [TASKS | EPOCHS]},
    ),
    (
        17,
        "0000 00000007 0000000000000009 04 00 04 00000002 01 09 02 026b 0576616c75 00 "
        "02 04 fffffffe 03 04 00000003",
        {
            "epoch": 7, "metadataHash": 9, "validatedTopologyEpoch": 2,
            "lastAssignmentConfigs": [{"key": "k", "value": "valu"}],
            "storedDescriptionTopologyEpoch": -2, "failedDescriptionTopologyEpoch": 3,
        },
    ),
]  # fmt: skip


def without_decoded(data):
    members = [
        {name: v for name, v in member.items() if not name.endswith("_decoded")}
        for member in data.get("members", [])
    ]
    return data | {"members": members} if "members" in data else data


@pytest.mark.parametrize(("hexed", "version", "data"), SPECIFIED_KEYS)
def test_keys_of_the_specification(hexed, version, data):
    raw = bytes.fromhex(hexed)
    key = decode_key(raw)
    assert (key["version"], key["data"]) == (version, data)
    assert encode_key(key) == raw


@pytest.mark.parametrize(("key_version", "hexed", "data"), SPECIFIED_VALUES)
def test_values_of_the_specification(key_version, hexed, data):
    raw = bytes.fromhex(hexed)
    value = decode_value(key_version, raw)
    assert value["version"] == raw[1]
    assert without_decoded(value["data"]) == data
    assert list(value["data"]) == [name for name in value["data"] if name in data]
    assert encode_value(key_version, value) == raw
    assert encode_value(key_version, {"version": raw[1], "data": data}) == raw


def test_consumer_protocol_of_the_specification():
    raw = bytes.fromhex(
        "0003 00000002 0001 61 0001 62 ffffffff 00000001 0001 61 00000001 00000001"
        "00000005 0002 7231"
    )
    subscription = decode_subscription(raw)
    assert subscription == {
        "version": 3,
        "data": {
            "topics": ["a", "b"],
            "userData": None,
            "ownedPartitions": [{"topic": "a", "partitions": [1]}],
            "generationId": 5,
            "rackId": "r1",
        },
    }
    assert encode_subscription(subscription) == raw
    raw = bytes.fromhex(
        "0000 00000002 0001 61 00000002 00000001 00000000 0001 62 00000001 00000000 00000001 09"
    )
    assignment = decode_assignment(raw)
    assert assignment["data"] == {
        "assignedPartitions": [
            {"topic": "a", "partitions": [1, 0]},
            {"topic": "b", "partitions": [0]},
        ],
        "userData": b"\x09",
    }
    assert encode_assignment(assignment) == raw


def printed(value):
    """As Kafka's converters print: bytes in base64. Errors are in our own words."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {k: "any" if k == "error" else printed(v) for k, v in value.items()}
    return [printed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", golden_data.cases())
def test_records_of_the_golden_logs_decode_as_kafka_does_and_encode_to_the_same_bytes(case):
    expected = (record for record in golden_data.records(case) if "control" not in record)
    for segment in golden_data.segments(case):
        for batch in LogReader(segment.read_bytes()):
            for record in [] if batch.is_control else batch.records:
                kafka = next(expected)
                key = decode_key(record.key)
                value = decode_value(key["version"], record.value)
                assert printed(key) == printed(kafka["key"])
                assert printed(value) == printed(kafka["value"])
                assert encode_key({k: v for k, v in key.items() if k != "raw"}) == record.key
                assert encode_value(key["version"], value) == record.value
    assert next(expected, None) is None


@given(messages.keys())
def test_every_key_version_encodes_and_decodes_to_itself(key):
    assert decode_key(encode_key(key)) == key


@pytest.mark.parametrize(("key_version", "version"), messages.VALUE_VERSIONS)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_every_value_version_encodes_and_decodes_to_itself(key_version, version, data):
    value = data.draw(messages.values(key_version, version))
    found = decode_value(key_version, encode_value(key_version, value))
    found["data"] = without_decoded(found["data"])
    assert found == value


@given(messages.subscriptions(), messages.assignments())
def test_the_consumer_protocol_encodes_and_decodes_to_itself(subscription, assignment):
    assert decode_subscription(encode_subscription(subscription)) == subscription
    assert decode_assignment(encode_assignment(assignment)) == assignment


@given(messages.subscriptions(), st.integers(4, 32767), st.binary(min_size=1, max_size=5))
def test_newer_consumer_protocol_versions_read_as_3_and_count_the_rest(subscription, version, rest):
    subscription = subscription | {"version": 3}
    for name, default in (("ownedPartitions", []), ("generationId", -1), ("rackId", None)):
        subscription["data"].setdefault(name, default)
    raw = encode_subscription(subscription | {"version": version}) + rest
    expected = subscription | {"version": version, "trailing_bytes": len(rest)}
    assert decode_subscription(raw) == expected


def test_no_bytes_are_no_subscription_and_a_negative_version_is_an_error():
    assert decode_subscription(b"") is None
    assert decode_assignment(b"") is None
    for broken in (b"\x00", b"\xff\xff\0\0\0\0", b"\0\0"):
        with pytest.raises(CorruptData):
            decode_assignment(broken)


def test_a_member_whose_bytes_say_nothing_is_no_fault_of_the_group():
    group = ONE_MEMBER | {"members": [MEMBER | {"subscription": b"", "assignment": b"\xff\xff"}]}
    found = decode_value(2, encode_value(2, {"version": 3, "data": group}))["data"]["members"][0]
    assert found["subscription_decoded"] is None
    assert set(found["assignment_decoded"]) == {"error"}


def test_groups_of_other_protocol_types_keep_their_members_bytes_only():
    group = ONE_MEMBER | {"protocolType": "connect"}
    found = decode_value(2, encode_value(2, {"version": 3, "data": group}))
    assert found["data"] == group


@pytest.mark.parametrize("version", [-32768, -1, 18, 24, 77])
def test_unknown_key_versions_keep_their_bytes(version):
    raw = version.to_bytes(2, "big", signed=True) + b"\0\1g"
    assert decode_key(raw) == {"version": version, "raw": raw, "error": "unknown version"}
    value = b"\0\3rest"
    assert decode_value(version, value) == {"version": 3, "raw": value, "error": "unknown version"}
    short = {"version": None, "raw": b"\0", "error": "shorter than a version"}
    assert decode_value(version, b"\0") == short
    assert decode_value(version, None) is None


@pytest.mark.parametrize(("key_version", "version"), [(1, -1), (1, 5), (2, 5), (2, 5000), (3, 1)])
def test_unknown_value_versions_are_faults_of_the_value(key_version, version):
    with pytest.raises(CorruptData, match="unknown version") as caught:
        decode_value(key_version, version.to_bytes(2, "big", signed=True) + bytes(40))
    assert caught.value.kind == "value"


def test_bytes_left_over_are_counted_and_kept():
    raw = bytes.fromhex("0002 0001 67") + b"xyz"
    key = decode_key(raw)
    assert (key["trailing_bytes"], key["raw"], key["data"]) == (3, raw, {"group": "g"})
    raw = bytes.fromhex(SPECIFIED_VALUES[0][1]) + b"\1\2"
    value = decode_value(0, raw)
    assert (value["trailing_bytes"], value["raw"], value["data"]) == (2, raw, COMMIT)


def test_unknown_tagged_fields_are_kept_with_their_bytes_or_left_out():
    raw = bytes.fromhex(
        "0004 0000000000000064 00000005 03 6d64 00000000000003e8 02 08 02 abcd 09 00"
    )
    value = decode_value(1, raw)
    known = COMMIT | {"leaderEpoch": 5}
    assert value["data"] == known | {"_unknown_tags": [(8, b"\xab\xcd"), (9, b"")]}
    assert encode_value(1, value) == raw
    assert decode_value(1, raw, tags=False)["data"] == known


@pytest.mark.parametrize(
    ("raw", "expected"),  # what new String(bytes, UTF_8) gives
    [
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xb0", "\ufffd"),
        (b"\xed\xa0\x41", "\ufffdA"),
        (b"\xed\xa0\x80\xed\xb0\x80", "\ufffd\ufffd"),
        (b"\xed\x41", "\ufffdA"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\xe0\x80\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xf0\x9f\x98\x80", "\U0001f600"),
        (b"a\xc3(", "a\ufffd("),
        (b"\xe1\x80\xed\xa0\x80", "\ufffd\ufffd"),
    ],
)
def test_text_that_is_not_utf8_reads_as_java_reads_it(raw, expected):
    key = b"\0\2" + len(raw).to_bytes(2, "big") + raw
    assert decode_key(key)["data"] == {"group": expected}


@pytest.mark.parametrize(
    ("key_version", "hexed", "at"),
    [
        (1, "0003 0000000000000064 00000005 0bb8 6d64", 16),  # a text of 3000 bytes
        (1, "0003 0000000000000064 00000005 ffff 00000000000003e8", 16),  # null metadata
        (1, "0004 0000000000000064 00000005 00 00000000000003e8 00", 15),
        (2, "0003 0008 636f6e73756d6572 00000003 ffff ffff 00000000000004d2 7fffffff", 32),
        (2, "0003 0008 636f6e73756d6572 00000003 ffff ffff 00000000000004d2 ffffffff", 32),
        (2, "0004 09 636f6e73756d6572 00000003 00 00 00000000000004d2 ffffffff07 00", 30),
        (2, "0004 09 636f6e73756d6572 00000003 00 00 00000000000004d2 ffffffffff00 00", 30),
        (3, "0000 00000001 ffffffff07", 11),  # more tagged fields than bytes
        (1, "00", 0),
    ],
)
def test_lengths_counts_and_nulls_that_cannot_be_are_refused_at_their_byte(key_version, hexed, at):
    with pytest.raises(CorruptData) as caught:
        decode_value(key_version, bytes.fromhex(hexed))
    assert caught.value.kind == "value"
    assert caught.value.position == at


def faults_of(key_version, value):
    """What a fold says of a record with that value."""
    key = struct.pack(">hh", key_version, 1) + b"g" + (b"\0\1t\0\0\0\0" if key_version < 2 else b"")
    data = log_writer.batch(0, [(1000, key, value)])
    return [fault.kind for fault in scan(data, partition=0).fold(0).faults]


def test_a_text_has_the_bytes_that_kafkas_readers_take():
    """A compact length could say more; an int16 cannot."""
    value = bytes.fromhex("0004 0000000000000064 00000005")
    for size, faults in ((32767, []), (32768, ["value"])):
        length = bytes([(size + 1) & 127 | 128, (size + 1) >> 7 & 127 | 128, (size + 1) >> 14])
        raw = value + length + bytes(size) + bytes(8) + b"\0"
        assert faults_of(1, raw) == faults
        if faults:
            with pytest.raises(CorruptData, match="metadata: a text of more than 32767 bytes"):
                decode_value(1, raw)
        else:
            assert decode_value(1, raw)["data"]["metadata"] == "\0" * size


def test_a_count_of_tagged_fields_below_0_is_none():
    """As Kafka's readers take it, whose loop counts an int32."""
    raw = bytes.fromhex("0004 0000000000000064 00000005 03 6d64 00000000000003e8 ffffffff0f")
    assert decode_value(1, raw) == {"version": 4, "data": COMMIT | {"leaderEpoch": 5}}
    assert faults_of(1, raw) == []


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        (f"01 00 10 {UUID_BYTES}", {"topicId": UUID}),
        (f"01 00 03 {UUID_BYTES}", {"topicId": UUID}),  # the type decides, not the size
        (f"01 00 7f {UUID_BYTES}", {"topicId": UUID}),
        (f"02 00 10 {UUID_BYTES} 00 10 {'00' * 16}", {}),  # twice: the last one, here the default
        (f"01 00 10 {UUID_BYTES[:-2]}", None),
        (f"02 00 10 {UUID_BYTES}", None),  # one of two
        (f"02 00 10 {UUID_BYTES} 05 02 ab", None),
        ("01 05 ffffffff07 ab", None),
        ("01 05 ffffffff0f ab", None),
        ("ffffffff07 05 00", None),
        ("01 05", None),
        ("01 ffffffffff 00", None),
    ],
)
def test_a_tag_that_lies_is_a_fault_of_its_record_where_kafkas_readers_cannot_go_on(tags, found):
    raw = bytes.fromhex(f"0004 0000000000000064 00000005 03 6d64 00000000000003e8 {tags}")
    assert faults_of(1, raw) == ([] if found is not None else ["value"])
    if found is None:
        with pytest.raises(CorruptData):
            decode_value(1, raw)
    else:
        assert decode_value(1, raw)["data"] == COMMIT | {"leaderEpoch": 5} | found


@pytest.mark.parametrize("hexed", ["", "00", "0001", "0001ffff", "0001000161", "0002ffff"])
def test_broken_keys_are_faults_of_the_key(hexed):
    with pytest.raises(CorruptData) as caught:
        decode_key(bytes.fromhex(hexed))
    assert caught.value.kind == "key"


def test_the_metadata_hash_is_left_out_when_it_is_0_as_kafka_prints_it():
    raw = bytes.fromhex("0000 00000007 01 00 08 0000000000000000")
    assert decode_value(3, raw)["data"] == {"epoch": 7}
    assert encode_value(3, {"version": 0, "data": {"epoch": 7}}) == raw[:6] + b"\0"


def test_a_missing_classic_member_is_null_and_is_written_as_4_1_does():
    data = dict.fromkeys(("instanceId", "rackId", "subscribedTopicRegex", "serverAssignor"))
    data |= {"clientId": "c", "clientHost": "h", "subscribedTopicNames": []}
    data |= {"rebalanceTimeoutMs": -1, "classicMemberMetadata": None}
    raw = encode_value(5, {"version": 0, "data": data})
    assert raw.endswith(bytes.fromhex("01 00 01 00"))
    assert decode_value(5, raw)["data"] == data
    assert decode_value(5, raw[:-4] + b"\0")["data"] == data


@given(messages.keys(), st.data())
def test_every_cut_of_a_key_is_refused(key, data):
    raw = encode_key(key)
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    with pytest.raises(CorruptData):
        decode_key(cut)


@given(st.sampled_from(messages.VALUE_VERSIONS), st.data())
def test_any_cut_or_flipped_byte_of_a_value_gives_a_value_or_a_fault(which, data):
    raw = bytearray(encode_value(which[0], data.draw(messages.values(*which))))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    raw = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        found = decode_value(which[0], raw)
    except CorruptData as error:
        assert 0 <= error.position <= len(raw)  # noqa: PT017
    else:
        assert set(found) <= {"version", "data", "trailing_bytes", "raw"}


@pytest.mark.parametrize(
    ("key_version", "data", "what"),
    [
        (1, {"offset": 1}, "leaderEpoch is missing"),
        (1, COMMIT | {"leaderEpoch": 1 << 31}, "leaderEpoch must fit 32 bits, not 2147483648"),
        (1, COMMIT | {"leaderEpoch": "1"}, "leaderEpoch must be an integer"),
        (1, COMMIT | {"leaderEpoch": 1, "metadata": None}, "metadata may not be None"),
        (1, COMMIT | {"leaderEpoch": 1, "metadata": "é" * 16384}, "not 32768"),
        (2, ONE_MEMBER | {"members": [None]}, "members must be a dict, not None"),
        (
            2,
            ONE_MEMBER | {"members": [MEMBER | {"subscription": "text"}]},
            "must be bytes, not 'text'",
        ),
    ],
)
def test_what_cannot_be_written_is_named(key_version, data, what):
    with pytest.raises(CoterieError, match=what):
        encode_value(key_version, {"version": 3, "data": data})


def test_a_uuid_that_is_none_and_unknown_versions_cannot_be_written():
    topic = {"topicId": "short", "partitions": []}
    with pytest.raises(CoterieError, match="topicId"):
        encode_value(7, {"version": 0, "data": {"topicPartitions": [topic]}})
    for key in ({"version": 18, "data": {}}, {"data": {}}, {"version": None}):
        with pytest.raises(CoterieError, match="unknown"):
            encode_key(key)
    with pytest.raises(CoterieError, match="unknown"):
        encode_value(1, {"version": 5, "data": COMMIT})
