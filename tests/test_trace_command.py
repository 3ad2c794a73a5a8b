"""The command ``coterie trace``."""

import gzip
import json
import shutil

import pytest

from commandline import coterie
from golden_data import GOLDEN
from trace_data import TRACES, header, join

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
    told = coterie("trace", "diff", traces / "in", traces / "out")
    assert told.returncode == 1
    assert "vote-tie at" in told.stdout
    assert 'came "FENCED_INSTANCE_ID"' in told.stdout
    assert told.stdout.endswith("2 passed, 1 failed\n")


def test_diff_counts_a_missing_output_as_failed(traces):
    (traces / "out").mkdir()
    told = coterie("trace", "diff", traces / "in", traces / "out")
    assert told.returncode == 1
    assert "there is no output of it" in told.stderr


def test_a_wrong_trace_is_one_line_and_the_others_still_run(traces):
    bad = traces / "in" / "bad.trace.jsonl"
    bad.write_text(json.dumps(header()) + "\n" + json.dumps({"at": 0, "op": "poll"}) + "\n")
    told = coterie("trace", "run", traces / "in", "--out", traces / "out")
    assert told.returncode == 1
    assert "bad.trace.jsonl: line 2: 'poll' is no op" in told.stderr
    assert "Traceback" not in told.stderr
    assert "3 run, 1 failed" in told.stderr
    assert not list((traces / "out").glob("bad*"))


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
    told = coterie(*args, cwd=tmp_path)
    assert told.returncode == status
    assert "Traceback" not in told.stderr
    assert len(told.stderr.strip().splitlines()) <= 2


def test_a_brokers_request_log_is_answered_as_that_broker_did(tmp_path):
    log = GOLDEN / "request-log" / "kafka-request.log.gz"
    made = coterie("trace", "import", log, "--out", tmp_path, "--set",
                   "group.initial.rebalance.delay.ms=1000")  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "left out: 1 x JOIN_GROUP: the coordinator was not ready" in made.stderr
    trace = tmp_path / "kafka-request.trace.jsonl"
    assert coterie("trace", "run", trace, "--out", tmp_path).returncode == 0
    same = coterie("trace", "diff", "--responses", tmp_path / "kafka-request.expected.jsonl",
                   tmp_path / "kafka-request.actual.jsonl")  # fmt: skip
    assert (same.returncode, same.stdout) == (0, "1 passed, 0 failed\n")


def test_a_what_if_without_changes_changes_nothing(tmp_path):
    trace = TRACES / "scenarios" / "rolling-deploy-dynamic.trace.jsonl"
    told = coterie("trace", "whatif", trace, "--format", "json")
    assert told.returncode == 0, told.stderr
    result = json.loads(told.stdout)
    assert result["as_recorded"] == result["what_if"]
    assert result["as_recorded"]["rebalances"] > 0


def test_a_shorter_initial_delay_shortens_the_wait(tmp_path):
    path = tmp_path / "one.trace.jsonl"
    events = [header(), join(0, 1), {"at": 9000, "op": "advance"}]
    path.write_text("\n".join(map(json.dumps, events)))
    told = coterie("trace", "whatif", path, "--set", "group.initial.rebalance.delay.ms=500",
                   "--format", "json")  # fmt: skip
    result = json.loads(told.stdout)
    assert result["as_recorded"]["ms in PreparingRebalance"] == 3000
    assert result["what_if"]["ms in PreparingRebalance"] == 500


def what_if(tmp_path, events, *options):
    path = tmp_path / "one.trace.jsonl"
    path.write_text("\n".join(map(json.dumps, events)))
    told = coterie("trace", "whatif", path, "--format", "json", *options)
    assert told.returncode == 0, told.stderr
    result = json.loads(told.stdout)
    return result["as_recorded"], result["what_if"]


def one_synced_member():
    """A member alone, without an initial delay, that has synced at once and says no more."""
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
