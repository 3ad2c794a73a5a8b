"""Bad input: one clear line on standard error, the right status, and no partial output.

Some tests use only ``replay`` and ``verify``: all commands share the code that lists logs and the
code that ends the process.
"""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from coterie.log.folders import find_segments
from support import golden_data
from support.commandline import (
    COTERIE,
    coterie,
    coterie_forks,
    coterie_ok,
    coterie_process,
    default_sigint,
    fails,
    folder_of,
)

NOBODY = 65534
COMMANDS = [
    ("verify",),
    ("records",),
    ("groups", "--list"),
    ("explain",),
    ("undo", "--all-groups", "--at", "1796133900000", "-o", "{file}"),
    ("expire", "-o", "{file}"),
    ("growth", "--format", "csv"),
    ("audit", "--format", "json"),
    ("lag", "--end-offsets", "{ends}"),
    ("metrics",),
    ("report", "-o", "{file}"),
    ("replay", "--engine", "local", "--format", "json", "--out", "{out}"),
]


@pytest.fixture(params=COMMANDS, ids=lambda command: command[0])
def command(request, tmp_path):
    """A command without its LOG; the test must not leave an output behind."""
    out, ends, file = tmp_path / "nowhere" / "out", tmp_path / "ends", tmp_path / "answer"
    if "{ends}" in request.param:
        ends.write_text("orders:0:10\n")
    yield [part.format(out=out, ends=ends, file=file) for part in request.param]
    assert not out.parent.exists()
    assert not file.exists()


@pytest.fixture
def log():
    return golden_data.log("compression-zstd")


def local(log, out, *options):
    return ("replay", log, "--out", out, "--engine", "local", *options)


def test_a_path_that_is_not_there(command, tmp_path):
    fails(*command, tmp_path / "gone", says=(tmp_path / "gone", "no such file or folder"))


def test_a_bad_path_is_told_before_spark_starts(tmp_path):
    (tmp_path / "notes.txt").write_text("no log")
    out = tmp_path / "out"
    fails("replay", tmp_path / "gone", "--out", out, says="no such file or folder")
    fails("replay", tmp_path / "notes.txt", "--out", out, says="not a log segment")
    assert folder_of(tmp_path) == ["notes.txt"]


def test_an_empty_folder(command, tmp_path):
    (tmp_path / "empty").mkdir()
    fails(*command, tmp_path / "empty", says=(tmp_path / "empty", "empty"))


def test_a_folder_without_the_topic(command, tmp_path):
    (tmp_path / "logs" / "orders-0").mkdir(parents=True)
    shutil.copy(golden_data.segments("basic")[0], tmp_path / "logs" / "orders-0")
    fails(*command, tmp_path / "logs", says=(tmp_path / "logs", "no __consumer_offsets-N folder"))


def test_a_folder_of_a_partition_without_a_segment(command, tmp_path):
    (tmp_path / "__consumer_offsets-4").mkdir()
    fails(*command, tmp_path / "__consumer_offsets-4", says="no segment (.log)")
    shutil.move(tmp_path / "__consumer_offsets-4", tmp_path / "a" / "__consumer_offsets-4")
    fails(*command, tmp_path / "a", says="no segment (.log)")


@pytest.mark.parametrize("name", ["notes.txt", "notes.log", "00000000000000000000.index"])
def test_a_file_that_is_no_segment(command, tmp_path, name):
    (tmp_path / name).write_text("some words of no meaning to a broker\n" * 9)
    fails(*command, tmp_path / name, says=(tmp_path / name, "not a log segment"))


def test_a_segment_that_kafka_set_aside(command, tmp_path):
    path = tmp_path / "00000000000000000000.log.deleted"
    shutil.copy(golden_data.segments("basic")[0], path)
    fails(*command, path, says=(path, "set this file aside"))


@pytest.mark.parametrize("kind", ["zst", "gz"])
def test_a_compressed_segment_that_is_cut(command, tmp_path, kind):
    import gzip

    import cramjam

    data = golden_data.segments("basic")[0].read_bytes()
    whole = gzip.compress(data) if kind == "gz" else bytes(cramjam.zstd.compress(data))
    path = tmp_path / f"00000000000000000000.log.{kind}"
    path.write_bytes(whole[: len(whole) // 2])
    fails(*command, path, says=(path, f"not a whole .{kind} file"))


def test_a_folder_whose_segments_are_text(command, tmp_path):
    folder = tmp_path / "__consumer_offsets-4"
    folder.mkdir()
    for name in ("00000000000000000000.log", "00000000000000000009.log"):
        (folder / name).write_text("some words of no meaning to a broker\n" * 9)
    fails(*command, tmp_path, says=(tmp_path, "none of its .log files is a log segment"))


def test_a_segment_whose_first_byte_is_damaged_is_read(tmp_path):
    data = golden_data.segments("basic")[0].read_bytes()
    folder = tmp_path / "__consumer_offsets-4"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"\xff" + data[1:])
    assert len(find_segments([tmp_path]).segments) == 1


def test_a_partition_in_two_folders(command, log):
    other = golden_data.log("compression-gzip")
    fails(*command, log, other, says=("partition 0 is in two folders", log, other))


QUESTIONS = ["explain", "expire", "growth", "audit", "metrics"]


@pytest.mark.parametrize("what", ["folder", "segment"])
def test_no_permission_to_read(what, log):
    """Root may read everything: the process becomes somebody else after its imports."""
    modules = [f"coterie.cli.{name}" for name in ("verify", "replay", *QUESTIONS)]
    modules += [f"coterie.insight.questions.{name}" for name in QUESTIONS]
    modules += ["coterie.state.local_replay", "coterie.insight.question_engine"]
    prepare = f"import {', '.join(modules)}\n"
    if 0 in (os.getuid(), os.geteuid()):
        prepare += f"os.setgid({NOBODY}); os.setuid({NOBODY})"
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        copy = Path(place) / "log"
        shutil.copytree(log, copy, copy_function=shutil.copy)
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755)
        secret = copy / "__consumer_offsets-1"
        if what == "segment":
            secret = secret / "00000000000000000000.log"
        secret.chmod(0)
        try:
            ended = coterie_forks([(name, copy) for name in ("verify", *QUESTIONS)], prepare)
        finally:
            secret.chmod(0o755)
    for status, text in ended:
        (line,) = text.splitlines()
        assert (status, str(secret) in line, "no permission" in line) == (1, True, True), line


def test_an_output_folder_that_is_not_empty(log, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    fails(*local(log, out), says=(out, "is not empty", "--overwrite"))
    assert (out / "mine.txt").read_text() == "mine"
    assert folder_of(tmp_path) == ["out"]


def test_an_output_that_is_a_file(log, tmp_path):
    (tmp_path / "out").write_text("mine")
    for options in ((), ("--overwrite",)):
        fails(*local(log, tmp_path / "out", *options), says=(tmp_path / "out", "is a file"))
    assert (tmp_path / "out").read_text() == "mine"


def test_an_empty_output_folder_is_taken_and_overwrite_replaces_one(log, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    coterie_ok(*local(log, out, "--format", "json"))
    assert folder_of(out) == ["groups.json"]
    (out / "groups.json").write_text("old")
    coterie_ok(*local(log, out, "--format", "json", "--overwrite"))
    assert folder_of(out) == ["groups.json"]
    assert len((out / "groups.json").read_text()) > 1000
    assert folder_of(tmp_path) == ["out"]


def test_an_output_folder_under_a_file_or_one_that_may_not_be_written(log, tmp_path):
    (tmp_path / "file").write_text("mine")
    fails(*local(log, tmp_path / "file" / "out"), says=tmp_path / "file")
    fails(*local(log, "/proc/coterie/out"), says="/proc/coterie")


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_full_disk_leaves_nothing(log, tmp_path, form):
    if form == "parquet":
        pytest.importorskip("pyarrow")

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    out = tmp_path / "new" / "out"
    limited = {"run": coterie_process, "preexec_fn": little_room}
    fails(*local(log, out, "--format", form), says="File too large", **limited)
    assert folder_of(tmp_path) == []


@pytest.mark.parametrize(
    "question", [("growth", "--format", "csv"), ("expire", "--format", "json"), ("report",)]
)
def test_a_full_disk_leaves_no_answer(log, tmp_path, question):
    if question[0] == "report":
        pytest.importorskip("jinja2")

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    out = tmp_path / "answer"
    wrong = coterie_process(*question, log, "-o", out, preexec_fn=little_room)
    assert wrong.returncode == 1
    assert "File too large" in wrong.stderr.splitlines()[-1]
    assert "Traceback" not in wrong.stderr
    assert folder_of(tmp_path) == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_no_half_written_table(tmp_path, number, status):
    pytest.importorskip("pyarrow")
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    data = golden_data.segments("basic")[0].read_bytes()
    big = data * (100_000_000 // len(data))
    for base in range(30):
        path = folder / f"{base * 10**9:020d}.log"
        if base:
            os.link(folder / f"{0:020d}.log", path)
        else:
            path.write_bytes(big)
    out = tmp_path / "out" / "tables"
    command = [*COTERIE, *map(str, local(tmp_path / "log", out, "--history"))]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, preexec_fn=default_sigint, **pipes)
    try:
        while process.poll() is None and not any(out.parent.glob(".tables.*/commits.parquet")):
            os.sched_yield()
        process.send_signal(number)
        _, said = process.communicate()
    finally:
        process.kill()
    assert process.returncode == status, said
    assert len(said.splitlines()) == 1, said
    assert folder_of(tmp_path) == ["log"]


@pytest.mark.parametrize(
    ("time", "says"),
    [
        ("yesterday", "is not a time"),
        ("2026-01-31T14:05:00", "no zone"),
        ("2026-02-30T14:05:00Z", "is not a time"),
        ("2026-01-31T14:05:00+25:00", "is not a time"),
        ("99999999999999999999", "beyond any time"),
        ("", "is not a time"),
    ],
)
def test_a_time_that_is_none(log, tmp_path, time, says):
    fails(*local(log, tmp_path / "out", "--at", time), status=2, says=says)
    assert folder_of(tmp_path) == []


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "Missing command"),
        (("explode",), "explode"),
        (("verify",), "LOG"),
        (("verify", "--loud", "."), "--loud"),
        (("replay", "."), "--out"),
        (("replay", ".", "--out", "x", "--on-fault", "pray"), "pray"),
        (("replay", ".", "--out", "x", "--format", "xml"), "xml"),
        (("replay", ".", "--out", "x", "--engine", "steam"), "steam"),
        (("replay", ".", "--out", "x", "--engine", "local", "--master", "local"), "--master"),
        (("replay", ".", "--out", "x", "--engine", "local", "--conf", "spark.a=b"), "--conf is"),
        (("growth", ".", "--engine", "local", "--conf", "spark.a=b"), "--conf is for"),
        (
            ("replay", ".", "--out", "x", "--engine", "spark", "--conf", "spark.a"),
            "'spark.a' is not",
        ),
        (("growth", ".", "--engine", "spark", "--conf", "a=b"), "'a=b' is not KEY=VALUE"),
        (("growth", ".", "--engine", "spark", "--conf", "spark.=b"), "is not KEY=VALUE"),
    ],
)
def test_wrong_usage(args, says, tmp_path):
    fails(*args, status=2, says=(says, "--help"), cwd=tmp_path)
    assert folder_of(tmp_path) == []


def test_a_traceback_is_printed_where_it_is_asked_for_and_nowhere_else(tmp_path, monkeypatch):
    """The line comes first; the traceback ends with the exception."""
    missing = ("verify", tmp_path / "nowhere")
    fails(*missing, says="nowhere")
    monkeypatch.setenv("COTERIE_TRACEBACK", "1")
    ran = coterie(*missing)
    assert ran.returncode == 1
    line, heading, *_, last = ran.stderr.splitlines()
    assert line.startswith("coterie: ")
    assert heading == "Traceback (most recent call last):"
    assert "Error: " in last
    assert "nowhere" in last
    assert coterie("--version").stderr == ""  # it ends with an exception that is no failure


def test_stop_fails_at_the_first_fault(tmp_path):
    bad = golden_data.log("corrupt/value-empty")
    says = ("byte 14174", "offset 130", "value")
    fails(*local(bad, tmp_path / "out", "--on-fault", "stop"), says=says)
    assert folder_of(tmp_path) == []


def test_many_faults_are_told_in_few_lines(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (segment,) = golden_data.segments("corrupt/value-empty")
    for base in range(30):
        shutil.copy(segment, folder / f"{base * 1000:020d}.log")
    ran = coterie_ok(*local(folder, tmp_path / "out", "--format", "json"))
    lines = [line for line in ran.stderr.splitlines() if line.startswith("fault: ")]
    assert len(lines) == 21
    assert "10 more" in lines[-1]
    assert "30 faults" in ran.stderr


TO_STANDARD_OUTPUT = [  # every command that writes there, but a server
    *(("verify",), ("records",), ("groups", "--list")),
    *(("explain",), ("explain", "--format", "json"), ("expire",), ("growth",), ("metrics",)),
    *(("undo", "--all-groups", "--at", "1796133900000"), ("audit", "--format", "csv")),
    *(("report", "--format", "markdown"), ("--version",), ("growth", "--help")),
    *(("lag", "--end-offsets", "ends"), ("designs", "list"), ("designs", "compare", "herd")),
    ("compare", "copy", "--format", "csv"),
    *(("trace", "whatif", "trace"), ("trace", "diff", "lines", "lines")),
]


NO_READER = """
import numpy, coterie.insight.question_engine
from coterie.cli import audit, compare, designs, expire, explain, growth, lag, metrics, report, undo
read, write = os.pipe(); os.close(read); os.dup2(write, 1); os.close(write)
"""


def test_a_reader_of_the_output_that_leaves_stops_the_command_quietly(tmp_path):
    (tmp_path / "ends").write_text("orders:0:10\n")
    (tmp_path / "trace").write_text('{"format": "coterie-trace", "version": 1, "name": "t"}\n')
    (tmp_path / "lines").touch()
    (tmp_path / "copy").symlink_to(golden_data.log("basic"))
    commands = []
    for command in TO_STANDARD_OUTPUT:
        has_log = command[0] not in ("designs", "trace", "--version")
        case = "corrupt/value-empty" if command[0] == "verify" else "default50"
        commands.append((*command, *([golden_data.log(case)] if has_log else [])))
    ended = coterie_forks(commands, NO_READER, cwd=tmp_path)
    for command, end in zip(commands, ended, strict=True):
        assert end == (1, ""), command


def test_help_and_version_are_answers():
    assert coterie_ok("--version").stdout.split()[-1][0].isdigit()
    for name in ("verify", "replay"):
        assert f"coterie {name}" in coterie_ok(name, "--help").stdout
        assert name in coterie_ok("--help").stdout
    assert coterie("--help").stderr == ""
