"""The records of the transaction log: their bytes, and what is read of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator.transaction import State
from coterie.coordinator.transaction_records import (
    Value,
    by_topic,
    key_bytes,
    read_key,
    read_value,
    value_bytes,
)
from coterie.errors import CorruptData


# Of the schemas TransactionLogKey 0 and TransactionLogValue 0: big-endian, lengths in 2 bytes for
# texts and 4 for lists.
def test_records_have_the_bytes_of_their_schema():
    assert key_bytes("ab").hex() == "000000026162"
    value = Value(1, 2, 3, State.ONGOING, {"t": [5, 6]}, 7, 8)
    assert value_bytes(value).hex() == (
        "0000" "0000000000000001" "0002" "00000003" "01"
        "00000001" "0001" "74" "00000002" "00000005" "00000006"
        "0000000000000007" "0000000000000008"
    )  # fmt: skip
    assert value_bytes(value._replace(status=0, partitions=None)).hex() == (
        "0000" "0000000000000001" "0002" "00000003" "00" "ffffffff"
        "0000000000000007" "0000000000000008"
    )  # fmt: skip


# Written by Kafka 4.1.1's class TransactionLogValue.
@pytest.mark.parametrize(
    ("client_version", "tags"),
    [(0, "00"), (2, "0102020002")],
)
def test_records_of_version_1_have_the_bytes_that_kafka_4_writes(client_version, tags):
    topics = {"orders": [0, 2], "t": [1]}
    times = (1700000000123, 1700000000001)
    value = Value(7, 3, 60000, State.ONGOING, topics, *times, client_version)
    data = bytes.fromhex(
        "0001000000000000000700030000ea600103076f726465727303000000000000000200027402000000010000"
        f"00018bcfe5687b0000018bcfe56801{tags}"
    )
    assert value_bytes(value, 1) == data
    assert read_value(data) == value
    empty = value._replace(status=State.EMPTY, partitions=None, start_ms=-1)
    assert value_bytes(empty, 1).hex() == (
        f"0001000000000000000700030000ea6000000000018bcfe5687bffffffffffffffff{tags}"
    )


# MessageUtil of Kafka: unsigned varints of 7 bits a byte, the lowest first, at most 5 bytes.
def test_lengths_from_127_on_take_several_bytes_in_records_of_version_1():
    topics = {"a" * 126: [4], "b" * 127: list(range(300)), "c" * 16_383: [5]}
    value = Value(1, 2, 3, State.ONGOING, topics, 7, 8, 2)
    data = value_bytes(value, 1)
    for length, name in (("7f", b"a" * 126), ("8001", b"b" * 127), ("808001", b"c" * 16_383)):
        assert bytes.fromhex(length) + name in data
    assert b"b" * 127 + bytes.fromhex("ad02") in data  # 300 partitions
    assert read_value(data) == value
    head = value_bytes(value, 1)[:17]
    with pytest.raises(CorruptData, match="too long"):
        read_value(head + b"\xff" * 5 + b"\0" * 300)


def test_records_of_version_1_are_read():
    compact = "000100000000000000010002000000030102027403"
    rest = "00000005000000060000000000000000070000000000000008010902ffff"
    expected = Value(1, 2, 3, State.ONGOING, {"t": [5, 6]}, 7, 8)
    assert read_value(bytes.fromhex(compact + rest)) == expected


@given(
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=9), st.lists(st.integers(0, 99), max_size=4), max_size=4),
)
def test_records_come_back_as_they_were(name, partitions):
    assert read_key(key_bytes(name)) == name
    value = Value(2**63 - 1, 2**15 - 1, 2**31 - 1, 1, partitions, -1, 0)
    data = value_bytes(value)
    assert read_value(data) == value
    for size in range(len(data)):
        with pytest.raises(CorruptData):
            read_value(data[:size])


def test_partitions_are_written_by_topic_and_number_whatever_their_order_was():
    for partitions in ([("b", 10), ("a", 2), ("b", 9)], [("b", 9), ("b", 10), ("a", 2)]):
        assert list(by_topic(partitions).items()) == [("a", [2]), ("b", [9, 10])]
