"""The table of messages against the schemas of Kafka's releases."""

import sys
from pathlib import Path

import pytest

from coterie import wire
from coterie.base import schemas
from support.golden_data import SHARED
from support.wire.frames import DIRECTIONS, tables

ROOT = Path(__file__).parents[2]
SCHEMAS = SHARED / "golden/wire/schemas.json"
REPOSITORY = Path.home() / ".m2/repository/org/apache/kafka"
RECORDS = [
    name
    for name, section in schemas.SECTIONS.items()
    if "value" in section.parts and section.topic == schemas.OFFSETS_TOPIC
]
needs_schemas = pytest.mark.skipif(not SCHEMAS.exists(), reason="golden/wire is not here")


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import wire_table

    return wire_table


def told(tool, capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["wire_table.py", *map(str, arguments)])
    return tool.main(), capsys.readouterr().out


def jar_of(artifact, release):
    jar = REPOSITORY / artifact / release / f"{artifact}-{release}.jar"
    if not jar.exists():
        pytest.skip(f"{artifact} {release} is not in Maven's repository here")
    return jar


@needs_schemas
def test_the_table_is_what_both_releases_say(tool, capsys, monkeypatch):
    assert told(tool, capsys, monkeypatch, SCHEMAS) == (0, "38 messages, nothing differs\n")
    assert {api.name for api in wire.APIS.values()} >= set(tables()["4.1.1"]["apis"])


@pytest.mark.parametrize(("release", "count"), [("3.9.1", 52), ("4.1.1", 65), ("4.4.0", 68)])
def test_the_table_is_what_the_clients_jar_says(tool, capsys, monkeypatch, release, count):
    jar = jar_of("kafka-clients", release)
    assert told(tool, capsys, monkeypatch, jar) == (0, f"{count} messages, nothing differs\n")


def test_the_records_of_the_table_are_what_the_coordinators_jar_says(tool, capsys, monkeypatch):
    """Two are of older releases: partition metadata of share groups and of consumer groups."""
    for artifact, count in (("kafka-group-coordinator", len(RECORDS) - 1),
                            ("kafka-share-coordinator", 2)):  # fmt: skip
        jar = jar_of(artifact, "4.4.0")
        assert told(tool, capsys, monkeypatch, jar) == (0, f"{count} messages, nothing differs\n")


@needs_schemas
@pytest.mark.parametrize(
    ("was", "now"),
    [
        (" generationId int32", " generationId int64"),
        ("Heartbeat 12 0-4 4+", "Heartbeat 12 0-4 3+"),
        ("Heartbeat 12 0-4 4+", "Heartbeat 12 0-3 4+"),
        ("Heartbeat 12 0-4 4+", "Heartbeat 55 0-4 4+"),
        (" groupInstanceId string? 3+ =null", " groupInstanceId string? 2+ =null"),
        (" groupInstanceId string? 3+ =null", " groupInstanceId string 3+ =null"),
        (" groupInstanceId string? 3+ =null", " groupInstanceId string? 3+"),
        (" clusterId string? 12+ #0 =null", " clusterId string? 12+ #4 =null"),
        ("   partitionMaxBytes int32\n", ""),
        (" maxBytes int32 3+ =2147483647", " maxBytes int32 3+ =1"),
    ],
)
def test_a_wrong_line_of_the_table_is_told(tool, capsys, monkeypatch, tmp_path, was, now):
    text = tool.TABLE.read_text("utf-8")
    assert was in text
    monkeypatch.setattr(tool, "TABLE", tmp_path / "schemas.txt")
    tool.TABLE.write_text(text.replace(was, now, 1), "utf-8")
    code, out = told(tool, capsys, monkeypatch, SCHEMAS)
    assert code == 1
    assert "in the table" in out


@needs_schemas
def test_the_table_is_written_from_the_schemas(tool, capsys, monkeypatch, tmp_path):
    text = tool.TABLE.read_text("utf-8")
    monkeypatch.setattr(tool, "TABLE", tmp_path / "schemas.txt")
    tool.TABLE.write_text(text, "utf-8")
    assert told(tool, capsys, monkeypatch, "--write", SCHEMAS) == (0, "")
    written = schemas.sections(tool.TABLE.read_text("utf-8"))
    assert sum("request" in section.parts for section in written.values()) == 38
    records = [name for name, section in schemas.SECTIONS.items() if "request" not in section.parts]
    assert list(written)[38:] == records
    table = schemas.sections(text)
    for name, section in written.items():
        if section.last == table[name].last:  # others have versions that are newer than the sources
            assert section == table[name]


def every_name(fields):
    for field in fields:
        yield field[0]
        yield from (f"{field[0]}.{name}" for name in every_name(field[-1]))


def names_in(body, fields):
    """What a filled body has of the fields, where it has an example of them."""
    for field in fields:
        assert field[0] in body, field[0]
        yield field[0]
        below = body[field[0]]
        below = below[0] if isinstance(below, list) and below else below
        if field[-1] and isinstance(below, dict):
            yield from (f"{field[0]}.{name}" for name in names_in(below, field[-1]))


def body_of_all(fields):
    """A body with one element in every list of structs."""
    return {
        field[0]: [body_of_all(field[-1])] if field[1] == "[]struct" else body_of_all(field[-1])
        for field in fields
        if field[-1]
    } | {field[0]: b"" for field in fields if field[1] == "records"}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_filled_body_has_every_field_of_any_version(direction):
    for api in wire.APIS.values():
        section = schemas.SECTIONS[api.name]
        fields = section.fields(direction)
        for version in (section.first, section.last):
            body = body_of_all(fields)
            if direction == "request":
                frame = wire.encode_request(api.key, version, body)
                found = wire.decode_request(frame, fill=True).body
            else:
                frame = wire.encode_response(api.key, version, body)
                found = wire.decode_response(api.key, version, frame, fill=True).body
            assert set(found) == {field[0] for field in fields}
            assert set(names_in(found, fields)) <= set(every_name(fields))


def test_what_a_version_lacks_is_at_its_default():
    joined = wire.decode_request(wire.encode_request(11, 0, {}), fill=True).body
    assert joined == {
        "groupId": "", "sessionTimeoutMs": 0, "rebalanceTimeoutMs": -1, "memberId": "",
        "groupInstanceId": None, "protocolType": "", "protocols": [], "reason": None,
    }  # fmt: skip
    fetched = wire.decode_response(1, 4, wire.encode_response(1, 4, {}), fill=True).body
    assert fetched == {
        "throttleTimeMs": 0, "errorCode": 0, "sessionId": 0, "responses": [], "nodeEndpoints": [],
    }  # fmt: skip


def test_defaults_are_not_shared_between_messages():
    frame = wire.encode_response(1, 4, {})
    one, other = (wire.decode_response(1, 4, frame, fill=True).body for _ in range(2))
    one["nodeEndpoints"].append(1)
    assert other["nodeEndpoints"] == []
    frame = wire.encode_request(1, 4, {"topics": [{"partitions": [{}]}]})
    one, other = (wire.decode_request(frame, fill=True).body for _ in range(2))
    one["replicaState"]["replicaId"] = 7
    assert other["replicaState"]["replicaId"] == -1
