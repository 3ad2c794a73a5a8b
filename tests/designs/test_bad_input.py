"""``coterie designs`` refuses wrong input in one line with its place, and leaves nothing behind."""

import json
from pathlib import Path

import pytest

from support.commandline import coterie, fails, folder_of

TOPIC = {"at": 0, "op": "create_topic", "topic": "t", "replicas": [[0]]}
START = {"at": 1, "op": "start", "consumer": "c", "subscription": {"t": 1}}
WRONG = {
    "unknown op": ([TOPIC, {"at": 1, "op": "explode"}], "events[1].op: unknown op 'explode'"),
    "no op": ([{"at": 1}], "events[0].op: unknown op None"),
    "unknown consumer": (
        [TOPIC, START, {"at": 2, "op": "crash", "consumer": "d"}],
        "events[2].consumer: no consumer 'd' was started",
    ),
    "back in time": ([{**TOPIC, "at": 5}, START], "events[1].at: 1 lies before 5"),
    "a broker that there is not": (
        [{**TOPIC, "replicas": [[0], [7]]}],
        "events[0].replicas[1]: there is no broker 7",
    ),
    "a broker twice": (
        [{**TOPIC, "replicas": [[0, 0]]}],
        "events[0].replicas[0]: [0, 0] is not a list of different broker ids",
    ),
    "no replica": ([{**TOPIC, "replicas": [[]]}], "events[0].replicas[0]: [] is not"),
    "no partition": ([{**TOPIC, "replicas": []}], "events[0].replicas: [] is not"),
    "replicas of no list": ([{**TOPIC, "replicas": 3}], "events[0].replicas: 3 is not"),
    "partitions of no topic": (
        [{**TOPIC, "op": "add_partitions"}],
        "events[0].topic: there is no topic 't'",
    ),
    "a setting's value": (
        [TOPIC, {**START, "config": {"zookeeper.session.timeout.ms": "soon"}}],
        "events[1].config: zookeeper.session.timeout.ms: 'soon' is not a whole number",
    ),
    "an unknown moment": (
        [{"at": 0, "op": "coordinator_stop", "moment": "noon"}],
        "events[0].moment: 'noon' is none of before-heartbeats",
    ),
    "a foreign node without a parent": (
        [{"at": 0, "op": "znode_delete", "path": "/nowhere"}],
        "events[0]: ZooKeeper refuses: ",
    ),
}
FORMS = {
    "run": ("run", "s.json", "--out", "out"),
    "compare": ("compare", "s.json"),
    "html": ("compare", "s.json", "--format", "html", "-o", "page.html"),
}


@pytest.mark.parametrize("events", WRONG)
@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_scenario_is_one_line_with_its_place_and_leaves_nothing(form, events, tmp_path):
    given, said = WRONG[events]
    (tmp_path / "s.json").write_text(json.dumps({"events": given}))
    told = coterie("designs", *FORMS[form], cwd=tmp_path)
    lines = told.stderr.splitlines()
    assert told.returncode == 1
    assert lines[0].startswith(f"coterie: s.json: {said}")
    assert lines[1:] == (["0 run, 1 failed"] if form == "run" else [])
    assert told.stdout == ""
    assert folder_of(tmp_path) == ["s.json"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"events": 1}', "[" * 100_000])
@pytest.mark.parametrize("form", ["compare", "html"])
def test_a_file_that_is_no_scenario_is_one_line(form, text, tmp_path):
    (tmp_path / "s.json").write_text(text)
    fails("designs", *FORMS[form], says="coterie: s.json: ", cwd=tmp_path)
    assert folder_of(tmp_path) == ["s.json"]


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        (["nowhere"], 1, "nowhere: no such file, and no scenario of that name: see coterie "),
        (["."], 1, ".: Is a directory"),
        (["herd", "--design", "raft"], 2, "--design raft: there are zookeeper-0.8, "),
        (["herd", "--set", "x"], 2, "--set takes KEY=VALUE, not x"),
        (["herd", "--set", "=1"], 2, "--set takes KEY=VALUE, not =1"),
        (["herd", "--set", "x=1"], 2, "--set x=1: no such setting; there are zookeeper."),
        (["herd", "--set", "rebalance.max.retries=-1"], 2, "retries: -1 is not in 0 to "),
        (["herd", "--set", "auto.commit.enable=so"], 2, "'so' is neither true nor false"),
        (["herd", "--set", "auto.offset.reset=here"], 2, "'here' is none of largest, smallest"),
        (["herd", "--format", "pdf"], 2, "'pdf' is not one of 'table', 'json', 'html'"),
        (["herd", "--format", "html"], 2, "the page goes into a file: --out FILE"),
        (["herd", "--overwrite"], 2, "--overwrite replaces a file: --out FILE"),
        ([], 2, "Missing argument 'SCENARIO'"),
        (["herd", "stale-views"], 2, "unexpected extra argument"),
    ],
)
def test_what_cannot_be_compared_is_one_line(more, status, said, tmp_path):
    fails("designs", "compare", *more, status=status, says=said, cwd=tmp_path)
    assert folder_of(tmp_path) == []


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (("list", "x"), "unexpected extra argument"),
        (("run",), "Missing argument 'SCENARIO...'"),
        (("run", "s.json"), "Missing option '--out'"),
        (("walk",), "No such command 'walk'"),
    ],
)
def test_wrong_usage_is_one_line_with_status_2(ask, said, tmp_path):
    fails("designs", *ask, status=2, says=said, cwd=tmp_path)


def test_a_folder_without_scenarios_is_one_line(tmp_path):
    (tmp_path / "none").mkdir()
    told = coterie("designs", "run", "none", "--out", "out", cwd=tmp_path)
    assert (told.returncode, len(told.stderr.splitlines())) == (1, 1)
    assert "none: holds no file that ends in .json" in told.stderr
    assert folder_of(tmp_path) == ["none"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc: no folder takes nothing")
def test_a_folder_that_cannot_be_made_is_said_as_that_not_as_a_scenario(tmp_path):
    told = coterie("designs", "run", "herd", "--out", "/proc/nowhere", cwd=tmp_path)
    said = "coterie: /proc/nowhere/herd.actual.json: No such file or directory\n0 run, 1 failed\n"
    assert (told.returncode, told.stderr) == (1, said)
