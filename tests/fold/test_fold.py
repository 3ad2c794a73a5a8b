"""The fold against Kafka's own state of the golden logs, in every mode."""

import base64
import dataclasses
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coterie import CoterieError, PartialState, ScanOptions, merge, scan
from coterie._core.codec.compression import crc32c
from coterie._core.fold.fold import offset_columns
from coterie.messages import encode_batch, encode_message_set, encode_value
from support import log_writer
from support.golden_data import LOGS, cases, corrupt_cases, segments
from support.log_writer import batch, commit_key, commit_value, group_key, group_value, record
from support.messages import RECORDS

CLASSIC = [case for case in cases() if case != "kip848"]


def plain(value):
    """As JSON has it: bytes are base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


def replay(case, **options):
    chosen = ScanOptions(**options)
    pieces = [
        scan(path.read_bytes(), partition=partition_of(path), file=path.name, options=chosen)
        for path in segments(case)
    ]
    return merge(pieces) if pieces else PartialState(chosen)


def partition_of(path):
    return int(path.parent.name.rpartition("-")[2])


def golden(path):
    return json.loads(path.read_text())["groups"]


GROUPS = [*(f"group-{n}" for n in range(40)), "g", "", "gr\u00fcn", "\u65e5\u672c", "x" * 200]
TOPICS = [*(f"topic-{n}" for n in range(8)), "t", "", "caf\u00e9", "y" * 130]
PARTITIONS = [*range(40), 4095, 4096, 70_000, 2**31 - 1, -1, -(2**31)]


@pytest.mark.parametrize("seed", range(4))
def test_the_last_commit_of_each_key_stands_whatever_its_names(seed):
    draw, last, log, at = random.Random(seed), {}, [], 0
    for size in (1, 5, 97, 300, 2000, 4000):
        pairs, group = [], draw.choice(GROUPS)
        for n in range(size):
            # Like a consumer: some commits of one group in a row, then another one's.
            group = draw.choice(GROUPS) if draw.random() < 0.2 else group
            key = group, draw.choice(TOPICS), draw.choice(PARTITIONS)
            raw = log_writer.commit_key(n % 2, key[0].encode(), key[1].encode(), key[2])
            raw += draw.choice([b"", b"", b"left over", bytes(4)])
            gone = draw.random() < 0.1
            value = None if gone else log_writer.commit_value(at + n, -1, b"m" * (n % 30), 7)
            pairs.append((1000, raw, value))
            last.pop(key, None) if gone else last.update({key: (at + n, "m" * (n % 30))})
        log.append(log_writer.batch(at, pairs))
        at += size
    pieces = [scan(b"".join(log)), merge([scan(data) for data in log])]
    for state in pieces:
        found = {
            (group["group_id"], one["topic"], one["partition"]): (one["offset"], one["metadata"])
            for group in state.groups()
            for one in group["offsets"]
        }
        assert found == last


GROWTH = """
import resource, sys
from support import log_writer
from coterie import scan

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

value = log_writer.commit_value(5, -1, b"", 7)
partition = int(sys.argv[1])
keys = [log_writer.commit_key(1, b"group-%d" % n, b"topic", partition) for n in range(20_000)]
log = b"".join(
    log_writer.batch(at, [(1000, key, value) for key in keys[at : at + 100]])
    for at in range(0, len(keys), 100)
)
before = peak()
state = scan(log)
print(peak() - before)
"""


def test_lone_partitions_of_high_numbers_take_no_more_memory_than_others():
    grew = {}
    for partition in ("4095", "70000"):  # an array up to here, and none
        command = [sys.executable, "-c", GROWTH, partition]
        path = {"PYTHONPATH": str(Path(__file__).parents[1])}
        answer = subprocess.run(command, capture_output=True, check=True, env=os.environ | path)
        grew[partition] = int(answer.stdout)
    assert grew["4095"] < 2 * grew["70000"] + 1000


def fields_of_kafka(rows, expected):
    names = expected[0] if expected else ()
    return [{name: row[name] for name in names} for row in plain(rows)]


@pytest.mark.parametrize("case", CLASSIC)
def test_state_equals_kafkas_own_loader(case):
    expected = golden(LOGS / case / "groups.json")
    assert fields_of_kafka(replay(case).groups(), expected) == expected


@pytest.mark.parametrize("case", corrupt_cases())
@pytest.mark.parametrize(
    ("on_fault", "answer"), [("load", "groups.json"), ("recover", "groups-recovered.json")]
)
def test_damaged_logs_give_what_kafka_loads(case, on_fault, answer):
    folder = LOGS / "corrupt" / case
    expected = golden(folder / answer)
    state = replay(f"corrupt/{case}", on_fault=on_fault)
    assert fields_of_kafka(state.groups(), expected) == expected


@pytest.mark.parametrize("case", corrupt_cases())
def test_the_fault_is_reported_once_at_its_place(case):
    folder = LOGS / "corrupt" / case
    expected = json.loads((folder / "expect.json").read_text())
    faults = [f for fold in replay(f"corrupt/{case}").partitions.values() for f in fold.faults]
    harmless = {
        "fine",
        "key-bad-utf8",
        "key-negative-version",
        "key-unknown-version",
        "missing-batch",
        "offset-goes-back",
        "value-bad-utf8",
        "value-trailing-bytes",
    }
    if case in harmless:
        assert faults == []
        return
    at_place = [f for f in faults if f[1] == expected["fault_position"]]
    assert [(f[1], f[2]) for f in at_place] == [
        (expected["fault_position"], expected["fault_base_offset"])
    ]
    # A wrong length that leads into the middle of a batch is followed by what stands there.
    assert len(faults) == (2 if case in {"length-below-v2-header", "length-one-more"} else 1)


@pytest.mark.parametrize("case", ["basic", "transactions", "compacted", "old-formats"])
def test_a_state_survives_its_bytes(case):
    state = replay(case)
    again = PartialState.from_bytes(state.to_bytes())
    assert again.groups() == state.groups()


def test_stop_stops_at_the_first_fault():
    state = replay("corrupt/magic-3", on_fault="stop")
    (fold,) = state.partitions.values()
    assert fold.stopped
    assert len(fold.faults) == 1


def test_states_of_different_options_do_not_merge():
    with pytest.raises(CoterieError, match="different options"):
        merge([PartialState(), PartialState(ScanOptions(history=True))])


@pytest.mark.parametrize("size", [12, 16, 17, 60])
def test_zeros_at_the_end_are_a_tail_to_the_loader_too(size):
    (segment,) = segments("corrupt/fine")
    data = segment.read_bytes()
    (fold,) = scan(data + bytes(size), options=ScanOptions(on_fault="load")).partitions.values()
    assert [fault[1:4] for fault in fold.faults] == [(len(data), None, "tail")]
    assert fold.failed


def committed(state):
    """Partition -> offset of group `g`, topic `t`."""
    return {one["partition"]: one["offset"] for group in state.groups() for one in group["offsets"]}


def commit(partition, offset, *, time=1000, version=3):
    data = {"offset": offset, "leaderEpoch": 3, "metadata": "m", "commitTimestamp": 1}
    value = encode_value(1, {"version": version, "data": {**data, "expireTimestamp": -1}})
    return time, log_writer.commit_key(1, b"g", b"t", partition), value


ROADS = [ScanOptions(), ScanOptions(history=True), ScanOptions(groups=frozenset("g"))]


@pytest.mark.parametrize("options", ROADS)
@pytest.mark.parametrize("version", range(5))
def test_a_value_cut_by_a_byte_is_a_fault_and_the_record_after_it_counts(version, options):
    time, key, value = commit(0, 5, version=version)
    data = log_writer.batch(10, [(time, key, value[:-1]), commit(1, 6, version=version)])
    state = scan(data, options=options)
    (fold,) = state.partitions.values()
    assert [fault[3:5] for fault in fold.faults] == [("value", 10)]
    assert committed(state) == {1: 6}


@pytest.mark.parametrize("options", ROADS)
@pytest.mark.parametrize("broken", range(3))
def test_a_batch_with_a_broken_record_is_left_out_whole_though_its_checksum_holds(broken, options):
    records = [log_writer.record(i, 0, *commit(i, 9)[1:]) for i in range(3)]
    records[broken] = records[broken][:-1] + log_writer.varint(1)  # a header that is not there
    body = log_writer.batch(10, [commit(i, 9) for i in range(3)])[21:61] + b"".join(records)
    head = struct.pack(">qiibI", 10, 9 + len(body), 0, 2, crc32c(body))
    before, after = (log_writer.batch(at, [commit(0, at)]) for at in (5, 20))
    for around in ((before, b""), (before, after), (b"", after), (b"", b"")):
        state = scan(around[0] + head + body + around[1], options=options)
        (fold,) = state.partitions.values()
        assert [fault[1:4] for fault in fold.faults] == [(len(around[0]), 10, "records")]
        assert committed(state) == ({0: 20} if around[1] else {0: 5} if around[0] else {})


def test_a_key_version_without_a_schema_is_counted_as_unknown():
    """18 among them: it was never given to a type."""
    versions = range(-(2**15), 2**15)
    fields = log_writer.commit_key(0, b"group", b"member", 7)[2:]
    pairs = [(1000, struct.pack(">h", version) + fields, None) for version in versions]
    data = log_writer.batch(0, pairs)
    for mode in ("skip", "stop", "load", "recover"):
        (fold,) = scan(data, options=ScanOptions(on_fault=mode)).partitions.values()
        known = RECORDS if mode in ("skip", "stop") else (0, 1, 2)  # those that Kafka's loader has
        assert fold.unknown == {version: 1 for version in versions if version not in known}
        assert fold.faults == []


@pytest.mark.parametrize("at_ms", [-(2**63), -3, -2, -1, 0, None])
@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_as_of_any_time_a_record_without_one_counts(magic, codec, at_ms):
    times = [-(2**40), -2, -1, 0]
    pairs = [(n, *commit(n, 7, time=time)) for n, time in enumerate(times)]
    if magic == 2:
        data = encode_batch(pairs, codec=codec)
    else:
        data = encode_message_set(pairs, magic, codec=codec)
    if magic == 0:
        times = [-1] * 4
    for options in ROADS:
        chosen = dataclasses.replace(options, at_ms=at_ms)
        counting = [n for n, ms in enumerate(times) if at_ms is None or ms == -1 or ms <= at_ms]
        assert sorted(committed(scan(data, options=chosen))) == counting


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("on_fault", ["skip", "recover", "load", "stop"])
def test_a_batch_too_short_for_its_header_is_called_that_whatever_came_before(before, on_fault):
    """Its checksum has no place where it could stand; that of the batch before is not its own."""
    short = struct.pack(">qiib", before, 30, 0, 2) + bytes(25)
    good = [batch(n, [(0, commit_key(1, b"g", b"t", n), None)]) for n in range(before)]
    data = b"".join(good) + short
    (fold,) = scan(data, options=ScanOptions(on_fault=on_fault)).partitions.values()
    assert [fault[1:] for fault in fold.faults] == [
        (len(data) - len(short), before, "crc", None, "a batch too short for its own header")
    ]


def many_commits(count):
    """A batch of commits of ``g`` and ``t``, partition n to offset n.

    Deltas of an offset take three bytes from 8192 on, so the first record begins there.
    """
    parts = commit_key(1, b"g", b"t", 0), commit_value(0, -1, b"", 0)
    one = np.frombuffer(record(8192, 0, *parts), np.uint8)
    rows, numbers = np.tile(one, (count, 1)), np.arange(count)
    deltas = (8192 + numbers) * 2
    for place in range(3):
        rows[:, 3 + place] = deltas >> 7 * place & 127 | (128 if place < 2 else 0)
    key_at = bytes(one).index(parts[0])
    value_at = bytes(one).index(parts[1])
    partition_at = key_at + len(parts[0]) - 4
    rows[:, partition_at : partition_at + 4] = numbers.astype(">i4")[:, None].view(np.uint8)
    rows[:, value_at + 2 : value_at + 10] = numbers.astype(">i8")[:, None].view(np.uint8)
    head = (0, 8192 + count - 1, 0, 0, -1, 0, -1, count)
    body = struct.pack(">hiqqqhii", *head) + rows.tobytes()
    sum_ = struct.pack(">I", crc32c(body))
    return struct.pack(">qiib", 0, 9 + len(body), 0, 2) + sum_ + body


def test_keys_whose_hashes_begin_alike_are_kept_apart():
    """The table compares 32 bits of each key's hash first. Of 400,000 keys about 19 pairs agree in
    them, and that none does has a probability of 1 in 100 million."""
    count = 400_000
    (fold,) = scan(many_commits(count)).partitions.values()
    columns = offset_columns(fold)
    assert fold.key_count == count
    assert (columns["partition"] == np.arange(count)).all()
    assert (columns["offset"] == np.arange(count)).all()


def test_a_generation_says_how_long_after_the_record_before_it_came():
    data = b"".join(
        batch(at, [(time, group_key(b"g"), group_value(3, [b"m"]))])
        for at, time in enumerate((1_000, 9_500, -1, 9_900))
    )
    rows = scan(data).to_arrow()["generations"].to_pylist()
    assert [row["since_previous_ms"] for row in rows] == [None, 8_500, None, None]
