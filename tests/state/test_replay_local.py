"""``coterie replay --engine local`` compared with the state of Kafka's own coordinator."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import PartialState, ScanOptions, scan
from coterie.base.arrow_text import to_text
from coterie.state import output_files as files
from coterie.state import parallel_scan
from coterie.state.document import document_groups
from coterie.state.local_replay import replay, scan_state
from coterie.state.replay_engine import ReplayRequest, Silent
from support import golden_data
from support.commandline import coterie_ok
from support.examples import examples

pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra arrow")

CLASSIC = [case for case in golden_data.cases() if case != "kip848"]
MODES = {"load": "groups.json", "recover": "groups-recovered.json"}


def replayed(case, out, *, form="parquet", **options):
    out.mkdir()
    paths = (str(golden_data.log(case)),)
    return replay(ReplayRequest(paths, out, form, ScanOptions(**options)), Silent())


def tables(out):
    return {path.stem: pq.read_table(path) for path in sorted(out.glob("*.parquet"))}


def as_json(value):
    return json.loads(json.dumps(value, default=lambda b: base64.b64encode(b).decode()))


def groups_of(case, **options):
    state = scan_state((str(golden_data.log(case)),), ScanOptions(**options), Silent())
    return as_json(list(document_groups(state)))


@pytest.mark.parametrize("case", CLASSIC)
def test_a_replay_gives_what_kafkas_coordinator_holds(case):
    assert groups_of(case) == golden_data.json_of(case, "groups.json")["groups"]


def test_the_wide_log_gives_what_kafkas_coordinator_holds():
    import cramjam

    folder = golden_data.wide()
    golden = cramjam.zstd.decompress((folder / "groups.json.zst").read_bytes())
    state = scan_state((str(folder),), ScanOptions(), Silent())
    assert as_json(list(document_groups(state))) == json.loads(bytes(golden))["groups"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", golden_data.corrupt_cases())
def test_a_corrupt_log_gives_what_kafka_holds_after_the_same_fault(case, mode):
    path = f"corrupt/{case}"
    golden = golden_data.json_of(path, MODES[mode])["groups"]
    assert groups_of(path, on_fault=mode) == golden


@pytest.mark.parametrize("case", golden_data.corrupt_cases())
def test_skipping_reports_each_fault_once_at_its_place(case, tmp_path):
    expect = golden_data.json_of(f"corrupt/{case}", "expect.json")
    replayed(f"corrupt/{case}", tmp_path / "out")
    rows = tables(tmp_path / "out")["faults"].to_pylist()
    no_fault = {"fine", "missing-batch", "offset-goes-back", "key-bad-utf8", "value-bad-utf8"}
    no_fault |= {"key-negative-version", "key-unknown-version", "value-trailing-bytes"}
    if case in no_fault:
        assert rows == []
        return
    places = [row["position"] for row in rows]
    assert places == sorted(set(places))
    assert places[0] == expect["fault_position"]
    # A length that lies within the file leaves no whole batch behind it: one more fault.
    assert len(places) == 1 + (case in {"length-one-more", "length-below-v2-header"})


def test_types_and_offsets_of_the_newer_protocols_groups_are_kafkas():
    golden = golden_data.json_of("kip848", "groups.json")["groups"]
    ours = {group["group_id"]: group for group in groups_of("kip848")}
    fields = ("topic", "partition", "offset", "leader_epoch", "metadata")
    for group in golden:
        mine = ours[group["group_id"]]
        assert mine["type"] == group["type"].lower()
        assert [{f: o[f] for f in fields} for o in mine["offsets"]] == group["offsets"]


def test_members_of_the_newer_protocols_have_their_epochs_in_the_tables(tmp_path):
    replayed("kip848", tmp_path / "out")
    written = tables(tmp_path / "out")
    documents = {group["group_id"]: group for group in groups_of("kip848")}
    count = 0
    for row in written["members"].to_pylist():
        (member,) = [
            m for m in documents[row["group_id"]]["members"] if m["member_id"] == row["member_id"]
        ]
        assert row["member_epoch"] == member.get("member_epoch")
        assert row["subscribed_topics"] == member.get("subscribed_topics")
        # A table names the topics that its own partition of the log tells, the document all.
        for mine, whole in zip(
            row["current_assignment"] or (), member.get("current_assignment", ()), strict=True
        ):
            assert mine in (whole, {**whole, "topic": None})
        count += row["member_epoch"] is not None
    assert count > 5
    for row in written["groups"].to_pylist():
        assert row["type"] == documents[row["group_id"]]["type"]
        assert row["group_epoch"] == documents[row["group_id"]].get("group_epoch")


@pytest.mark.parametrize("case", ["transactions", "compacted", "old-formats", "connect", "basic"])
def test_parquet_and_json_say_the_same(case, tmp_path):
    replayed(case, tmp_path / "p")
    replayed(case, tmp_path / "j", form="json")
    groups = json.loads((tmp_path / "j/groups.json").read_text(encoding="utf-8"))["groups"]
    written = tables(tmp_path / "p")
    members, offsets = [], []
    for group in groups:
        members += [{"group_id": group["group_id"], **m} for m in group.pop("members")]
        offsets += [{"group_id": group["group_id"], **o} for o in group.pop("offsets")]
    for name, rows in {"groups": groups, "members": members, "offsets": offsets}.items():
        fields = list(rows[0]) if rows else []
        assert written[name].schema.names[0] == "group_id"
        assert plain(written[name].select(fields)) == in_order(rows)


def plain(table):
    """Rows as JSON has them: times in ms, bytes as base64."""
    from support.arrow_numbers import in_numbers

    rows = as_json(in_numbers(table).to_pylist())
    return in_order(rows)


def in_order(rows):
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def test_the_history_has_each_commit_with_its_outcome(tmp_path):
    replayed("transactions", tmp_path / "out", history=True)
    rows = {
        (row["offsets_partition"], row["log_offset"]): row
        for row in tables(tmp_path / "out")["commits"].to_pylist()
    }
    open_transactions, expected = {}, {}
    for record in golden_data.records("transactions"):
        place = (record["partition"], record["offset"])
        producer = (record["partition"], record["batch"]["producer_id"])
        if record["batch"]["is_control"]:
            outcome = {"COMMIT": "committed", "ABORT": "aborted"}[record["control"]["type"]]
            for waiting in open_transactions.pop(producer, ()):
                expected[waiting] = outcome
        elif record["key"]["version"] < 2:
            expected[place] = "committed"
            if record["batch"]["is_transactional"]:
                expected[place] = "pending"
                open_transactions.setdefault(producer, []).append(place)
            assert rows[place]["group_id"] == record["key"]["data"]["group"]
            assert rows[place]["tombstone"] == (record["value"] is None)
    assert {place: row["outcome"] for place, row in rows.items()} == expected
    assert set(expected.values()) == {"committed", "aborted", "pending"}


def test_history_as_json_lines_has_the_rows_of_the_table(tmp_path):
    replayed("transactions", tmp_path / "p", history=True)
    replayed("transactions", tmp_path / "j", form="json", history=True)
    lines = (tmp_path / "j/commits.jsonl").read_text(encoding="utf-8").splitlines()
    assert plain(tables(tmp_path / "p")["commits"]) == in_order(map(json.loads, lines))


def test_texts_that_are_not_utf8_read_as_java_reads_them_and_nulls_stay():
    pa = pytest.importorskip("pyarrow")
    data = [b"a", None, b"\xed\xa0\x80\xff", b""]
    assert to_text(pa.array(data, pa.large_binary())).to_pylist() == ["a", None, "\ufffd\ufffd", ""]


@pytest.mark.parametrize("case", ["value-bad-utf8", "key-bad-utf8"])
def test_names_and_metadata_that_are_not_utf8_are_in_every_table(case, tmp_path):
    replayed(f"corrupt/{case}", tmp_path / "out", history=True)
    written = tables(tmp_path / "out")
    column = "metadata" if case == "value-bad-utf8" else "group_id"
    assert any("\ufffd" in text for text in written["commits"][column].to_pylist())


DAMAGE = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=20)


@given(DAMAGE, st.sampled_from(["transactions", "connect"]), st.sampled_from(["load", "skip"]))
@settings(max_examples=examples(100))
def test_a_damaged_log_still_gives_tables_and_a_document(damage, case, on_fault):
    for path in golden_data.segments(case):
        data = bytearray(path.read_bytes())
        for at, flip in damage:
            if data:
                data[at % len(data)] ^= flip
        options = ScanOptions(on_fault=on_fault, history=True)
        state = scan(bytes(data), partition=0, options=options)
        groups = as_json(list(document_groups(state)))
        written = state.to_arrow()
        assert written["groups"].num_rows == len(groups)
        assert written["offsets"].num_rows == sum(len(group["offsets"]) for group in groups)


def test_every_group_metadata_record_is_a_generation(tmp_path):
    replayed("basic", tmp_path / "out")
    rows = tables(tmp_path / "out")["generations"].to_pylist()
    ours = {(row["offsets_partition"], row["log_offset"]): row for row in rows}
    count = 0
    for record in golden_data.records("basic"):
        if record.get("key") and record["key"]["version"] == 2:
            row = ours[record["partition"], record["offset"]]
            data = record["value"]["data"] if record["value"] else {}
            assert row["generation"] == data.get("generation")
            assert row["member_count"] == len(data.get("members", ()))
            count += 1
    assert count == len(rows)


def test_generations_written_while_reading_are_those_written_at_the_end(tmp_path, monkeypatch):
    replayed("basic", tmp_path / "end")
    monkeypatch.setattr(files, "GENERATIONS_BUFFERED", 10)
    monkeypatch.setattr(parallel_scan, "SCAN_PIECE_BYTES", 5000)
    replayed("basic", tmp_path / "reading")
    late, early = (tables(tmp_path / name)["generations"] for name in ("end", "reading"))
    assert plain(early) == plain(late)
    order = [(row["group_id"], row["log_offset"]) for row in early.to_pylist()]
    assert order != sorted(order)
    for group in {group for group, _ in order}:
        offsets = [offset for name, offset in order if name == group]
        assert offsets == sorted(offsets)


def test_a_time_keeps_the_records_up_to_it():
    records = list(golden_data.records("default50"))
    times = sorted(record["timestamp"] for record in records)
    at_ms = times[len(times) // 2]
    last = {}
    for record in records:
        if record["timestamp"] <= at_ms and record["key"]["version"] < 2:
            data = record["key"]["data"]
            key = data["group"], data["topic"], data["partition"]
            last[key] = record["value"] and record["value"]["data"]["offset"]
    ours = {
        (group["group_id"], o["topic"], o["partition"]): o["offset"]
        for group in groups_of("default50", at_ms=at_ms)
        for o in group["offsets"]
    }
    assert ours == {key: offset for key, offset in last.items() if offset is not None}
    assert 0 < len(ours) < 501


def test_a_group_that_is_asked_for_comes_alone():
    whole = {group["group_id"]: group for group in groups_of("basic")}
    names = sorted(whole)[3:5]
    assert groups_of("basic", groups=frozenset(names)) == [whole[name] for name in names]


def test_a_log_without_a_record_gives_empty_tables(tmp_path):
    folder = tmp_path / "__consumer_offsets-7"
    folder.mkdir()
    (folder / "00000000000000000000.log").touch()
    (tmp_path / "out").mkdir()
    summary = replay(ReplayRequest((str(folder),), tmp_path / "out"), Silent())
    assert (summary.files, summary.records, summary.groups) == (1, 0, 0)
    written = tables(tmp_path / "out")
    assert sorted(written) == ["faults", "generations", "groups", "members", "offsets"]
    assert all(table.num_rows == 0 for table in written.values())
    assert PartialState().to_arrow()["groups"].schema == written["groups"].schema


@pytest.mark.parametrize("case", ["basic", "corrupt/magic-3"])
def test_the_command_writes_the_same_document(case, tmp_path):
    out = tmp_path / "new" / "folder"
    log = golden_data.log(case)
    ran = coterie_ok("replay", log, "--out", out, "--engine", "local", "--format", "json")
    written = json.loads((out / "groups.json").read_text(encoding="utf-8"))
    assert written["groups"] == groups_of(case)
    assert ran.stdout == ""
    assert f"{len(written['groups'])} groups, {int('corrupt' in case)} fault" in ran.stderr
    assert [path.name for path in Path(out).parent.iterdir()] == ["folder"]


def test_compressed_segments_give_the_same_as_plain_ones(tmp_path):
    import gzip

    import cramjam

    for n, path in enumerate(golden_data.segments("compacted")):
        folder = tmp_path / path.parent.name
        folder.mkdir(exist_ok=True)
        data = path.read_bytes()
        if n % 3 == 0:
            (folder / f"{path.name}.zst").write_bytes(cramjam.zstd.compress(data))
        elif n % 3 == 1:
            (folder / f"{path.name}.gz").write_bytes(gzip.compress(data) + gzip.compress(b""))
        else:
            (folder / path.name).write_bytes(data)
    state = scan_state((str(tmp_path),), ScanOptions(), Silent())
    assert as_json(list(document_groups(state))) == groups_of("compacted")


def test_the_summary_says_from_when_on_a_compacted_log_can_be_trusted(tmp_path):
    summary = replayed("compacted", tmp_path / "out")
    last = {}
    for path in golden_data.segments("compacted"):
        last[int(path.parent.name.rpartition("-")[2])] = path.name
    starts = {}
    for record in golden_data.records("compacted"):
        if record["segment"] == last[record["partition"]]:
            starts.setdefault(record["partition"], record["timestamp"])
    for partition, since_ms in summary.trusted_from_ms.items():
        assert since_ms >= starts[partition]
    assert set(summary.trusted_from_ms) == set(last)
    assert replayed("basic", tmp_path / "basic").trusted_from_ms == {}
