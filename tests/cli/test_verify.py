"""``coterie verify``: every fault of a log at its place, as JSON lines."""

import json
import os
import shutil
import struct

import pytest

from coterie.cli import run, verify
from support import golden_data
from support.commandline import coterie, coterie_ok
from support.insight.copies import history, write_copy
from support.log_writer import batch, commit

NO_FAULT = {  # Kafka loads them
    *("fine", "missing-batch", "offset-goes-back", "key-bad-utf8", "value-bad-utf8"),
    *("key-negative-version", "key-unknown-version", "value-trailing-bytes"),
}
KIND_OF = {  # beginning of a case's name -> kind, as the specification of `verify` has them
    "codec-mismatch": "records",
    "codec-unknown": "codec",
    "control": "marker",
    "count": "records",
    "flipped": "crc",
    "garbage": "length",
    "group-value": "value",
    "key": "key",
    "length-below": "crc",
    "length-one-more": "crc",
    "length": "length",
    "magic-1": "crc",
    "magic": "magic",
    "record": "records",
    "short-zero-tail": "tail",
    "zero-tail": "tail",
    "truncated-in-length": "tail",
    "truncated": "length",
    "value": "value",
}

GAP = "coterie: offsets without a batch:"


def verified(*logs):
    ran = coterie("verify", *logs)
    return ran.returncode, faults_in(ran.stdout), ran.stderr


def faults_in(text):
    """The faults; the batches of a made log may also have times that go back."""
    entries = [json.loads(line) for line in text.splitlines()]
    return [entry for entry in entries if entry["kind"] != "clock"]


def kind_of(case):
    return next(kind for name, kind in KIND_OF.items() if case.startswith(name))


@pytest.mark.parametrize("case", sorted(set(golden_data.corrupt_cases()) - NO_FAULT))
def test_a_fault_is_told_at_its_place(case, capsys):
    expect = golden_data.json_of(f"corrupt/{case}", "expect.json")
    folder = golden_data.log(f"corrupt/{case}")
    assert run(["verify", str(folder)]) == 1
    output = capsys.readouterr()
    assert [line for line in output.err.splitlines() if not line.startswith(GAP)] == []
    first = json.loads(output.out.splitlines()[0])
    assert list(first) == ["file", "position", "base_offset", "kind", "offset", "detail"]
    place = folder / f"__consumer_offsets-{expect['partition']}" / expect["segment"]
    assert first["file"] == str(place)
    assert (first["position"], first["kind"]) == (expect["fault_position"], kind_of(case))
    assert first["base_offset"] == expect["fault_base_offset"]
    assert (first["offset"] is not None) == (first["kind"] in {"key", "value"})
    assert first["detail"]


def test_a_log_without_a_fault_is_verified_in_silence():
    ran = coterie_ok("verify", golden_data.log("basic"))
    assert ran.stdout == ran.stderr == ""


def test_what_kafka_loads_is_no_fault(tmp_path):
    for number, case in enumerate(sorted(NO_FAULT)):
        (segment,) = golden_data.segments(f"corrupt/{case}")
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        shutil.copy(segment, folder)
    ran = coterie_ok("verify", tmp_path)
    assert faults_in(ran.stdout) == []
    assert [line[: len(GAP)] for line in ran.stderr.splitlines()] == [GAP]  # missing-batch


def test_every_fault_is_told_and_the_segments_after_one_are_read(tmp_path):
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    places = []
    for base, case in ((0, "flipped-crc"), (1000, "truncated-mid-batch"), (2000, "value-empty")):
        (segment,) = golden_data.segments(f"corrupt/{case}")
        copy = folder / f"{base:020d}.log"
        shutil.copy(segment, copy)
        fault = golden_data.json_of(f"corrupt/{case}", "expect.json")["fault_position"]
        places.append((str(copy), fault, kind_of(case)))
    status, faults, _ = verified(folder)
    assert status == 1
    assert [(f["file"], f["position"], f["kind"]) for f in faults] == places


def test_what_kafka_set_aside_is_named_and_left_alone(tmp_path):
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    (segment,) = golden_data.segments("corrupt/fine")
    shutil.copy(segment, folder / segment.name)
    for name in ("00000000000000000400.log.deleted", "00000000000000000000.log.swap"):
        (folder / name).write_bytes(b"not a log")
    (folder / "00000000000000000000.index").write_bytes(b"not a log")
    aside = tmp_path / "__consumer_offsets-2.0d9bb4bfaf774f3c9cdb3e6a5c6e9c0f-delete"
    aside.mkdir()
    (aside / segment.name).write_bytes(b"not a log")
    ran = coterie_ok("verify", tmp_path)
    (line,) = ran.stderr.splitlines()
    first = min(str(aside), str(folder / "00000000000000000000.log.swap"))
    assert line == f"coterie: 3 files left alone, set aside by Kafka (the first: {first})"


def test_a_folder_whose_name_is_not_utf8_is_spelled_out(tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9/__consumer_offsets-1"
    try:
        os.makedirs(folder)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (segment,) = golden_data.segments("corrupt/magic-3")
    shutil.copy(segment, os.fsdecode(folder))
    status, (fault,), _ = verified(os.fsdecode(folder))
    assert (status, fault["kind"]) == (1, "magic")
    assert fault["file"] == f"{tmp_path}/caf\\udce9/__consumer_offsets-1/{segment.name}"
    ran = coterie_ok("replay", os.fsdecode(folder), "--out", tmp_path / "o", "--engine", "local")
    assert "caf\\udce9" in ran.stderr


def test_a_bare_segment_is_verified_under_any_folder(tmp_path):
    (segment,) = golden_data.segments("corrupt/magic-3")
    copy = tmp_path / "copy.log"
    shutil.copy(segment, copy)
    status, (fault,), _ = verified(copy)
    assert (status, fault["file"], fault["kind"]) == (1, str(copy), "magic")


def test_an_epoch_that_rises_by_two_is_a_hint_and_no_fault(tmp_path):
    batches = history(0, 1, 3) + history(3, 2, 2) + history(5, 4, 2) + history(7, 9, 1)
    copy = write_copy(tmp_path / "a", batches, cuts=(5,))
    status, faults, stderr = verified(copy)
    assert (status, faults) == (0, [])
    (line,) = stderr.splitlines()
    assert f"{5:020}.log, byte 0)" in line
    assert "partition 0: the leader epoch rises from 2 to 4 at offset 5" in line
    assert "(the first of 2 such places)" in line


def test_an_epoch_that_rises_where_offsets_are_missing_is_no_hint(tmp_path):
    """Compaction may have removed the records of the epochs in between."""
    batches = history(0, 1, 3) + history(3, 2, 1) + history(4, 3, 2)
    copy = write_copy(tmp_path / "a", batches, removed={3})
    status, faults, stderr = verified(copy)
    assert (status, faults) == (0, [])
    (line,) = stderr.splitlines()
    assert line.startswith(f"{GAP} 3 to 3 of partition 0 (")


@pytest.mark.parametrize("case", ["corrupt/value-empty", "corrupt/flipped-crc"])
def test_a_fault_has_its_place_in_the_segment_however_short_the_pieces_are(case, monkeypatch):
    whole = coterie("verify", golden_data.log(case))
    monkeypatch.setattr(verify, "PIECE_BYTES", 1)  # each batch is one
    assert coterie("verify", golden_data.log(case)).stdout == whole.stdout != ""


@pytest.mark.parametrize(("base_offset", "named"), [(1, None), (2, 2), (9, 9)])
@pytest.mark.parametrize("piece_bytes", [1, 32 << 20])
def test_a_batch_of_a_wrong_length_has_its_offset_if_it_goes_on_from_the_one_before(
    tmp_path, monkeypatch, piece_bytes, base_offset, named
):
    monkeypatch.setattr(verify, "PIECE_BYTES", piece_bytes)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    damaged = struct.pack(">qi", base_offset, 3) + b"\xff" * 40
    (folder / f"{0:020}.log").write_bytes(batch(0, [commit(5), commit(6)]) + damaged)
    fault = json.loads(coterie("verify", folder).stdout.splitlines()[0])
    assert (fault["kind"], fault["base_offset"]) == ("length", named)


def test_missing_offsets_are_one_line_and_no_fault(tmp_path):
    """Between batches, segments and not before the first one; of each partition."""
    segments = {"3": {5: (5, 6), 20: (22, 23)}, "7": {0: (0, 4, 5)}}
    for number, files in segments.items():
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        for base, offsets in files.items():
            data = b"".join(batch(at, [commit(at)]) for at in offsets)
            (folder / f"{base:020}.log").write_bytes(data)
    result = coterie("verify", tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
    place = tmp_path / "__consumer_offsets-3" / f"{20:020}.log"
    assert result.stderr == (
        f"{GAP} 7 to 21 of partition 3 ({place}, byte 0), 18 in all; compaction removes records, "
        "so this is no fault\n"
    )


def test_a_log_without_a_missing_offset_has_no_line(tmp_path):
    data = batch(3, [commit(1), commit(2)]) + batch(5, [commit(3)])
    (tmp_path / f"{3:020}.log").write_bytes(data)
    assert coterie_ok("verify", tmp_path / f"{3:020}.log").stderr == ""
