"""``--at`` in every command with this option: records without a time always count."""

import json

import pytest

from coterie.messages import encode_message_set
from support import log_writer
from support.commandline import coterie, coterie_ok

TIMES = ["-9223372036854775807", "-3", "-2", "-1", "0", "999"]


def commit(partition, offset):
    key = log_writer.commit_key(1, b"g", b"t", partition)
    return key, log_writer.commit_value(offset, -1, b"", 500)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Offset 7 of `t`-0 in a message of magic 0, offset 8 of `t`-1 in a batch of the time 1000."""
    folder = tmp_path_factory.mktemp("log") / "__consumer_offsets-0"
    folder.mkdir()
    old = encode_message_set([(0, -1, *commit(0, 7))], 0)
    (folder / f"{0:020}.log").write_bytes(old + log_writer.batch(1, [(1000, *commit(1, 8))]))
    return folder.parent


def told(*args):
    return json.loads(coterie_ok(*args).stdout)


@pytest.mark.parametrize("at", TIMES)
def test_every_view_of_offsets_has_those_of_magic_0_as_of_any_time(at, log, tmp_path):
    expected = [("t", 0, 7)]
    rows = told("groups", log, "--describe", "--group", "g", f"--at={at}", "--format", "json")
    assert [(row["topic"], row["partition"], row["current_offset"]) for row in rows] == expected
    rows = told("undo", log, "--group", "g", f"--at={at}", "--format", "json")
    found = [(row["topic"], row["partition"], row["offset"]) for row in rows]
    assert found == [*expected, ("t", 1, None)]
    ends = tmp_path / "ends"
    ends.write_text("t:0:9\n")
    rows = told("lag", log, "--end-offsets", ends, f"--at={at}", "--format", "json")
    found = [(row["topic"], row["partition"], row["offset"]) for row in rows]
    assert found == [*expected, ("t", 1, None)]
    rows = told("metrics", log, f"--at={at}", "--format", "json")
    found = [(row["topic"], row["partition"], row["offset"]) for row in rows if row["topic"]]
    assert found == expected
    out = tmp_path / "out"
    options = ("--format", "json", "--engine", "local", "--out", out)
    coterie_ok("replay", log, f"--at={at}", *options)
    (group,) = json.loads((out / "groups.json").read_text())["groups"]
    found = [(one["topic"], one["partition"], one["offset"]) for one in group["offsets"]]
    assert found == expected


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        *((f"--{name}={at}", [0]) for name in ("at", "until") for at in TIMES),
        ("--at=1000", [0, 1]),
        ("--since=1000", [0, 1]),
        ("--since=1001", [0]),
        ("--since=5000 --until=6000", [0]),
    ],
)
def test_records_have_those_of_magic_0_as_of_any_time_and_since_any(options, offsets, log):
    rows = [
        json.loads(line)
        for line in coterie_ok("records", log, *options.split()).stdout.splitlines()
    ]
    assert [row["offset"] for row in rows] == offsets


@pytest.mark.parametrize(("until", "partitions"), [*((at, [0]) for at in TIMES), ("1000", [0, 1])])
def test_questions_of_a_span_have_those_of_magic_0_whenever_it_ends(until, partitions, log):
    options = (f"--until={until}", "--format", "json")
    rows = told("expire", log, *options)
    assert [row["partition"] for row in rows] == partitions
    (row,) = (row for row in told("growth", log, *options) if row["kind"] == "commits")
    assert (row["records"], row["keys"]) == (len(partitions), len(partitions))
    commits, _ = told("explain", log, *options)
    assert (commits["event"], commits["count"]) == ("commits", len(partitions))


@pytest.mark.parametrize("until", TIMES)
def test_an_audit_has_those_of_magic_0_whenever_it_ends(until, tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    back = encode_message_set([(n, -1, *commit(0, offset)) for n, offset in enumerate((9, 5))], 0)
    later = log_writer.batch(2, [(1000, *commit(0, 7)), (1000, *commit(0, 3))])
    (folder / f"{0:020}.log").write_bytes(back + later)
    rows = json.loads(coterie("audit", tmp_path, f"--until={until}", "--format", "json").stdout)
    assert [(row["offset"], row["log_offset"]) for row in rows] == [(5, 1)]


@pytest.mark.parametrize("at", ["-2", "1000"])
def test_explain_and_report_know_the_group_that_magic_0_tells_of(at, log, tmp_path):
    assert coterie_ok("explain", log, "--group", "g", f"--at={at}").stdout
    pytest.importorskip("jinja2")
    coterie_ok("report", log, "--group", "g", f"--at={at}", "-o", tmp_path / "page.html")
