"""Commands with the engine ``spark``: in the session of all tests, or through the process."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support import golden_data
from support.commandline import (
    COTERIE,
    coterie,
    coterie_ok,
    coterie_process,
    default_sigint,
    fails,
    folder_of,
)
from support.consumer_groups import golden
from support.consumer_groups.log_of_trace import log_of, played
from support.spark_questions import RESET_CLI

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

TABLES = ["groups", "members", "offsets", "generations", "faults", "commits"]
SPARK = ("--engine", "spark")


@pytest.mark.parametrize("case", ["old-formats", "corrupt/length-2gib"])
def test_both_engines_write_the_same_tables(spark, tmp_path, case):
    log = golden_data.log(case)
    result = coterie_ok("replay", log, "--out", tmp_path / "spark", "--history", *SPARK)
    other = coterie_ok("replay", log, "--out", tmp_path / "one", "--history", "--engine", "local")
    assert without_time(result.stderr) == without_time(other.stderr)
    assert folder_of(tmp_path / "spark") == sorted(f"{name}.parquet" for name in TABLES)
    for name in TABLES:
        ours = pq.read_table(tmp_path / f"spark/{name}.parquet")
        theirs = pq.read_table(tmp_path / f"one/{name}.parquet")
        assert ours.schema == theirs.schema
        assert ours.equals(theirs), name
        parts = folder_of(tmp_path / f"spark/{name}.parquet")
        assert parts == [f"part-{number:05d}.parquet" for number in range(len(parts))]


def test_both_engines_fold_the_logs_of_consumer_groups_alike(spark, tmp_path):
    for number, name in enumerate(golden.names()):
        _, batches = played(name)
        folder = tmp_path / f"log/__consumer_offsets-{number}"
        folder.mkdir(parents=True)
        (folder / f"{batches[0].base_offset if batches else 0:020}.log").write_bytes(
            log_of(batches)
        )
    common = ("replay", tmp_path / "log", "--format", "json")
    coterie_ok(*common, "--out", tmp_path / "spark", *SPARK)
    coterie_ok(*common, "--out", tmp_path / "one", "--engine", "local")
    ours, theirs = (
        json.loads((tmp_path / engine / "groups.json").read_text())["groups"]
        for engine in ("spark", "one")
    )
    assert ours == theirs
    assert {group["type"] for group in ours} >= {"consumer", "classic"}


def without_time(text):
    """Lines of a summary without the time."""
    return [line.partition(";")[0] for line in text.splitlines()]


@pytest.mark.parametrize(
    ("master", "says"),
    [
        ("nonsense", "Spark did not start: Master must either be yarn or start with spark, "),
        pytest.param(
            "yarn",
            "Spark did not start: When running with master 'yarn' either HADOOP_CONF_DIR or ",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_master_for_which_no_jvm_starts_is_reported_in_sparks_words(
    tmp_path, monkeypatch, master, says
):
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    command = ("replay", golden_data.log("corrupt/fine"), "--out", tmp_path / "out", *SPARK)
    fails(*command, "--master", master, says=says, run=coterie_process)
    assert folder_of(tmp_path) == []


IN_A_ROW = """\
import sys
from coterie.cli import main
log, out = sys.argv[1:]
for master in ("local[1]", "local[x]"):
    sys.argv = ["coterie", "replay", log, "--format", "json", "--history", "--engine", "spark"]
    sys.argv += ["--master", master, "--out", f"{out}/{master}"]
    try:
        main()
    except SystemExit as end:
        print(end.code)
"""


@pytest.fixture(scope="module")
def in_a_row(tmp_path_factory):
    """Two commands of one process, since its JVM takes long to start: the second is refused."""
    folder, log = tmp_path_factory.mktemp("in-a-row"), golden_data.log("transactions")
    command = [sys.executable, "-c", IN_A_ROW, log, folder]
    return folder, subprocess.run(command, capture_output=True, text=True, check=True)


def test_both_engines_write_the_same_document(in_a_row, tmp_path):
    folder, ran = in_a_row
    common = ("replay", golden_data.log("transactions"), "--format", "json", "--history")
    coterie_ok(*common, "--out", tmp_path / "one", "--engine", "local")
    assert folder_of(folder / "local[1]") == ["commits.jsonl", "groups.json"]
    for name in ("groups.json", "commits.jsonl"):
        ours, theirs = (folder / "local[1]" / name), (tmp_path / "one" / name)
        assert ours.read_text(encoding="utf-8") == theirs.read_text(encoding="utf-8")
    golden = golden_data.json_of("transactions", "groups.json")["groups"]
    assert json.loads((folder / "local[1]/groups.json").read_text())["groups"] == golden
    assert "records" in ran.stderr.splitlines()[0]


def test_a_master_that_spark_refuses_is_reported_in_its_words_and_nothing_else_is(in_a_row):
    folder, ran = in_a_row
    (_, line) = ran.stderr.splitlines()  # the first is the other command's summary
    assert "Could not parse Master URL: 'local[x]'" in line
    assert ran.stdout == "0\n1\n"
    assert folder_of(folder) == ["local[1]"]


LIVE = golden_data.log("basic") / "live/admin.json"
ENDS = Path(__file__).parents[1] / "insight/ends/ends.csv"


@pytest.mark.parametrize(
    ("question", "case", "options"),
    [
        ("explain", "transactions", ()),
        ("audit", "basic", ("--live", LIVE)),
        ("expire", "basic", ("--now", 1795237397237, "--retention", "1d", "--what-if", "5s")),
        ("growth", "transactions", ()),
        ("lag", "basic", ("--end-offsets", ENDS)),
        ("undo", "basic", ("--all-groups", "--at", RESET_CLI)),
    ],
)
def test_a_question_is_answered_alike_by_both_engines(spark, question, case, options):
    command = (question, golden_data.log(case), *options, "--format", "json", "--engine")
    ours, theirs = (coterie(*command, engine) for engine in ("spark", "local"))
    assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)
    assert ours.returncode == theirs.returncode
    assert json.loads(ours.stdout)


@pytest.mark.parametrize("command", [("growth",), ("expire", "--group", "*")])
def test_a_question_about_a_url_is_answered_as_about_its_path(spark, command):
    """Without --engine, because only Spark reads the log; group patterns are resolved, too."""
    log = golden_data.log("transactions")
    result = coterie_ok(*command, log.as_uri(), "--format", "json")
    other = coterie_ok(*command, log, "--format", "json", "--engine", "local")
    assert result.stdout.replace(f"file:{log}", str(log)) == other.stdout
    assert result.stderr == other.stderr
    assert result.stdout


def test_a_fault_stops_it_in_one_line_and_leaves_nothing(spark, tmp_path):
    log = golden_data.log("corrupt/magic-3")
    out = tmp_path / "out"
    fails("replay", log, "--out", out, "--on-fault", "stop", *SPARK, says=("byte 10616", "magic"))
    assert folder_of(tmp_path) == []


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    # A limit on the size of any file, in blocks of 1024 bytes: of Spark's, or of a table.
    limited = ["bash", "-c", 'ulimit -f 40; exec "$@"', "limited", *COTERIE]
    log = golden_data.log("default50")
    result = subprocess.run(
        [*limited, "replay", log, "--out", tmp_path / "out", "--history", *SPARK],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1, result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert "space" in result.stderr
    assert folder_of(tmp_path) == []


def output_is_begun(process, folder):
    return any(folder.iterdir())


HAS_PROC = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def java_is_starting(process, folder):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with suppress(OSError):  # one that was listed may have ended
        lines = [
            Path(f"/proc/{child}/cmdline").read_text() for child in children.read_text().split()
        ]
        return any("java" in line for line in lines)
    return False


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(  # each signal and each moment; a start of Java takes ten seconds
    ("moment", "number"),
    [
        (output_is_begun, signal.SIGINT),
        pytest.param(java_is_starting, signal.SIGTERM, marks=HAS_PROC),
        pytest.param(output_is_begun, signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(java_is_starting, signal.SIGINT, marks=[HAS_PROC, pytest.mark.slow]),
    ],
)
def test_an_interruption_leaves_nothing_and_ends_spark(tmp_path, moment, number):
    log = golden_data.log("default50")
    command = [*COTERIE, "replay", str(log), "--engine", "spark", "--out", str(tmp_path / "out")]
    own = {"start_new_session": True, "preexec_fn": default_sigint}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **own)
    until_there(lambda: moment(process, tmp_path) or process.poll() is not None)
    process.send_signal(number)
    _, stderr = process.communicate()
    assert process.returncode == (130 if number == signal.SIGINT else 143), stderr
    (line,) = stderr.splitlines()
    assert line.endswith("nothing half-done was left")
    assert folder_of(tmp_path) == []
    until_there(lambda: not group_is_there(process.pid))


def group_is_there(group):
    """Whether a process of a group still runs; the JVM ends a moment after the command.

    Zombies do not count: the first process of a container may not reap them.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    stats = [path for path in Path("/proc").glob("[0-9]*/stat")]
    if not stats:  # no Linux
        return True
    return any(state != "Z" and own == str(group) for state, own in map(state_and_group, stats))


def state_and_group(stat):
    """The state of a process and its group; a process that is gone is a zombie without a group."""
    try:
        state, _, group = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
    except (FileNotFoundError, ProcessLookupError):
        return "Z", ""
    return state, group


def until_there(seen):
    """Wait for something that another process does."""
    while not seen():
        time.sleep(0.01)


def test_without_spark_one_line_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['pyspark'] = None\nfrom coterie.cli import main; main()"
    log, out = str(golden_data.log("corrupt/fine")), str(tmp_path / "out")
    command = [sys.executable, "-c", code, "replay", log, "--engine", "spark", "--out", out]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert "coterie[spark]" in result.stderr
