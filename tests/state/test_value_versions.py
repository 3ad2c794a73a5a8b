"""A new version of a value needs one line in the table of messages, for all readers.

Each test runs in a new process, which defines the version before anything is read.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import scan
from coterie._core.fold.columns import KIND_NAMES, decode_columns
from coterie.messages import encode_value
from coterie.state.rows import visible_offsets
from support import log_writer

PRELUDE = """
import json, struct
from coterie._core.codec import schema
from coterie.base.schemas import SECTIONS

def define(name, last, **new):
    section = SECTIONS[name]
    value = section.parts["value"] + [f" {field} {kind} {last}+" for field, kind in new.items()]
    schema.define(name, section._replace(last=last, parts={**section.parts, "value": value}))

def read_back(key_version, key, value):
    "A log of one record, as every reader of records has it."
    from support import log_writer
    from coterie import scan
    from coterie._core.fold.columns import KIND_NAMES, decode_columns
    from coterie.messages import decode_value
    data = log_writer.batch(0, [(1000, key, value)])
    fold = scan(data, partition=0).fold(0)
    decoded = decode_value(key_version, value)
    return {
        "faults": [fault.detail for fault in fold.faults],
        "kind": KIND_NAMES[decode_columns(data)["kind"][0]],
        "version": decoded["version"],
        "data": decoded["data"],
        "rows": scan(data, partition=0).groups(),
        "left": decoded.get("trailing_bytes", 0),
    }
"""


def run(code):
    """Run code after the definitions above in a new process; return the JSON that it prints."""
    script = PRELUDE + code
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(string):
    """As a flexible message has it: a varint of the length and one."""
    return bytes([len(string) + 1]) + string.encode()


GROUP_5 = (
    struct.pack(">h", 5)
    + text("consumer")
    + struct.pack(">i", 7)
    + text("range")
    + text("m")
    + struct.pack(">q", 1234)
    + b"\x02"  # one member
    + text("m")
    + text("i")
    + text("c")
    + text("/h")
    + struct.pack(">ii", 30, 20)
    + b"\x01\x01"  # no bytes of a subscription, none of an assignment
    + b"\0"  # no tagged field of the member
    + text("new")
    + b"\0"
)


def test_a_group_value_of_a_new_version_is_read_by_every_reader():
    found = run(f"""
define("group_metadata", 5, newField="string")
value = bytes.fromhex({GROUP_5.hex()!r})
key = struct.pack(">hh", 2, 1) + b"g"
found = read_back(2, key, value)
from coterie._core.coordinator.classic.protocol import groups_of
from coterie._core.coordinator.offsets import fold_log
log = [(0, -1, -1, False, False, [(key, value)])]
(group,) = groups_of(fold_log(log)).values()
found["loaded"] = [group.generation_id, group.leader_id, sorted(group.all_static_members)]
for member in found["data"]["members"]:
    for name in ("subscription", "assignment"):
        member[name] = member[name].hex()
for member in found["rows"][0]["members"]:
    for name in ("subscription", "assignment"):
        member[name] = member[name].hex()
print(json.dumps(found))
""")
    assert (found["faults"], found["kind"], found["left"]) == ([], "group", 0)
    assert (found["version"], found["data"]["newField"]) == (5, "new")
    (row,) = found["rows"]
    (member,) = row["members"]
    assert (row["generation"], row["protocol"], row["leader"]) == (7, "range", "m")
    assert (member["group_instance_id"], member["rebalance_timeout_ms"]) == ("i", 30)
    assert found["loaded"] == [7, "m", ["i"]]


def test_an_offset_value_of_a_new_version_is_read_by_every_reader():
    value = struct.pack(">hqi", 5, 77, 3) + text("note") + struct.pack(">qq", 1234, 9) + b"\0"
    found = run(f"""
define("offset_commit", 5, topicEpoch="int64")
value = bytes.fromhex({value.hex()!r})
key = struct.pack(">hh", 1, 1) + b"g" + struct.pack(">h", 1) + b"t" + struct.pack(">i", 4)
print(json.dumps(read_back(1, key, value)))
""")
    assert (found["faults"], found["kind"], found["left"]) == ([], "offset", 0)
    assert (found["version"], found["data"]["topicEpoch"]) == (5, 9)
    (offset,) = found["rows"][0]["offsets"]
    assert (offset["topic"], offset["partition"], offset["offset"]) == ("t", 4, 77)
    assert (offset["leader_epoch"], offset["metadata"]) == (3, "note")
    assert (offset["commit_timestamp"], offset["expire_timestamp"]) == (1234, None)


GROUP_4 = struct.pack(">h", 4) + GROUP_5[2 : -len(text("new")) - 1] + b"\0"


@pytest.mark.parametrize("cut", range(2, len(GROUP_4)))
def test_a_group_value_that_is_cut_anywhere_is_a_fault(cut):
    key = struct.pack(">hh", 2, 1) + b"g"
    assert scan(log_writer.batch(0, [(1000, key, GROUP_4)]), partition=0).fold(0).faults == []
    data = log_writer.batch(0, [(1000, key, GROUP_4[:cut])])
    assert [fault.kind for fault in scan(data, partition=0).fold(0).faults] == ["value"]
    assert KIND_NAMES[decode_columns(data)["kind"][0]] == "fault"


@pytest.mark.parametrize("topic_id", [None, "A" * 22, "AAECAwQFBgcICQoLDA0ODw"])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 200])
def test_a_commit_of_version_4_is_read_alike_however_it_is_cut(size, topic_id):
    data = {"offset": 5, "leaderEpoch": 3, "metadata": "m" * size, "commitTimestamp": 7}
    data |= {} if topic_id is None else {"topicId": topic_id}
    plain = encode_value(1, {"version": 4, "data": data})
    key = log_writer.commit_key(1, b"g", b"t", 0)
    other_tag = plain[:-1] + b"\1\5\1x" if topic_id is None else plain
    for whole in (plain, other_tag):
        for cut in range(2, len(whole) + 3):
            value = (whole + b"\0\0")[:cut]
            fold = scan(log_writer.batch(0, [(1000, key, value)]), partition=0).fold(0)
            assert [fault.kind for fault in fold.faults] == ["value"] * (cut < len(whole))
            found = [row for _, row in visible_offsets(fold)]
            assert [row.get("topic_id") for row in found] == (
                [] if cut < len(whole) else [None if topic_id == "A" * 22 else topic_id]
            )
            for row in found:
                assert (row["offset"], row["leader_epoch"], row["metadata"]) == (5, 3, "m" * size)
                assert (row["commit_timestamp"], row["expire_timestamp"]) == (7, None)
