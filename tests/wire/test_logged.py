"""What a request log has is read by the table of messages, as Kafka's own JSON of golden frames."""

import json

import pytest

from coterie.coordinator.requestlog import DESCRIBES, HEARTBEATS
from coterie.wire import APIS
from coterie.wire.apis import READERS
from coterie.wire.logged import Logged, as_logged
from support.golden_data import SHARED
from support.wire.frames import DIRECTIONS, rows, tables

THERE = (SHARED / "golden/wire/schemas.json").exists()
OF_TABLE = {name.upper(): name for name in (api.name for api in APIS.values())}
READ = sorted((set(READERS) | HEARTBEATS | DESCRIBES) - {
    "STREAMS_GROUP_HEARTBEAT", "STREAMS_GROUP_DESCRIBE"})  # fmt: skip


def table_name(api):
    return OF_TABLE[api.replace("_", "")]


def versions(api):
    (found,) = [each for each in APIS.values() if each.name == table_name(api)]
    return range(found.first_version, found.last_version + 1)


def in_spans(version, *spans):
    """Whether a version is in all of these spans of schemas.json: ``0-3``, ``2+``, ``none``."""
    for span in spans:
        first, _, last = span.partition("-")
        if span == "none" or not (
            int(first[:-1]) <= version if span.endswith("+") else
            int(first) <= version <= int(last or first)
        ):  # fmt: skip
            return False
    return True


@pytest.mark.skipif(not THERE, reason="needs golden/wire")
@pytest.mark.parametrize("api", READ)
def test_kafkas_own_json_is_read_as_it_is(api):
    seen = 0
    for row in rows("frames"):
        if row["api"] == table_name(api):
            body = json.loads(json.dumps(row["body"]))
            found = as_logged(api, row["direction"], row["version"], body)
            assert type(found) is Logged
            assert found == body
            seen += 1
    assert seen


@pytest.mark.skipif(not THERE, reason="needs golden/wire")
@pytest.mark.parametrize("release", ["3.9.1", "4.1.1"])
@pytest.mark.parametrize("api", READ)
def test_what_a_version_lacks_or_may_leave_out_has_kafkas_default(api, release):
    schema = tables()[release]["apis"].get(table_name(api))
    if schema is None:
        pytest.skip(f"{release} has no such API")
    for direction in DIRECTIONS:
        of = schema[direction]
        for version in versions(api):
            if not in_spans(version, of["valid"]):
                continue
            found = as_logged(api, direction, version, {"unknown": 1})
            for name, _, spans, _, _, _, tagged, said, *_ in of["fields"]:
                has = in_spans(version, spans)
                assert found.has(name) is has
                # A default that is every field's default need not be in the table.
                default = None if said in ("", "false", "0", 0) else said
                if has and default is None and not (tagged and in_spans(version, tagged)):
                    with pytest.raises(KeyError):
                        found[name]
                elif default is not None:
                    assert plain(found[name]) == plain(default)
                else:
                    assert not found[name]
                assert found.get(name) is None
                assert name not in found


def plain(value):
    """A value as schemas.json writes a default."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_a_log_is_read_leniently():
    newer = as_logged("HEARTBEAT", "request", 99, {"groupId": "g", "new": [1], "memberId": "m"})
    assert newer == {"groupId": "g", "new": [1], "memberId": "m"}
    assert newer["groupInstanceId"] is None
    with pytest.raises(KeyError):
        newer["newer"]
    old = as_logged("OFFSET_COMMIT", "request", 7, {"generationId": 3, "topics": [{"name": "t"}]})
    assert (old["generationIdOrMemberEpoch"], old["retentionTimeMs"]) == (3, -1)
    assert old["topics"][0].has("partitions")
    assert as_logged("OFFSET_COMMIT", "request", 7, "") == ""
    assert as_logged("SOME_API", "request", 7, {"a": 1}) == {"a": 1}
    assert as_logged("JOIN_GROUP", "response", 9, {}).optional("skipAssignment") is False
