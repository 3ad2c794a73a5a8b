"""Forms of the output that a command has besides its usual table."""

import csv
import io
import json

import pytest

from coterie.cli.watch import copy_folder
from support.commandline import coterie_ok
from support.log_writer import batch, commit


@pytest.fixture
def log(tmp_path):
    """A log of the groups ``g`` and ``h``; ``g`` commits to three partitions of ``t``."""
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    commits = [commit(5, 7, partition=number) for number in range(3)]
    commits.append(commit(6, 1, group=b"h"))
    (folder / f"{0:020}.log").write_bytes(batch(0, commits))
    return tmp_path / "log"


def test_the_totals_of_a_lag_have_a_row_for_each_group_and_time(log, tmp_path):
    ends = tmp_path / "ends.txt"
    ends.write_text("t:0:10\nt:1:9\n")
    ask = ("lag", log, "--end-offsets", ends, "--totals")
    rows = json.loads(coterie_ok(*ask, "--format", "json").stdout)
    columns = ("group_id", "partitions", "lag", "unknown")
    assert [[row[name] for name in columns] for row in rows] == [["g", 3, 5, 1], ["h", 1, 9, 0]]
    heading, *lines = [
        line.split() for line in coterie_ok(*ask).stdout.splitlines() if line.strip()
    ]
    assert {"PARTITIONS", "LAG", "UNKNOWN"} <= set(heading)
    assert "TOPIC" not in heading
    assert [line[0] for line in lines if line[0] in "gh"] == ["g", "h"]


@pytest.mark.parametrize(
    ("form", "read"),
    [("json", json.loads), ("csv", lambda text: list(csv.DictReader(io.StringIO(text))))],
)
def test_a_list_of_groups_as_data_has_all_columns(log, form, read):
    rows = read(coterie_ok("groups", log, "--list", "--format", form).stdout)
    assert [row["group"] for row in rows] == ["g", "h"]
    for row in rows:
        assert (row["type"], row["state"]) == ("Classic", "Empty")
        assert not row["protocol_type"]


def test_the_copy_of_a_cluster_lies_in_the_data_or_is_removed_at_the_end(tmp_path):
    with copy_folder(tmp_path) as folder:
        assert folder == tmp_path / "copy"
    with copy_folder(None) as folder:
        (folder / "segment").touch()
    assert not folder.exists()
