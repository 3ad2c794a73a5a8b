"""Every command with unknown versions: keys -2 to 40, values -1 to 10.

A key version without a schema is not a fault: the record is counted, and its bytes are retained.
An unknown value version under a known key version is a fault, and is skipped.
"""

import base64
import json
import shutil
from collections import Counter

import pytest

from coterie.cli import COMMANDS as ALL_COMMANDS
from support.commandline import coterie
from support.messages import RECORDS
from support.unknown_versions import (
    FAULTS,
    PLACES,
    UNKNOWN_KEYS,
    VALUE_VERSIONS,
    key_of,
    value_of,
    write_log,
)

COMMANDS = {  # with the status that each documents for a log with faults, and with findings
    ("records",): 0,
    ("verify",): 1,
    ("groups", "--list", "--state"): 0,
    **{
        ("groups", "--describe", "--all-groups", "--kind", kind, f"--{view}"): 0
        for kind in ("consumer", "share", "streams")
        for view in ("offsets", "members", "state")
    },
    **{
        (*question, "--format", form): int(question[0] == "audit")
        for form in ("json", "csv", "table")
        for question in (
            ("explain",),
            ("undo", "--all-groups", "--at", "1000"),
            ("expire",),
            ("growth",),
            ("audit",),
            ("lag", "--end-offsets", "{ends}"),
        )
    },
    ("compare", "{copy}"): 0,
    ("metrics",): 0,
    ("rehearse", "--group", "*"): 1,  # none of these groups has members of Kafka's assignors
    ("report", "-o", "{out}"): 0,
    **{
        (
            "replay",
            *("--engine", "local", "--format", "json", "--history", "--out", "{out}"),
            mode,
        ): (mode.endswith("stop"))
        for mode in ("--on-fault=skip", "--on-fault=recover", "--on-fault=load", "--on-fault=stop")
    },
}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log"))


def test_all_commands_that_read_a_log_are_among_them():
    without_a_log = {"fetch", "serve", "designs", "trace", "watch", "mcp"}
    assert {name for name, *_ in COMMANDS} == {*ALL_COMMANDS} - without_a_log


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_passes_over_what_it_does_not_know(command, log, tmp_path):
    if command[0] == "report":
        pytest.importorskip("jinja2")
    ends = tmp_path / "ends"
    ends.write_text("t:1:5\n")
    paths = {"ends": ends, "out": tmp_path / "out", "copy": tmp_path / "copy"}
    name, *options = (part.format(**paths) for part in command)
    if name == "compare":
        shutil.copytree(log, tmp_path / "copy")
    ran = coterie(name, log, *options)
    assert "a fault of coterie itself" not in ran.stderr
    assert ran.returncode == COMMANDS[command], ran.stderr


def test_a_record_of_an_unknown_version_keeps_its_bytes(log):
    rows = [json.loads(line) for line in coterie("records", log).stdout.splitlines()]
    assert len(rows) == len(PLACES) + len(UNKNOWN_KEYS)
    for offset, (key, value) in enumerate(PLACES):
        row = rows[offset]
        assert (row["key"]["version"], row["value"]["version"]) == (key, value)
        for part, known, raw in (
            (row["key"], key in RECORDS, key_of(key)),
            (row["value"], key in RECORDS and offset not in FAULTS, value_of(key, value)),
        ):
            assert ("data" in part) == known
            assert ("error" in part) != known
            assert known or base64.b64decode(part["raw"]) == raw


def test_a_fault_is_told_of_each_unknown_value_version_under_a_known_key_and_no_more(log):
    faults = [json.loads(line) for line in coterie("verify", log).stdout.splitlines()]
    assert [(fault["kind"], fault["offset"]) for fault in faults] == [
        ("value", offset) for offset in FAULTS
    ]


def test_unknown_key_versions_are_counted_in_the_summary(log, tmp_path):
    options = ("--engine", "local", "--format", "json", "--out", tmp_path / "out")
    lines = coterie("replay", log, *options).stderr.splitlines()
    expected = Counter(key for key, _ in PLACES if key not in RECORDS) + Counter(UNKNOWN_KEYS)
    assert [line for line in lines if line.startswith("key version")] == [
        f"key version {version}: {count} records passed over" for version, count in expected.items()
    ]


def test_a_row_of_the_data_source_has_a_type_where_its_key_version_is_known(log):
    pytest.importorskip("pyarrow")
    from coterie.state.decoded import record_batches

    (segment,) = log.glob("*/*.log")
    (rows,) = record_batches(segment.read_bytes(), partition=0, segment=segment.name)
    versions, types = (rows.column(name).to_pylist() for name in ("key_version", "type"))
    assert versions == [key for key, _ in PLACES] + UNKNOWN_KEYS
    assert types == [RECORDS[key][0] if key in RECORDS else None for key in versions]


def test_records_of_unknown_keys_fill_the_topic_as_those_of_no_group(log):
    rows = json.loads(coterie("growth", log, "--format", "json").stdout)
    (unknown,) = [row for row in rows if row["kind"] == "unknown"]
    assert unknown["group_id"] is None
    assert unknown["records"] == len(UNKNOWN_KEYS) * (len(VALUE_VERSIONS) + 1)
