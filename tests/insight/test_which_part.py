"""The requested part of a log: --since, --until, patterns for --group, --engine auto."""

import json

import pytest

from coterie.base.times import format_time
from coterie.cli import undo, undo_warnings
from coterie.log.folders import is_url
from coterie.state.replay_engine import SPARK_FROM_BYTES, choose_engine
from support.commandline import coterie, coterie_ok, fails
from support.golden_data import log, records
from support.log_writer import batch, commit

BASIC = log("basic")
TIMES = sorted(record["timestamp"] for record in records("basic"))
FIRST, MIDDLE, LAST = TIMES[0], TIMES[len(TIMES) // 2], TIMES[-1]


def rows(*arguments):
    done = coterie(*arguments, "--format", "json")
    assert done.returncode == (arguments[0] == "audit"), done.stderr  # 1: something was found
    return json.loads(done.stdout)


def log_of(home, *named):
    """A log with a commit for each group, 1,000 ms apart."""
    folder = home / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    batches = [batch(at, [commit(1000 * at, 5, group=name)]) for at, name in enumerate(named, 1)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    return home


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        (("--since", MIDDLE), MIDDLE, LAST),
        (("--until", MIDDLE), FIRST, MIDDLE),
        (("--at", MIDDLE), FIRST, MIDDLE),
        (("--since", MIDDLE, "--until", MIDDLE + 1000), MIDDLE, MIDDLE + 1000),
    ],
)
def test_records_are_those_of_the_time(options, first, last):
    lines = coterie_ok("records", BASIC, *options).stdout.splitlines()
    expected = [r["offset"] for r in records("basic") if first <= r["timestamp"] <= last]
    assert [json.loads(line)["offset"] for line in lines] == expected


@pytest.mark.parametrize("command", ["explain", "audit", "expire", "growth", "metrics"])
def test_a_question_up_to_a_time_is_that_of_a_log_that_ends_there(command, tmp_path):
    more = ("--now", LAST) if command == "expire" else ()
    until = rows(command, BASIC, "--until", MIDDLE, *more)
    assert until != rows(command, BASIC, *more)
    if command in ("explain", "metrics"):
        assert until == rows(command, BASIC, "--at", MIDDLE, *more)
    assert all((row.get("timestamp") or 0) <= MIDDLE for row in until)


@pytest.mark.parametrize("command", ["explain", "audit"])
def test_what_is_reported_since_a_time_is_what_a_log_tells_of_it(command):
    """Except for counts, which begin there, and rows that count over the whole log."""
    retained = ("generation", "empty", "static_replacement", "rewind", "reset")
    every = [row for row in rows(command, BASIC) if row.get("event", "rewind") in retained]
    since = [
        row
        for row in rows(command, BASIC, "--since", MIDDLE)
        if row.get("event", "rewind") in retained
    ]
    assert since == [row for row in every if row["timestamp"] >= MIDDLE]
    assert 0 < len(since) < len(every)


def test_lags_are_those_of_the_samples_in_between(tmp_path):
    file = tmp_path / "ends.csv"
    file.write_text(
        "time,topic,partition,offset\n" + "".join(f"{n}000,t,0,9\n" for n in range(1, 5))
    )
    arguments = ("lag", log_of(tmp_path, b"g", b"g", b"g", b"g"), "--end-offsets", file)
    lag_rows = rows(*arguments, "--since", 2000, "--until", 3000)
    assert [(row["time"], row["lag"]) for row in lag_rows] == [(2000, 4), (3000, 4)]
    assert [row["time"] for row in rows(*arguments, "--latest", "--until", 3000)] == [3000]


def test_growth_counts_the_records_of_the_time(tmp_path):
    folder = log_of(tmp_path, b"g", b"h", b"g")
    growth_rows = rows("growth", folder, "--since", 2000)
    assert sorted((row["group_id"], row["records"]) for row in growth_rows) == [("g", 1), ("h", 1)]


def test_a_report_begins_where_that_is_asked(tmp_path):
    arguments = ("report", BASIC, "--format", "markdown", "--group", "grp-reset-cli")
    whole, late = coterie_ok(*arguments).stdout, coterie_ok(*arguments, "--since", MIDDLE).stdout
    assert "| generation |" in whole
    assert len(late) < len(whole)
    assert not [line for line in late.splitlines() if line.startswith("| 2026-11-21T05:02:5")]
    assert (
        coterie_ok(*arguments, "--until", MIDDLE).stdout
        == coterie_ok(*arguments, "--at", MIDDLE).stdout
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("undo", "--all-groups", "--against-latest"),
        ("groups", "--list"),
        ("metrics",),
        ("explain",),
    ],
)
def test_a_time_after_the_newest_record_is_reported_to_be_so(arguments):
    command, *options = arguments
    done = coterie(command, BASIC, *options, "--at", LAST + 1)
    assert done.stderr.count(f"is after the newest record of the log, {format_time(LAST)}") == 1
    done = coterie(command, BASIC, *options, "--at", LAST)
    assert "newest record" not in done.stderr


def test_expiry_up_to_a_time_is_judged_then():
    expire_rows = rows("expire", BASIC, "--until", MIDDLE)
    assert expire_rows == rows("expire", BASIC, "--until", MIDDLE, "--now", MIDDLE)
    assert expire_rows != rows("expire", BASIC, "--until", MIDDLE, "--now", LAST)


NAMES = (b"pay", b"pay-1", b"Pay-2", b"[p]*", b"other")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["pay*"], ["pay", "pay-1"]),
        (["pay-?"], ["pay-1"]),
        (["[pP]ay-[0-9]"], ["Pay-2", "pay-1"]),
        (["pay*", "other"], ["other", "pay", "pay-1"]),
        (["[p]*"], ["[p]*"]),  # a group of exactly that name wins
        (["*"], ["Pay-2", "[p]*", "other", "pay", "pay-1"]),
    ],
)
def test_a_pattern_stands_for_the_groups_that_match_it(given, found, tmp_path):
    folder = log_of(tmp_path / "log", *NAMES)
    arguments = [word for name in given for word in ("--group", name)]
    expire_rows = rows("expire", folder, *arguments)
    assert sorted({row["group_id"] for row in expire_rows}) == found
    lines = coterie_ok("records", folder, *arguments).stdout.splitlines()
    assert sorted(json.loads(line)["key"]["data"]["group"] for line in lines) == found
    described = rows("groups", folder, "--describe", *arguments)
    assert sorted({row["group"] for row in described}) == found
    out = tmp_path / "out"
    coterie_ok("replay", folder, "--out", out, "--format", "json", *arguments)
    groups = json.loads((out / "groups.json").read_text())["groups"]
    assert sorted(group["group_id"] for group in groups) == found


@pytest.mark.parametrize("command", ["expire", "records", "report"])
def test_a_pattern_that_nothing_matches_is_reported(command, tmp_path):
    more = ("--out", tmp_path / "page.html") if command == "report" else ()
    log = log_of(tmp_path / "log", *NAMES)
    fails(command, log, "--group", "x*", *more, says="that matches 'x*'")


def test_a_reset_of_a_pattern_names_the_groups(tmp_path):
    folder = log_of(tmp_path, *NAMES)
    result = coterie_ok("undo", folder, "--group", "pay*", "--at", 10_000)
    assert result.stdout == "pay,t,0,5\npay-1,t,0,5\n"


def test_of_very_many_partitions_the_groups_are_reported(monkeypatch, tmp_path):
    folder = log_of(tmp_path, *NAMES)
    monkeypatch.setattr(undo, "ROWS_SHOWN", 4)
    monkeypatch.setattr(undo_warnings, "WARNINGS_SHOWN", 0)
    result = coterie_ok("undo", folder, "--all-groups", "--at", 2_000)
    assert "5 partitions of 5 groups; --against-latest shows each" in result.stderr
    lines = [line.split() for line in result.stderr.splitlines()]
    assert ["pay", "1", "0", "0", "0", "0"] in lines
    assert ["pay-1", "1", "0", "0", "0", "0"] in lines
    assert ["Pay-2", "0", "0", "1", "0", "0"] in lines
    assert "more warnings of this kind" in result.stderr


@pytest.mark.parametrize(
    ("master", "size_bytes", "has_spark", "chosen"),
    [
        (None, 5, True, "local"),
        (None, SPARK_FROM_BYTES, True, "local"),
        (None, SPARK_FROM_BYTES + 1, True, "spark"),
        (None, SPARK_FROM_BYTES + 1, False, "local"),
        ("local[2]", 5, True, "spark"),
        (None, None, True, "spark"),  # where only Spark reads
    ],
)
def test_auto_is_spark_for_a_large_log_or_a_master(
    master, size_bytes, has_spark, chosen, monkeypatch
):
    actual = object() if has_spark else None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: actual)
    assert choose_engine("auto", master, size_bytes) == chosen
    assert choose_engine("local", None, size_bytes) == "local"


def test_a_replay_says_that_it_works_in_this_process(tmp_path):
    done = coterie_ok("replay", log_of(tmp_path / "log", b"g"), "--out", tmp_path / "out")
    assert done.stderr.splitlines()[-1] == "replayed in this process (--engine spark: on Spark)"
    done = coterie("replay", tmp_path / "none", "--out", tmp_path / "other")
    assert len(done.stderr.splitlines()) == 1  # a failure is one line
    assert is_url("s3a://bucket")


def test_the_segments_that_stand_for_a_cleaned_one_are_read_if_all_are_there(tmp_path):
    folder = log_of(tmp_path, b"g") / "__consumer_offsets-0"
    one = [batch(at, [commit(1000 + at, at)]) for at in range(4)]
    (folder / f"{0:020d}.log").write_bytes(one[3])
    (folder / f"{0:020d}.log.deleted").write_bytes(one[0] + one[1])
    (folder / f"{2:020d}.log.deleted").write_bytes(one[2] + one[3])
    (folder / f"{4:020d}.log").write_bytes(b"")
    arguments = ("records", tmp_path, "--include-deleted")
    lines = coterie_ok(*arguments).stdout.splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [0, 1, 2, 3]
    (folder / f"{0:020d}.log.deleted").unlink()  # its first part is deleted
    done = coterie(*arguments)
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [3]
    assert "left alone, set aside by Kafka" in done.stderr
