"""The golden data are complete and unchanged."""

import gzip
import json

import pytest

from support import golden_data

# golden/logs/README.md: records of each case, and folders of `corrupt`
RECORDS = {
    "basic": 4_612,
    "default50": 4_140,
    "compression-gzip": 396,
    "compression-snappy": 464,
    "compression-lz4": 655,
    "compression-zstd": 275,
    "transactions": 230,
    "compacted": 2_994,
    "connect": 29,
    "kip848": 1_141,
    "old-formats": 773,
}


def test_every_case_of_the_readme_is_here():
    assert golden_data.cases() == sorted(RECORDS)
    assert len(golden_data.corrupt_cases()) == 47
    index = json.loads((golden_data.LOGS / "corrupt" / "index.json").read_text())
    assert sorted(entry["name"] for entry in index) == golden_data.corrupt_cases()


@pytest.mark.parametrize("case", RECORDS)
def test_a_case_has_its_records_and_segments(case):
    assert sum(1 for _ in golden_data.records(case)) == RECORDS[case]
    named = {record["segment"] for record in golden_data.records(case)}
    assert named <= {path.name for path in golden_data.segments(case)}


def test_batches_say_the_sizes_of_their_segments():
    """No byte was lost or translated on the way into the repository."""
    for case in golden_data.cases():
        end = {}
        for batch in golden_data.lines_of(case, "batches.jsonl.gz"):
            place = batch["partition"], batch["segment"]
            end[place] = max(end.get(place, 0), batch["position"] + batch["size"])
        for path in golden_data.segments(case):
            partition = int(path.parent.name.rpartition("-")[2])
            assert path.stat().st_size == end.get((partition, path.name), 0), path


def test_golden_files_can_be_rewritten_and_none_runs():
    for path in golden_data.GOLDEN.rglob("*"):
        if path.is_file():
            assert path.stat().st_mode & 0o311 == 0o200, path
            if path.suffix == ".gz":
                gzip.decompress(path.read_bytes())
