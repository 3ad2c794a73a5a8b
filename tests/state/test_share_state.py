"""The states of share groups' partitions, from the log of __share_group_state."""

import base64
import csv
import json
import struct
from pathlib import Path

import pytest

from coterie._core.codec.schema import decode_share_key, decode_share_value
from coterie.errors import CorruptData
from coterie.log.folders import find_share_state
from coterie.log.records import segment_records
from coterie.messages import encode_batch
from coterie.state.share_state import SharePartition, ShareStates
from support.commandline import coterie_ok, fails

GOLDEN = Path(__file__).parents[1] / "golden/share-groups"
LOG, ENDS = GOLDEN / "log", GOLDEN / "end-offsets.txt"
TOPIC = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
PLACE = ("g", TOPIC, 1)
SNAPSHOT, UPDATE = 0, 1


def described(*options, group="--all-groups"):
    of = (group,) if group.startswith("--") else ("--group", group)
    return coterie_ok("groups", LOG, "--kind", "share", "--describe", *of, *options).stdout


@pytest.mark.parametrize("options", [(), ("--verbose",)])
def test_offsets_and_lag_are_those_of_kafka_s_tool(options):
    expected = GOLDEN / f"offsets{'-verbose' if options else ''}.txt"
    assert described("--end-offsets", ENDS, *options) == expected.read_text()


def test_without_end_offsets_there_is_no_lag():
    with_lag = (GOLDEN / "offsets.txt").read_text().splitlines()
    assert described().splitlines() == [
        line if "START-OFFSET" in line or not line else line[: line.rindex(" ") + 1] + "-"
        for line in with_lag
    ]


def test_data_has_the_records_in_flight():
    """Delivered are 10 or 12 records of each partition, of which 2 have ended at the start."""
    rows = list(csv.DictReader(described("--format", "csv", group="share-left").splitlines()))
    assert [
        [row[name] for name in ("start_offset", "in_flight_records", "delivery_complete_count")]
        for row in rows
    ] == [["2", "10", "8"], ["0", "10", "8"], ["2", "12", "9"]]


@pytest.mark.parametrize(("at", "start"), [("38", "-"), ("39", "2")])
def test_an_earlier_time_has_the_states_of_then(at, start):
    lines = described("--at", f"2026-11-29T10:28:{at}Z", group="share-left").splitlines()
    assert [line.split()[3] for line in lines if "clicks" in line] == [start]


def test_explain_says_which_partitions_were_initialized():
    rows = csv.DictReader(
        coterie_ok("explain", LOG, "--group", "share-left", "--format", "csv").stdout.splitlines()
    )
    causes = [row["cause"] for row in rows]
    assert causes[1] == "share partitions initialized: clicks:0 orders:0,1"


def test_end_offsets_are_for_the_offsets_of_described_groups():
    for options in (("--list",), ("--describe", "--all-groups", "--members")):
        fails("groups", LOG, *options, "--end-offsets", ENDS, status=2,
              says="--end-offsets goes with --offsets")  # fmt: skip


def test_records_prints_the_states_that_the_tool_of_kafka_shows():
    """Of a partition the last start offset counts that is not -1."""
    folders = sorted(LOG.glob("__share_group_state-*"))
    result = coterie_ok("records", LOG, "--topic", "__share_group_state")
    assert coterie_ok("records", *folders).stdout == result.stdout
    starts = {}
    for row in map(json.loads, result.stdout.splitlines()):
        place = row["key"]["data"]
        start = row["value"]["data"]["startOffset"]
        if start != -1:
            starts[place["groupId"], place["topicId"], place["partition"]] = start
    lines = [line.split() for line in (GOLDEN / "offsets.txt").read_text().splitlines()]
    shown = [(line[0], line[2], line[3]) for line in lines if line and line[3].isdigit()]
    assert sorted((group, str(part), str(at)) for (group, _, part), at in starts.items()) == sorted(
        shown
    )


def test_records_of_groups_are_theirs():
    def groups(*options):
        lines = coterie_ok("records", LOG / "__share_group_state-1", *options).stdout.splitlines()
        return {json.loads(line)["key"]["data"]["groupId"] for line in lines}

    everyone = groups()
    assert groups("--group", "share-l*") == {name for name in everyone if name[:7] == "share-l"}
    assert groups("--group-exclude", "share-l*") == everyone - groups("--group", "share-l*")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((GOLDEN / "README.md",), "no such folder; give a folder of __share_group_state-N folders"),
        ((LOG / "__consumer_offsets-0",), "no segment (.log); give a folder of"),
    ],
)
def test_where_no_state_is_records_says_what_to_give(options, says):
    fails("records", "--topic", "__share_group_state", *options, says=says)


# Records by Kafka's schemas: ShareSnapshotKey.json and those beside it


def key(version=SNAPSHOT, group=b"g"):
    return struct.pack(">hh", version, len(group)) + group + bytes(range(16)) + struct.pack(">i", 1)


def batches(*spans):
    rows = b"".join(struct.pack(">qqbhb", first, last, 0, 1, 0) for first, last in spans)
    return bytes([len(spans) + 1]) + rows


def complete(count):
    """The tagged fields: the delivery complete count, unless it is at its default."""
    return b"\x00" if count == -1 else b"\x01\x00\x04" + struct.pack(">i", count)


def snapshot(start, *spans, count=-1, epoch=0):
    head = struct.pack(">hiiiqqq", 0, 0, 0, epoch, start, 0, 0)
    return head + batches(*spans) + complete(count)


def update(start, *spans, count=-1, epoch=-1):
    return struct.pack(">hiiq", 0, 0, epoch, start) + batches(*spans) + complete(count)


def log_of(folder, *records):
    """A log of records, a second apart; each is (key, value)."""
    partition = folder / "__share_group_state-3"
    partition.mkdir(parents=True)
    rows = [(n, 1000 * n, raw_key, value) for n, (raw_key, value) in enumerate(records)]
    (partition / f"{0:020}.log").write_bytes(encode_batch(rows))
    return find_share_state([str(folder)])


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([(SNAPSHOT, snapshot(-1))], SharePartition(0, None, None, 0)),
        ([(SNAPSHOT, snapshot(5, count=0, epoch=2))], SharePartition(2, 5, 0, 0)),
        ([(SNAPSHOT, snapshot(5, (5, 7), (8, 8), count=1))], SharePartition(0, 5, 1, 9)),
        ([(SNAPSHOT, snapshot(5, (5, 9), count=1, epoch=2)), (UPDATE, update(-1, (6, 6), count=2))],
         SharePartition(2, 5, 2, 10)),
        ([(SNAPSHOT, snapshot(5, (5, 9))), (UPDATE, update(8, (10, 11), count=0, epoch=3))],
         SharePartition(3, 8, 0, 12)),
        ([(SNAPSHOT, snapshot(5, (5, 9), count=1)), (UPDATE, update(8))],  # as before 4.2
         SharePartition(0, 8, None, 10)),
        ([(SNAPSHOT, snapshot(5, (5, 9))), (SNAPSHOT, snapshot(6))], SharePartition(0, 6, None, 0)),
        ([(SNAPSHOT, snapshot(5)), (SNAPSHOT, None)], None),
    ],
)  # fmt: skip
def test_a_snapshot_is_the_state_and_an_update_changes_it(tmp_path, records, expected):
    listing = log_of(tmp_path, *((key(version), value) for version, value in records))
    assert ShareStates(listing).partitions.get(PLACE) == expected


def test_records_after_the_time_are_left_out(tmp_path):
    listing = log_of(tmp_path, (key(), snapshot(5)), (key(UPDATE), update(6)))
    assert ShareStates(listing, 999).partitions[PLACE].start_offset == 5
    assert ShareStates(listing, 1000).partitions[PLACE].start_offset == 6


def test_what_cannot_be_read_is_a_line_and_the_rest_counts(tmp_path):
    listing = log_of(
        tmp_path, (key(), snapshot(5)), (key(7), snapshot(9)), (key(), b"\0\1"), (key(), b"\0\0")
    )
    states = ShareStates(listing)
    assert states.partitions[PLACE].start_offset == 5
    file = f"{tmp_path}/__share_group_state-3/{0:020}.log"
    assert [line.removeprefix(f"{file}: ") for line in states.faults] == [
        "offset 1: unknown version 7 of a key",
        "offset 2: unknown version 1 of a share_snapshot value",
        "offset 3: snapshotEpoch: 0 bytes left, it needs more at byte 2",
    ]


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (decode_share_key, key()),
        (lambda data: decode_share_value(SNAPSHOT, data), snapshot(5, (5, 9), count=1)),
        (lambda data: decode_share_value(UPDATE, data), update(5, (5, 9), count=1)),
    ],
    ids=["key", "snapshot", "update"],
)
def test_every_cut_is_refused(decode, data):
    assert "error" not in decode(data)
    for size in range(len(data)):
        with pytest.raises(CorruptData):
            decode(data[:size])


@pytest.mark.parametrize(
    ("raw_key", "value", "unread", "kinds"),
    [
        (key(7), snapshot(5), ("key", "value"), []),  # as of a newer Kafka
        (key()[:-1], snapshot(5), ("key",), ["key"]),
        (b"\0", snapshot(5), ("key", "value"), ["key"]),
        (key(), b"\0\1", ("value",), ["value"]),
        (key(), None, (), []),
    ],
)
def test_records_keeps_the_bytes_of_what_it_cannot_read(raw_key, value, unread, kinds):
    told = []
    (row,) = segment_records(
        encode_batch([(0, 1, raw_key, value)]),
        partition=0,
        segment="s.log",
        topic="__share_group_state",
        on_fault=lambda *fault: told.append(fault[2]),
    )
    given = {"key": raw_key, "value": value}
    assert {name: row[name]["raw"] for name in given if "raw" in (row[name] or {})} == {
        name: given[name] for name in unread
    }
    assert told == kinds
