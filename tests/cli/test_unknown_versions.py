"""Every command with unknown versions: keys -2 to 40, values -1 to 10.

A key version without a schema is not a fault: the record is counted, and its bytes are retained.
An unknown value version under a known key version is a fault, and is skipped.
"""

import base64
import json
import shutil
import struct
from collections import Counter

import pytest

from coterie.cli import COMMANDS as ALL_COMMANDS
from coterie.messages import encode_key, encode_value
from support import log_writer
from support.commandline import coterie, folder_of
from support.log_writer import text
from support.messages import RECORDS

KEY_VERSIONS = range(-2, 41)
VALUE_VERSIONS = range(-1, 11)
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


def example(fields):
    """Example data for fields of the table of messages."""
    return {name: example_of(kind, below) for name, kind, *_, below in fields}


def example_of(kind, below):
    if kind.startswith("[]"):
        return [example_of(kind[2:], below)]
    if kind == "struct":
        return example(below)
    return {"string": "t", "bytes": b"", "uuid": "AAAAAAAAAAAAAAAAAAAAAQ"}.get(kind, 1)


def key_of(version):
    if version not in RECORDS:
        return struct.pack(">h", version) + text(b"g")
    return encode_key({"version": version, "data": example(RECORDS[version][1].fields("key"))})


def value_of(key_version, version):
    """A valid value of these versions, or of the last known layout if a version is unknown."""
    _, section = RECORDS.get(key_version, RECORDS[0])
    data = {"version": min(max(version, 0), section.last), "data": example(section.fields("value"))}
    whole = encode_value(key_version if key_version in RECORDS else 0, data)
    return struct.pack(">h", version) + whole[2:]


PLACES = [(key, value) for key in KEY_VERSIONS for value in VALUE_VERSIONS]
UNKNOWN_KEYS = [key for key in KEY_VERSIONS if key not in RECORDS]
FAULTS = [
    offset
    for offset, (key, value) in enumerate(PLACES)
    if key in RECORDS and not 0 <= value <= RECORDS[key][1].last
]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A record for each pair of versions, in the order of ``PLACES``, then keys without fields."""
    folder = tmp_path_factory.mktemp("log") / "__consumer_offsets-0"
    folder.mkdir()
    pairs = [(1000, key_of(key), value_of(key, value)) for key, value in PLACES]
    pairs += [(1000, struct.pack(">h", key), None) for key in UNKNOWN_KEYS]
    (folder / f"{0:020}.log").write_bytes(log_writer.batch(0, pairs))
    return folder.parent


def test_all_commands_that_read_a_log_are_among_them():
    without_a_log = {"fetch", "serve", "designs", "trace", "watch"}
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
    from coterie_spark.source.decoded import record_batches

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


def test_on_spark_a_replay_passes_over_what_it_does_not_know(spark, log, tmp_path):
    outputs = {}
    for engine in ("local", "spark"):
        options = ("--engine", engine, "--format", "json", "--out", tmp_path / engine)
        ran = coterie("replay", log, "--history", *options)
        assert ran.returncode == 0, ran.stderr
        outputs[engine] = [x for x in ran.stderr.splitlines() if x.startswith("key version")]
    assert len(outputs["spark"]) == len(UNKNOWN_KEYS)
    assert outputs["spark"] == outputs["local"]
    for name in folder_of(tmp_path / "local"):
        ours, theirs = ((tmp_path / engine / name).read_bytes() for engine in outputs)
        assert ours == theirs, name


@pytest.mark.parametrize("question", ["explain", "growth"])
def test_on_spark_a_question_passes_over_what_it_does_not_know(question, spark, log):
    local, other = (
        coterie(question, log, "--format", "json", "--engine", engine)
        for engine in ("local", "spark")
    )
    assert (other.returncode, local.returncode) == (0, 0), other.stderr
    assert json.loads(other.stdout) == json.loads(local.stdout) != []
