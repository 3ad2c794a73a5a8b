"""``coterie records`` against Kafka's own decode of every record of the golden logs."""

import gzip
import json
from pathlib import Path

import cramjam
import pytest

from coterie import scan
from coterie.cli.records import fault_printer
from coterie.log.folders import find_segments, read_segment
from coterie.log.records import JsonLines, segment_records, to_json
from coterie.messages import encode_batch, encode_value
from support.commandline import coterie, fails
from support.golden_data import LOGS, cases, corrupt_cases, segments, wide
from support.log_writer import commit, each
from support.messages import RECORDS
from support.unknown_versions import example, key_of


def golden_rows(path, limit=None):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][:limit]


def without_errors(row):
    """Replace each ``error``, whose text is coterie's own."""
    if isinstance(row, dict):
        return {
            name: True if name == "error" else without_errors(item) for name, item in row.items()
        }
    return [without_errors(item) for item in row] if isinstance(row, list) else row


def decode(case, tell=None):
    """Yield the rows of all segments of a case, through JSON."""
    for path in segments(case):
        number = int(path.parent.name.rpartition("-")[2])
        data = path.read_bytes()
        for row in segment_records(data, partition=number, segment=path.name, on_fault=tell):
            yield json.loads(to_json(row))


@pytest.mark.parametrize("case", cases())
def test_records_equal_kafkas_own_decode(case):
    rows, expected = list(decode(case)), golden_rows(LOGS / case / "records.jsonl.gz")
    assert len(rows) == len(expected)
    for row, known in zip(rows, expected, strict=True):
        assert without_errors(row) == without_errors(known)


@pytest.mark.parametrize("case", corrupt_cases())
def test_records_before_a_fault_are_all_there_and_each_fault_is_told(case):
    folder = LOGS / "corrupt" / case
    before = json.loads((folder / "expect.json").read_text())["records_before"]
    told = []
    rows = list(decode(f"corrupt/{case}", tell=lambda *fault: told.append(fault)))
    assert rows[:before] == golden_rows(folder / "records.jsonl.gz", before)
    (path,) = segments(f"corrupt/{case}")
    (fold,) = scan(path.read_bytes()).partitions.values()
    assert [fault[:4] for fault in told] == [fault[1:5] for fault in fold.faults]


@pytest.mark.parametrize("case", corrupt_cases())
def test_of_a_corrupt_log_all_that_is_read_is_as_kafka_reads_it(case):
    """Kafka stops at some faults; it goes on with batches whose checksum is wrong."""
    known = {
        (row["batch"]["position"], row["offset"]): row
        for row in golden_rows(LOGS / "corrupt" / case / "records.jsonl.gz")
    }
    rows = {(row["batch"]["position"], row["offset"]): row for row in decode(f"corrupt/{case}")}
    beyond = {place for place in rows if place > max(known)}
    assert rows.keys() - beyond <= known.keys()
    for place in rows.keys() - beyond:
        assert without_errors(rows[place]) == without_errors(known[place])
    left_out = {known[place]["batch"]["position"] for place in known.keys() - rows.keys()}
    expect = json.loads((LOGS / "corrupt" / case / "expect.json").read_text())
    assert left_out <= {expect["fault_position"]}


@pytest.mark.parametrize("case", [*cases(), *(f"corrupt/{name}" for name in corrupt_cases())])
def test_the_fast_way_to_a_line_gives_the_same_line(case):
    lines = JsonLines()
    for path in segments(case):
        for row in segment_records(path.read_bytes(), partition=None, segment='"x".log'):
            assert lines.line(row) == to_json(row)


TAGS = [(7, b"\xab\xcd"), (1 << 31, b"")]
TAGS_AS_JSON = [[7, "q80="], [1 << 31, ""]]


def with_tags(value, tags):
    """The same with these tagged fields in each struct."""
    if isinstance(value, dict):
        return {name: with_tags(item, tags) for name, item in value.items()} | {
            "_unknown_tags": tags
        }
    return [with_tags(item, tags) for item in value] if isinstance(value, list) else value


def test_every_tagged_field_is_shown_known_or_not_and_records_with_unknown_ones_are_counted(
    tmp_path,
):
    """Kafka's converters drop the unknown ones. Text that looks like one counts for none."""
    records, expected = [], []
    for version, (_, section) in RECORDS.items():
        for tags in (None, TAGS):
            data = example(section.fields("value")) | {"topicId": "AAAAAAAAAAEAAAAAAAAAAQ"}
            data |= {"metadata": '"_unknown_tags":', "expireTimestamp": 1}
            data = {name: data[name] for name, *_ in section.fields("value")}
            value = {"version": section.last, "data": with_tags(data, tags) if tags else data}
            records.append((len(records), 1000, key_of(version), encode_value(version, value)))
            data.pop("expireTimestamp", None)  # of version 1 alone
            expected.append(with_tags(data, TAGS_AS_JSON) if tags else data)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(encode_batch(records))
    done = coterie("records", tmp_path)
    assert [json.loads(line)["value"]["data"] for line in done.stdout.splitlines()] == json.loads(
        to_json(expected)
    )
    assert done.stderr.startswith(f"coterie: {len(RECORDS)} records have tagged fields that ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("case", ["transactions", "compression-lz4", "corrupt/value-truncated"])
def test_the_command_prints_every_record_as_one_line(case):
    done = coterie("records", LOGS / case)
    assert done.returncode == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == list(decode(case))
    assert len(done.stderr.splitlines()) == (1 if case.startswith("corrupt") else 0)


def test_a_group_keeps_its_records_alone():
    done = coterie("records", LOGS / "basic", "--group", "grp-mix-all", "--group", "grp-pattern")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [
        row
        for row in golden_rows(LOGS / "basic" / "records.jsonl.gz")
        if row["key"]["data"]["group"] in {"grp-mix-all", "grp-pattern"}
    ]
    assert rows == expected
    assert rows


@pytest.mark.parametrize("group", [(), ("--group", "c-assign-early1")])
def test_records_from_a_place_on_are_the_last_ones_of_the_partition(group):
    log = LOGS / "compacted"
    every = [json.loads(line) for line in coterie("records", log, *group).stdout.splitlines()]
    of_partition = [row for row in every if row["partition"] == 2]
    for offset in (0, 4468, 4469, 4470, 6500, 6818, 9999):  # segments begin at 4469 and 6818
        done = coterie("records", log, *group, "--partition", 2, "--offset", offset)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert rows == [row for row in of_partition if row["offset"] >= offset]
        assert (done.returncode, done.stderr) == (0, "")
    fails("records", log, "--partition", 9, says="there is no partition 9")
    fails("records", log, "--offset", 9, status=2, says="--offset needs --partition")


def test_the_wide_log_has_all_its_records():
    done = coterie("records", wide() / "__consumer_offsets-3")
    assert done.returncode == 0
    assert done.stdout.count("\n") == json.loads(done.stdout.splitlines()[-1])["offset"] + 1


@pytest.mark.slow
def test_every_record_of_the_wide_log_equals_kafkas_own_decode():
    expected = bytes(cramjam.zstd.decompress((wide() / "records.jsonl.zst").read_bytes()))
    lines, known = JsonLines(), iter(expected.splitlines())
    for segment in find_segments([wide()]).segments:
        name = Path(segment.path).name.removesuffix(".zst")
        data = read_segment(segment)
        for row in segment_records(data, partition=segment.partition, segment=name):
            assert json.loads(lines.line(row)) == json.loads(next(known))
    assert next(known, None) is None


@pytest.mark.parametrize(
    ("value", "epoch"),
    [
        (b"", None),
        (bytes(2) + b"\x00\x00\x01", None),
        (bytes(2) + b"\x00\x00\x01\x02", 0x102),
        (b"\x00\x01" + b"\xff\xff\xff\xff" + b"more", -1),
    ],
)
@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("00000000", "ABORT"),
        ("00000001", "COMMIT"),
        ("7fff0001", "COMMIT"),
        ("0000000100", "COMMIT"),
        ("00000002", "LEADER_CHANGE"),
        ("00000007", "UNKNOWN"),
        ("00000101", "UNKNOWN"),
        ("0000ffff", "UNKNOWN"),
        ("80000001", "UNKNOWN"),
        ("000001", "UNKNOWN"),
        (None, "UNKNOWN"),
    ],
)
def test_a_marker_shows_its_type_and_the_epoch_behind_the_version_if_it_is_there(
    key, name, value, epoch
):
    """EndTransactionMarker: int16 version, int32 epoch; ControlRecordType: two int16."""
    data = encode_batch(
        [(0, 1000, key and bytes.fromhex(key), value)],
        producer_id=7, producer_epoch=0, transactional=True, control=True,
    )  # fmt: skip
    (row,) = segment_records(data, partition=0, segment="s")
    assert row["control"]["type"] == name
    if name in ("ABORT", "COMMIT"):
        assert row["control"].get("coordinator_epoch") == epoch
    else:
        assert "coordinator_epoch" not in row["control"]


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x01", b"\x00\x01\x00\x09g"])
def test_a_record_that_cannot_be_read_keeps_its_bytes_and_the_version_as_far_as_they_are_there(key):
    for value in (b"", b"\x00", b"\x00\x01", b"\x00\x03\x00"):
        data = encode_batch([(0, 1000, key, value)])
        (row,) = segment_records(data, partition=0, segment="s")
        for side, raw in (("key", key), ("value", value)):
            version = int.from_bytes(raw[:2], "big") if len(raw) >= 2 else None
            assert (row[side]["raw"], row[side]["version"]) == (raw, version)
            assert row[side]["error"]
        assert ("type" in row["key"]) == (len(key) >= 2)


@pytest.mark.parametrize(
    "keys",
    [
        ["ffff0001"],
        ["80000001"],
        ["7fff0001"],
        ["00000009", "00000009"],
        ["00000001", "00000009"],
        [None],
        [""],
        ["000000"],
    ],
)
def test_a_marker_is_told_as_the_fold_judges_it_by_its_first_record(keys):
    keys = [None if key is None else bytes.fromhex(key) for key in keys]
    pairs = [(i, 1000, key, bytes(6)) for i, key in enumerate(keys)]
    data = encode_batch(pairs, producer_id=7, producer_epoch=0, transactional=True, control=True)
    told = []
    tell = lambda *fault: told.append(fault)  # noqa: E731
    rows = list(segment_records(data, partition=0, segment="s", on_fault=tell))
    (fold,) = scan(data).partitions.values()
    assert [fault[:4] for fault in told] == [fault[1:5] for fault in fold.faults]
    assert len(rows) == len(keys)
    assert (rows[0]["control"]["type"] == "COMMIT") == (not told)


@pytest.mark.parametrize("at_once", [1, 2, 5, 6, 2_000])
def test_each_record_is_printed_once_however_many_lines_are_written_at_once(
    tmp_path, monkeypatch, at_once
):
    monkeypatch.setattr("coterie.cli.records.LINES_AT_ONCE", at_once)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    data = b"".join(each(0, *(commit(1_000 + at, at) for at in range(5))))
    (folder / f"{0:020}.log").write_bytes(data)
    lines = coterie("records", tmp_path).stdout.splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("offset", "place"), [(None, "byte 5"), (0, "byte 5, offset 0")])
def test_a_fault_is_printed_with_its_byte_and_the_offset_of_its_record(capsys, offset, place):
    fault_printer("a.log")(5, 3, "crc", offset, "wrong sum")
    assert capsys.readouterr().err == f"coterie: a.log: {place}: crc: wrong sum\n"
