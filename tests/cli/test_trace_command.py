"""The command ``coterie trace``."""

import gzip
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from coterie.cli.trace import factors, run_one, unreadable
from coterie.coordinator.shown_settings import Shown
from support.commandline import coterie, coterie_ok, fails, folder_of
from support.consumer_groups import golden
from support.golden_data import GOLDEN
from support.trace_data import TRACES, header, join

NAMES = ["document-demo1", "vote-tie", "commit-nothing"]


@pytest.fixture
def traces(tmp_path):
    folder = tmp_path / "in" / "sub"
    folder.mkdir(parents=True)
    for name in NAMES:
        for kind in ("trace", "expected"):
            shutil.copy(TRACES / "scenarios" / f"{name}.{kind}.jsonl", folder)
    return tmp_path


def test_run_keeps_subfolders_and_diff_finds_no_difference(traces):
    done = coterie("trace", "run", traces / "in", "--out", traces / "out")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (traces / "out" / "sub").iterdir()) == sorted(
        f"{name}.actual.jsonl" for name in NAMES
    )
    same = coterie("trace", "diff", traces / "in", traces / "out")
    assert (same.returncode, same.stdout) == (0, "3 passed, 0 failed\n")


def test_an_output_that_cannot_be_written_is_named_instead_of_the_trace(traces):
    (traces / "file").touch()
    folder = traces / "file" / "out"
    ran = coterie("trace", "run", traces / "in" / "sub" / "vote-tie.trace.jsonl", "--out", folder)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines() == [f"coterie: {folder}: Not a directory", "0 run, 1 failed"]


def test_run_reads_gzip_and_single_files(traces):
    source = traces / "in" / "sub" / "vote-tie.trace.jsonl"
    zipped = traces / "tie.trace.jsonl.gz"
    zipped.write_bytes(gzip.compress(source.read_bytes()))
    assert coterie("trace", "run", zipped, source, "--out", traces / "out").returncode == 0
    made = traces / "out"
    assert (made / "tie.actual.jsonl").read_bytes() == (made / "vote-tie.actual.jsonl").read_bytes()


def test_diff_names_the_first_difference_and_exits_1(traces):
    assert coterie("trace", "run", traces / "in", "--out", traces / "out").returncode == 0
    path = traces / "out" / "sub" / "vote-tie.actual.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    answer = next(line for line in lines if line["event"] == "response")
    answer["error"] = "FENCED_INSTANCE_ID"
    path.write_text("\n".join(map(json.dumps, lines)))
    ran = coterie("trace", "diff", traces / "in", traces / "out")
    assert ran.returncode == 1
    assert "vote-tie at" in ran.stdout
    assert 'came "FENCED_INSTANCE_ID"' in ran.stdout
    assert ran.stdout.endswith("2 passed, 1 failed\n")


def test_diff_takes_the_traces_of_a_folder_in_the_order_of_their_names(tmp_path):
    names = [*"dbfaec"]
    for name in names:
        for folder in ("expected", "actual"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "expected" / f"{name}.expected.jsonl").write_text("{}\n")
    ran = coterie("trace", "diff", tmp_path / "expected", tmp_path / "actual")
    lines = ran.stderr.splitlines()
    assert [line.split(": ")[1] for line in lines] == sorted(names)
    assert all(line.endswith(f"is no output of it in {tmp_path / 'actual'}") for line in lines)
    assert ran.stdout == "0 passed, 6 failed\n"


def test_diff_counts_a_missing_output_as_failed(traces):
    (traces / "out").mkdir()
    ran = coterie("trace", "diff", traces / "in", traces / "out")
    assert ran.returncode == 1
    assert "there is no output of it" in ran.stderr


def test_a_wrong_trace_is_one_line_and_the_others_still_run(traces):
    bad = traces / "in" / "bad.trace.jsonl"
    bad.write_text(json.dumps(header()) + "\n" + json.dumps({"at": 0, "op": "poll"}) + "\n")
    ran = coterie("trace", "run", traces / "in", "--out", traces / "out")
    assert ran.returncode == 1
    assert "bad.trace.jsonl: line 2: 'poll' is no op" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "3 run, 1 failed" in ran.stderr
    assert not list((traces / "out").rglob("*bad*"))


def test_a_fault_of_coterie_in_a_trace_is_one_line(traces, monkeypatch, capsys):
    def run(lines, settings):
        raise TypeError("no group")

    monkeypatch.setattr("coterie.coordinator.trace.run_trace", run)
    path = next((traces / "in").rglob("*.trace.jsonl"))
    assert not run_one(path, traces / "out.jsonl", {}, overwrite=False, inputs=())
    assert capsys.readouterr().err == (
        f"coterie: {path}: this trace cannot be run: TypeError: no group\n"
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[" * 100_000, "line 2: nested too deeply for a trace"),
        ('{"at": 0, "op": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 2: nested too deeply"),
        ('{"at": 0, "op": "describe_group", "id": 1, "group_id": "\\udc80"}', "line 2: describe_"),
        ("9" * 5000, "line 2: "),
        ("\udce9", "not text: the byte 0xe9 is not UTF-8"),
    ],
)
def test_a_line_that_no_parser_takes_is_one_line_and_the_others_still_run(traces, line, says):
    bad = traces / "in" / "bad.trace.jsonl"
    bad.write_text(f"{json.dumps(header())}\n{line}\n", "utf-8", "surrogateescape")
    ran = coterie("trace", "run", traces / "in", "--out", traces / "out")
    assert ran.returncode == 1
    first, last = ran.stderr.splitlines()
    assert first.startswith(f"coterie: {bad}: {says}")
    assert last == "3 run, 1 failed"
    assert not list((traces / "out").rglob("*bad*"))


def test_a_what_if_of_a_line_that_no_parser_takes_is_one_line(tmp_path):
    deep = tmp_path / "deep.trace.jsonl"
    for line in ("[" * 100_000, '{"at": 0, "op": ' + "[" * 100_000 + "]" * 100_000 + "}"):
        deep.write_text(f"{json.dumps(header())}\n{line}\n")
        fails("trace", "whatif", deep, says=(deep, "line 2: nested too deeply for a trace"))


def test_diff_says_of_a_line_that_is_nested_too_deeply_where_it_is(traces):
    deep = traces / "deep.jsonl"
    deep.write_text('{"at": 0}\n' + "[" * 100_000)
    ran = coterie("trace", "diff", deep, deep)
    assert ran.returncode == 1
    assert ran.stderr == f"coterie: deep: {deep}: line 2: nested too deeply\n"


def test_an_import_of_a_line_that_is_nested_too_deeply_is_one_line(tmp_path):
    log = tmp_path / "deep.log"
    head = "[2026-01-31 14:05:00,000] DEBUG Completed request:"
    log.write_text(head + '{"a":' * 100_000)
    fails("trace", "import", log, "--out", tmp_path / "out", says=(log, "nested too deeply"))
    assert folder_of(tmp_path) == ["deep.log"]


def test_run_refuses_to_overwrite_before_it_runs_anything_unless_told_to(traces):
    out = traces / "out"
    coterie_ok("trace", "run", traces / "in", "--out", out)
    (out / "sub" / "vote-tie.actual.jsonl").unlink()
    mine = out / "sub" / "commit-nothing.actual.jsonl"
    mine.write_text("mine")
    fails("trace", "run", traces / "in", "--out", out, says=("is there already", "--overwrite"))
    assert mine.read_text() == "mine"
    assert folder_of(out / "sub") == ["commit-nothing.actual.jsonl", "document-demo1.actual.jsonl"]
    coterie_ok("trace", "run", traces / "in", "--out", out, "--overwrite")
    assert len(mine.read_text()) > 100
    assert len(folder_of(out / "sub")) == 3


def test_run_writes_beside_other_files_and_into_folders_that_are_there(traces):
    coterie_ok("trace", "run", traces / "in", "--out", traces / "in")
    assert len(folder_of(traces / "in" / "sub")) == 9
    again = traces / "in" / "sub" / "vote-tie.trace.jsonl"
    fails("trace", "run", again, "--out", traces / "in" / "sub", says="is there already")


def test_run_refuses_an_output_folder_that_is_a_file_and_one_that_may_not_be(traces):
    source = traces / "in" / "sub" / "vote-tie.trace.jsonl"
    fails("trace", "run", source, "--out", source, says=("is a file", "name a folder"))
    ran = coterie("trace", "run", source, "--out", source / "out")
    assert ran.returncode == 2  # inside an input
    assert "Traceback" not in ran.stderr


def test_a_trace_that_fails_leaves_the_output_of_before_and_no_new_folder(traces):
    bad = traces / "bad.trace.jsonl"
    bad.write_text(json.dumps(header()) + "\n{}\n")
    new = traces / "new" / "out"
    assert coterie("trace", "run", bad, "--out", new).returncode == 1
    assert not new.parent.exists()
    (traces / "bad.actual.jsonl").write_text("before")
    assert coterie("trace", "run", bad, "--out", traces, "--overwrite").returncode == 1
    assert (traces / "bad.actual.jsonl").read_text() == "before"
    assert folder_of(traces) == ["bad.actual.jsonl", "bad.trace.jsonl", "in"]


def test_two_traces_of_one_name_are_refused_before_anything_is_written(traces):
    copy = traces / "vote-tie.trace.jsonl"
    shutil.copy(traces / "in" / "sub" / "vote-tie.trace.jsonl", copy)
    args = ("trace", "run", copy, traces / "in" / "sub", "--out", traces / "out")
    fails(*args, status=2, says="would both be written to")
    assert not (traces / "out").exists()


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("trace", "run", "absent.trace.jsonl", "--out", "o"), 1),
        (("trace", "run", "--out", "o"), 2),
        (("trace", "run", "x"), 2),
        (("trace", "diff", "absent", "absent"), 2),
        (("trace", "import", "absent.log", "--out", "o"), 1),
        (("trace", "import", "absent.log", "--out", "o", "--set", "a=b"), 2),
        (("trace", "whatif", "absent", "--scale-session", "c"), 2),
        (("trace", "play"), 2),
    ],
)
def test_bad_use_is_said_in_one_line_with_its_status(args, status, tmp_path):
    ran = coterie(*args, cwd=tmp_path)
    assert ran.returncode == status
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr.strip().splitlines()) <= 2


def test_a_brokers_request_log_is_answered_as_that_broker_did(tmp_path):
    log = GOLDEN / "request-log" / "kafka-request.log.gz"
    made = coterie("trace", "import", log, "--out", tmp_path, "--set",
                   "group.initial.rebalance.delay.ms=1000")  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "left out: 1 x JOIN_GROUP: the coordinator was not ready" in made.stderr
    trace = tmp_path / "kafka-request.trace.jsonl"
    assert coterie("trace", "run", trace, "--out", tmp_path).returncode == 0
    again = ("trace", "import", log, "--out", tmp_path)
    fails(*again, says=("kafka-request.trace.jsonl", "is there already"))
    same = coterie("trace", "diff", "--responses", tmp_path / "kafka-request.expected.jsonl",
                   tmp_path / "kafka-request.actual.jsonl")  # fmt: skip
    assert (same.returncode, same.stdout) == (0, "1 passed, 0 failed\n")


def test_a_what_if_without_changes_changes_nothing(tmp_path):
    trace = TRACES / "scenarios" / "rolling-deploy-dynamic.trace.jsonl"
    ran = coterie("trace", "whatif", trace, "--format", "json")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["as_recorded"] == result["what_if"]
    assert result["as_recorded"]["rebalances"] > 0


def test_the_table_of_a_what_if_has_each_number_under_its_heading(tmp_path):
    path = tmp_path / "one.trace.jsonl"
    events = [header(), join(0, 1), {"at": 9000, "op": "advance"}]
    path.write_text("\n".join(map(json.dumps, events)))
    ran = coterie("trace", "whatif", path, "--set", "group.initial.rebalance.delay.ms=500")
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["as", "recorded", "what", "if", "change"]
    assert {len(line) for line in lines} == {len(lines[0])}
    (waited,) = (line.split() for line in lines if line.startswith("ms in PreparingRebalance"))
    assert waited[-3:] == ["3000", "500", "-2500"]


def test_a_shorter_initial_delay_shortens_the_wait(tmp_path):
    path = tmp_path / "one.trace.jsonl"
    events = [header(), join(0, 1), {"at": 9000, "op": "advance"}]
    path.write_text("\n".join(map(json.dumps, events)))
    ran = coterie("trace", "whatif", path, "--set", "group.initial.rebalance.delay.ms=500",
                   "--format", "json")  # fmt: skip
    result = json.loads(ran.stdout)
    assert result["as_recorded"]["ms in PreparingRebalance"] == 3000
    assert result["what_if"]["ms in PreparingRebalance"] == 500


def what_if(tmp_path, events, *options):
    path = tmp_path / "one.trace.jsonl"
    path.write_text("\n".join(map(json.dumps, events)))
    ran = coterie("trace", "whatif", path, "--format", "json", *options)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    return result["as_recorded"], result["what_if"]


def one_synced_member():
    """A single member that joins without an initial delay, syncs, and sends nothing more."""
    return [
        header(group_initial_rebalance_delay_ms=0),
        join(0, 1),
        {"at": 1, "op": "sync_group", "id": 2, "group_id": "g", "generation_id": 1,
         "member_id": "c-00000001", "assignments": []},
    ]  # fmt: skip


def test_a_longer_session_keeps_the_member_that_fell_silent(tmp_path):
    events = [*one_synced_member(), {"at": 25_000, "op": "advance"}]
    recorded, changed = what_if(tmp_path, events, "--scale-session", "c=3")
    assert (recorded["evicted by session timeout"], changed["evicted by session timeout"]) == (1, 0)


def test_a_client_made_static_restarts_without_a_rebalance(tmp_path):
    events = [*one_synced_member(), join(5_000, 3), {"at": 5_001, "op": "advance"}]
    recorded, changed = what_if(tmp_path, events, "--static", "c")
    assert (recorded["rebalances"], changed["rebalances"]) == (2, 1)


@pytest.fixture
def versions(tmp_path):
    """A trace of version 2, and Kafka's outputs by version: partitions come back at once."""
    name = "scenarios/revoked-partition-comes-back-at-once"
    (tmp_path / "it.trace.jsonl").write_text("\n".join(golden.trace(name)), encoding="utf-8")
    for version in ("4.1", "4.1.2"):
        lines = golden.expected(name, version)
        (tmp_path / f"{version}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_run_answers_a_trace_of_consumer_groups_as_the_version_that_set_names(versions):
    assert (versions / "4.1.jsonl").read_text() != (versions / "4.1.2.jsonl").read_text()
    runs = {"4.1": (), "4.1.2": ("--set", "coterie.behaviour=4.1.2")}
    for version, options in runs.items():
        out = versions / f"of-{version}"
        coterie_ok("trace", "run", versions / "it.trace.jsonl", "--out", out, *options)
        for other in runs:
            diff = coterie("trace", "diff", versions / f"{other}.jsonl", out / "it.actual.jsonl")
            assert diff.returncode == (other != version), diff.stdout
            assert diff.stdout.endswith("0 passed, 1 failed\n" if other != version else
                                        "1 passed, 0 failed\n")  # fmt: skip


def test_a_setting_of_run_goes_before_the_traces_own_and_the_last_one_counts(traces):
    trace = traces / "alone.trace.jsonl"
    lines = [
        header(group_initial_rebalance_delay_ms=1000),
        join(0, 1),
        {"at": 9000, "op": "advance"},
    ]
    trace.write_text("\n".join(map(json.dumps, lines)))

    def answered_at(*options):
        coterie_ok("trace", "run", trace, "--out", traces / "out", "--overwrite", *options)
        events = map(json.loads, (traces / "out" / "alone.actual.jsonl").read_text().splitlines())
        return next(event["at"] for event in events if event["event"] == "response")

    delay = "group.initial.rebalance.delay.ms"
    assert answered_at() == 1000
    assert answered_at("--set", f"{delay}=2000") == 2000
    assert answered_at("--set", f"{delay}=2000", "--set", f"{delay}=0") == 0


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("group.max.size", "'group.max.size' must be KEY=VALUE"),
        ("group.max.sise=1", "did you mean 'group.max.size'?"),
        ("group.max.size=0", "group.max.size must be from 1"),
        ("group.max.size=many", "group.max.size must be an integer"),
        ("coterie.behaviour=4.0", "coterie.behaviour must be one of '3.9', '2.4', '4.1'"),
    ],
)
def test_a_wrong_setting_of_run_is_refused_before_anything_is_run(traces, setting, says):
    args = ("trace", "run", traces / "in", "--out", traces / "out", "--set", setting)
    fails(*args, status=2, says=("--set", says))
    assert not (traces / "out").exists()


def test_what_if_of_consumer_groups_compares_their_states_and_takes_settings_of_the_broker(
    versions,
):
    args = ("trace", "whatif", versions / "it.trace.jsonl", "--format", "json")
    same = json.loads(coterie_ok(*args).stdout)
    assert same["as_recorded"] == same["what_if"]
    assert {"ms in Assigning", "ms in Reconciling"} < same["as_recorded"].keys()
    assert same["as_recorded"]["rebalances"] > 0
    small = json.loads(coterie_ok(*args, "--set", "group.consumer.max.size=1").stdout)
    assert small["as_recorded"] == same["as_recorded"]
    assert small["what_if"]["refused requests"] > small["as_recorded"]["refused requests"]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["a=0.001", "b=999999.9", "c=1"], {"a": 0.001, "b": 999_999.9, "c": 1.0}),
        (["a=b=2"], {"a=b": 2.0}),  # a client id may have one, a factor has none
        (["a=0"], None),
        (["a=-1"], None),
        (["a=1000000"], None),
        (["a=nan"], None),
        (["a=x"], None),
        (["a"], None),
        (["a="], None),
        (["=2"], None),
    ],
)
def test_a_session_is_scaled_by_a_factor_above_0_and_below_a_million(pairs, expected):
    if expected is None:
        with pytest.raises(click.UsageError, match="must be CLIENT=FACTOR"):
            factors(pairs)
    else:
        assert factors(pairs) == expected


def test_an_import_says_what_it_took_and_what_it_left_out(tmp_path, monkeypatch):
    given = []

    def imported(lines, config, title, started, removed):
        given.append((list(lines), config, title, started, removed))
        outages = [("05:00", "05:07"), ("06:00", "06:01")]
        left_out = {"later": 2, "early": 10}
        trace, expected = [{"ü": 1}, {"b": 2}, {"c": 3}], [{"answer": 1}] * 8
        shown = [Shown("group.max.size", 7, "g refused a member, with 7 in it")]
        return SimpleNamespace(
            trace=trace, expected=expected, start="04:00", outages=outages, left_out=left_out,
            shown=shown, wrong=1, compared=7, tried=1000,
            missing={"HEARTBEAT": "sessions end", "END_TXN": "transactions stay open"},
        )  # fmt: skip

    monkeypatch.setattr("coterie.coordinator.requestlog.import_request_log", imported)
    log = tmp_path / "busy.log.gz"
    log.write_bytes(gzip.compress(b"one line\n"))
    out = tmp_path / "out"
    ran = coterie_ok("trace", "import", log, "--out", out, "--set", "group.max.size=3")
    assert given == [(["one line\n"], {"group.max.size": 3}, "busy", [], [])]
    assert ran.stderr.splitlines() == [
        "2 events from 04:00 on",  # the first line is the trace's header
        "1 of 7 answers differ under these settings",
        "the log has no HEARTBEAT, END_TXN, which the broker may not log: "
        "sessions end; transactions stay open",
        "settings were tried on the first 1,000 of 2 events",
        "the log is too long to be run: close requests and late timers stand as it has them",
        "the broker's answers show another setting: "
        "--set group.max.size=7: g refused a member, with 7 in it",
        "the broker was down between 05:00 and 05:07: failover",
        "the broker was down between 06:00 and 06:01: failover",
        "left out: 10 x early",
        "left out: 2 x later",
    ]
    assert (out / "busy.trace.jsonl").read_text() == '{"ü":1}\n{"b":2}\n{"c":3}\n'
    assert (out / "busy.expected.jsonl").read_text() == '{"answer":1}\n' * 8
    coterie_ok("trace", "import", log, "--out", out, "--name", "other")
    assert (given[1][2], (out / "other.trace.jsonl").exists()) == ("other", True)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(2, "No such file", "other"), "other: No such file"),
        (OSError(5, "Input/output error"), "t.jsonl: Input/output error"),
        (OSError("an error without a number"), "t.jsonl: an error without a number"),
        (ValueError("line 3 has no op"), "t.jsonl: line 3 has no op"),
        (RecursionError("maximum depth"), "t.jsonl: nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_is_known_of_the_reason(error, line):
    assert unreadable(Path("t.jsonl"), error) == line


def test_a_comparison_of_no_trace_fails(tmp_path):
    for name in ("expected", "actual"):
        (tmp_path / name).mkdir()
    ran = coterie("trace", "diff", tmp_path / "expected", tmp_path / "actual")
    assert (ran.returncode, ran.stdout) == (1, "0 passed, 0 failed\n")
