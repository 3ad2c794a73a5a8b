"""What --at, --since and --until mean on a log whose clock went back: docs/log.md.

A place in the log and the records' own times give different answers, and each command says so.
"""

import contextlib
import csv
import gzip
import importlib
import io
import json

import click
import pytest

from coterie.cli import COMMANDS
from support.clock_back import AT, COUNTED_HERE, write_clock_back
from support.commandline import coterie, coterie_ok
from support.golden_data import GOLDEN

OPTIONS = {"--at", "--since", "--until", "--before"}
ENDS = ("--end-offsets", "ends.txt")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = write_clock_back(tmp_path_factory.mktemp("clock"))
    (folder / "ends.txt").write_text("t:0:100\n")
    return folder


def rows(*columns):
    """Read --format csv: the columns of each row with a value in all of them."""

    def read(output):
        table = list(csv.DictReader(io.StringIO(output)))
        found = [tuple(row[column] for column in columns) for row in table]
        return [row for row in found if all(row)]

    return ("--format", "csv"), read


def places(output):
    return [json.loads(line)["offset"] for line in output.splitlines()]


def sample(name):
    """Read a sample from Prometheus text."""
    return (), lambda output: [line.split()[-1] for line in output.splitlines()
                               if line.startswith(name)]  # fmt: skip


def overview(output):
    """Read members, rebalances and commits of each group from a report as Markdown."""
    lines = [line.split(" | ") for line in output.splitlines() if line.startswith("| g ")]
    return [tuple(line[2:5]) for line in lines]


ENDS_HERE = "the log ends before offset 2; by record times, 2 batches from there on would count"
BEGINS_HERE = "the log begins at offset 1; by record times, 2 batches from there on would not count"
BY_TIMES = "records are chosen by their own times, which go back"
GOES_BACK = "times go back in partition 0, by up to 59m59s"
OFFSET = sample("kafka_consumer_group_offset{")
COMMITS = sample("kafka_consumer_group_commits_total{")
REBALANCES = sample("kafka_consumergroup_rebalances_total{")
EVENTS = rows("event", "log_offset")
GROUP = ("--group", "g")
MARKDOWN, OVERVIEW = ("--format", "markdown"), ((), overview)
SINCE = AT - 1_000
TABLE = [  # command, option, its time, more arguments, how to read the output, what it is, the note
    ("groups", "--at", AT, ("--describe", *GROUP), rows("current_offset"), [("10",)], ENDS_HERE),
    ("undo", "--at", AT, GROUP, rows("offset"), [("10",)], ENDS_HERE),
    ("undo", "--before", AT + 1, GROUP, rows("offset"), [("10",)], ENDS_HERE),
    ("undo", "--since", SINCE, (*GROUP, "--at", str(AT)), rows("offset", "latest_offset"),
     [("10", "30")], BEGINS_HERE),
    ("undo", "--until", AT, (*GROUP, "--at", str(AT)), rows("latest_offset"), [("10",)], ENDS_HERE),
    ("metrics", "--at", AT, (), OFFSET, ["10"], ENDS_HERE),
    ("metrics", "--until", AT, (), OFFSET, ["10"], ENDS_HERE),
    ("metrics", "--since", SINCE, (), COMMITS, ["3"], BEGINS_HERE),
    ("metrics", "--since", SINCE, (), REBALANCES, ["1"], BEGINS_HERE),
    ("explain", "--at", AT, GROUP, EVENTS, [("generation", "0"), ("commits", "1")], ENDS_HERE),
    ("explain", "--until", AT, GROUP, EVENTS, [("generation", "0"), ("commits", "1")], ENDS_HERE),
    ("explain", "--since", SINCE, GROUP, EVENTS,
     [("commits", "1"), ("clock_back", "2"), ("generation", "3"), ("commits", "4")], BEGINS_HERE),
    ("expire", "--until", AT, GROUP, rows("offset"), [("10",)], ENDS_HERE),
    ("expire", "--since", SINCE, GROUP, rows("offset"), [("30",)], BEGINS_HERE),
    ("report", "--at", AT, MARKDOWN, OVERVIEW, [("1", "1", "1")], ENDS_HERE),
    ("report", "--until", AT, MARKDOWN, OVERVIEW, [("1", "1", "1")], ENDS_HERE),
    ("report", "--since", SINCE, MARKDOWN, OVERVIEW, [("2", "1", "3")], BEGINS_HERE),
    ("replay", "--at", AT, ("--out", "tables", "--format", "json"), ((), str), "", COUNTED_HERE),
    ("growth", "--until", AT, GROUP, rows("kind", "records"), [("group", "1"), ("commits", "1")],
     ENDS_HERE),
    ("growth", "--since", SINCE, GROUP, rows("kind", "records"),
     [("commits", "3"), ("group", "1")], BEGINS_HERE),
    ("lag", "--until", AT, ENDS, rows("offset"), [("10",)], ENDS_HERE),
    ("lag", "--at", AT, ENDS, rows("offset"), [("10",)], GOES_BACK),
    ("lag", "--since", SINCE, (*ENDS, "--at", str(AT)), rows("offset"), [("10",)], BEGINS_HERE),
    ("audit", "--until", AT, (), rows("kind"), [], ENDS_HERE),
    ("audit", "--since", SINCE, (), rows("kind"), [], BEGINS_HERE),
    ("rehearse", "--until", AT, GROUP, rows("in_log"), [("1",)], ENDS_HERE),
    ("rehearse", "--since", SINCE, GROUP, rows("in_log"), [("1",)], BEGINS_HERE),
    ("records", "--at", AT, (), ((), places), [0, 1, 2, 3], f"{BY_TIMES}; the log's order would "
     "choose 0 more and 2 fewer"),
    ("records", "--until", AT, (), ((), places), [0, 1, 2, 3], BY_TIMES),
    ("records", "--since", SINCE, (), ((), places), [1, 4], f"{BY_TIMES}; the log's order would "
     "choose 2 more and 0 fewer"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "option", "ms", "more", "reading", "expected", "note"), TABLE)
def test_a_time_means_a_place_in_the_log_and_the_alternative_is_named(
    name, option, ms, more, reading, expected, note, log
):
    form, read = reading
    ran = coterie(name, "log", option, str(ms), *more, *form, cwd=log)
    assert note in ran.stderr
    assert read(ran.stdout) == expected


def test_every_command_with_a_time_is_in_the_table():
    options = set()
    for name in COMMANDS:
        command = importlib.import_module(f"coterie.cli.{name}").command
        params = [] if isinstance(command, click.Group) else command.params
        options |= {(name, option) for param in params for option in param.opts}
    wanted = {(name, option) for name, option in options if option in OPTIONS}
    assert wanted == {row[:2] for row in TABLE}


@pytest.mark.parametrize(("name", "option"), sorted({row[:2] for row in TABLE}))
def test_a_time_in_seconds_has_a_hint(name, option):
    command = importlib.import_module(f"coterie.cli.{name}").command
    (param,) = (param for param in command.params if option in param.opts)
    for text, has_hint in (("1795894772", True), ("1795894772248", False), ("0", False)):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            assert param.type.convert(text, param, None) == int(text)
        hint = f"coterie: {option} 1795894772 is 1970-01-21T18:51:34.772Z; if it is seconds, "
        hint += "add 000: 2026-11-28T19:39:32.000Z\n"
        assert err.getvalue() == hint * has_hint


def test_a_replay_goes_by_record_times_and_names_the_logs_order(log, tmp_path):
    command = ("replay", "log", "--at", str(AT), "--out", tmp_path, "--overwrite", "--format")
    ran = coterie_ok(*command, "json", cwd=log)
    (group,) = json.loads((tmp_path / "groups.json").read_text())["groups"]
    assert [offset["offset"] for offset in group["offsets"]] == [20]
    assert COUNTED_HERE in ran.stderr


def test_metrics_since_a_real_clock_went_back_count_what_was_committed_then():
    folder = GOLDEN / "incidents" / "clock-back"
    truth = json.loads((folder / "truth.json").read_text())
    back, right = [event["at_ms"] for event in truth["events"] if event["what"] == "clock set"]
    until = right + 5_000  # no commit is near
    with gzip.open(folder / "commits.jsonl.gz", "rt") as file:
        commits = [json.loads(line) for line in file]
    made = sum(len(commit["offsets"]) for commit in commits
               if commit["group"] == "payments" and back <= commit["at_ms"] <= until)  # fmt: skip
    times = ("--since", str(back), "--until", str(until))
    ran = coterie_ok("metrics", folder / "log", *times, "--group", "payments")
    assert sum(map(int, COMMITS[1](ran.stdout))) == made
    assert "would not count" in ran.stderr


@pytest.mark.parametrize("command", ["audit", "explain", "growth", "expire"])
def test_a_since_after_the_newest_record_is_reported(command, log):
    records = coterie_ok("records", log / "log").stdout.splitlines()
    newest = max(json.loads(line)["timestamp"] for line in records)
    for since_ms, has_note in ((newest, False), (newest + 1, True)):
        ran = coterie(command, log / "log", "--since", since_ms)
        assert ("after the newest record" in ran.stderr) == has_note
        assert ran.stderr.count("the log has nothing since") == has_note
