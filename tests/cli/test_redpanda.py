"""A sound log of Redpanda is read as one of Kafka, and named: no place of it is corrupt.

Redpanda writes Kafka's records, and a version (3) before each member of a group: `encode` of
`member_state` and `group_metadata_value` in its group_metadata.cc.
"""

import json
import shutil
import struct

import pytest

from coterie._core.codec.schema import decode_value, is_redpandas
from coterie.errors import CorruptData
from coterie.state.redpanda import REDPANDA
from support.commandline import coterie, coterie_ok
from support.log_writer import batch, commit, each, group_key, group_value, marker

T0 = 1_760_000_000_000
MEMBERS = [b"app-1-aaaa", b"app-2-bbbb", b"app-3-cccc"]


def redpandas(value, member_ids):
    """A value of `group_value` as Redpanda writes it."""
    for member in member_ids:
        at = value.index(struct.pack(">h", len(member)) + member + struct.pack(">h", -1))
        value = value[:at] + struct.pack(">h", 3) + value[at:]
    return value


def write(folder, layout):
    """A group that grows, shrinks and empties, with commits of a transaction, too."""
    groups = [(1, 1), (2, 3), (3, 2), (4, 0), (5, 2)]
    records, offset = [], 0
    for turn, (generation, size) in enumerate(groups):
        at, ids = T0 + turn * 60_000, MEMBERS[:size]
        records += each(
            offset,
            (at, group_key(b"g"), layout(group_value(generation, ids), ids)),
            commit(at + 1_000, 10 * turn),
        )
        offset += 2
    records.append(batch(offset, [commit(at + 2_000, 99)], producer_id=7, transactional=True))
    records.append(marker(offset + 1, 7, at + 3_000, commit=True))
    partition = folder / "__consumer_offsets-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").write_bytes(b"".join(records))
    return folder


@pytest.fixture
def logs(tmp_path):
    return [
        write(tmp_path / name, layout)
        for name, layout in (("kafka", lambda value, _: value), ("redpanda", redpandas))
    ]


@pytest.mark.parametrize(
    "command",
    [
        ["groups", "--describe", "--all-groups", "--members", "--verbose"],
        ["groups", "--describe", "--all-groups", "--state"],
        ["groups", "--describe", "--all-groups", "--members", "--at", str(T0 + 90_000)],
        *(["explain", "--group", "g"], ["expire"], ["metrics"]),
        ["undo", "--group", "g", "--at", str(T0 + 90_000)],
    ],
    ids=" ".join,
)
def test_the_answer_to_a_log_of_redpanda_is_that_to_one_of_kafka(logs, command):
    name, *options = command
    kafka, redpanda = (coterie(name, log, *options) for log in logs)
    assert redpanda.stdout.replace("/redpanda/", "/kafka/") == kafka.stdout
    lines = redpanda.stderr.replace("/redpanda/", "/kafka/").splitlines()
    lines.remove(f"coterie: {REDPANDA}")  # once
    assert lines == kafka.stderr.splitlines()
    assert (redpanda.returncode, "corrupt" in redpanda.stderr) == (kafka.returncode, False)


def test_compare_names_the_broker_once(logs, tmp_path):
    for log in logs:
        shutil.copytree(log, tmp_path / f"{log.name}-2")
    kafka, redpanda = (coterie_ok("compare", log, f"{log}-2") for log in logs)
    assert redpanda.stderr.splitlines() == [f"coterie: {REDPANDA}", *kafka.stderr.splitlines()]


def test_verify_names_the_broker_and_finds_no_fault(logs):
    kafka, redpanda = (coterie_ok("verify", log) for log in logs)
    assert (kafka.stdout, kafka.stderr, redpanda.stdout) == ("", "", "")
    assert redpanda.stderr.startswith("coterie: this is a log of Redpanda, not of Kafka: ")
    assert redpanda.stderr.count("\n") == 1


def test_records_show_the_version_of_each_member(logs):
    kafka, redpanda = (
        [json.loads(line) for line in coterie_ok("records", log).stdout.splitlines()]
        for log in logs
    )
    seen = 0
    for ours, theirs in zip(redpanda, kafka, strict=True):
        for member in (ours.get("value") or {}).get("data", {}).get("members", ()):
            assert member.pop("version") == 3
            seen += 1
        assert ours.get("value") == theirs.get("value")
    assert seen == 8


def test_a_value_that_is_no_whole_one_is_a_fault_of_its_record():
    """Only exact values are Redpanda's; what Kafka's layout takes is Kafka's."""
    value = redpandas(group_value(1, MEMBERS), MEMBERS)
    assert is_redpandas(value)
    assert not is_redpandas(group_value(1, MEMBERS))
    assert not is_redpandas(group_value(1, []))
    for broken in (
        *(value[:size] for size in range(len(value))),
        value + b"\0",
        b"\0\2" + value[2:],
        b"\0\4" + value[2:],
    ):
        assert not is_redpandas(broken)
        with pytest.raises(CorruptData):
            decode_value(2, broken)
