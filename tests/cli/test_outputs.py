"""No command overwrites an input, an existing file without ``--overwrite``, or a special file."""

import gzip
import os
import shutil
import socket

import pytest

from coterie.base.atomic_file import OutputError, atomic_write
from support import golden_data
from support.commandline import coterie, coterie_ok, fails, folder_of
from support.request_lines import member_beats
from support.trace_data import TRACES

AT = ("--at", "2026-11-22T00:00:00Z")
WRITERS = {  # command -> what stands before its output; every command that writes one file
    "undo": ("undo", "copy", "--all-groups", *AT, "-o"),
    "explain": ("explain", "copy", "--format", "csv", "-o"),
    "expire": ("expire", "copy", "--format", "json", "-o"),
    "growth": ("growth", "copy", "-o"),
    "audit": ("audit", "copy", "-o"),
    "lag": ("lag", "copy", "--end-offsets", "ends", "-o"),
    "metrics": ("metrics", "copy", "-o"),
    "report": ("report", "copy", "-o"),
    "designs compare": ("designs", "compare", "s.json", "--format", "html", "-o"),
}
SCENARIO = '{"events": [{"at": 0, "op": "explode"}]}'
LOG = "copy/__consumer_offsets-0/00000000000000000000.log"
TRACE = "vote-tie.trace.jsonl"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The current folder, with a log, end offsets, a trace, a request log and a scenario."""
    place = tmp_path / "place"
    place.mkdir()
    shutil.copytree(golden_data.log("compression-zstd"), place / "copy")
    (place / "ends").write_text("orders:0:10\n")
    (place / "s.json").write_text(SCENARIO)
    shutil.copy(TRACES / "scenarios" / TRACE, place)
    (place / "live.json").write_text('{"groups": []}')
    server = "[2026-01-01 00:00:00,000] INFO [GroupCoordinator 0]: Stabilized group g generation 1"
    requests = server + " (x)\n" + member_beats(1, "m", 1)
    (place / "request.log").write_text(requests)
    monkeypatch.chdir(place)
    return place


def all_bytes(folder):
    """Every file below a folder, with its bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", WRITERS)
def test_a_file_that_is_there_stays_unless_overwrite_is_given(place, command):
    out = place / "mine"
    out.write_text("mine")
    fails(*WRITERS[command], out, says=("is there already", "--overwrite"))
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    "command", [*(name for name in WRITERS if name != "designs compare"), "compare"]
)
def test_a_file_that_is_there_is_refused_before_the_log_is_read(place, command):
    """The segment is cut, so that reading it would fail."""
    cut = gzip.compress((place / LOG).read_bytes())[:-9]
    (place / LOG).unlink()
    (place / f"{LOG}.gz").write_bytes(cut)
    shutil.copytree("copy", "other")
    line = WRITERS.get(command, ("compare", "copy", "other", "-o"))
    fails(*line, "new", says="not a whole .gz file")
    (place / "mine").write_text("mine")
    fails(*line, "mine", says=("is there already", "--overwrite"))


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "folder"])
@pytest.mark.parametrize("command", WRITERS)
def test_nothing_but_a_regular_file_is_replaced(place, command, kind):
    out = place / "special"
    if kind == "fifo":
        os.mkfifo(out)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(out))
    elif kind == "device":
        out.symlink_to("/dev/null")
    else:
        out.mkdir()
    before = os.stat(out)
    fails(*WRITERS[command], out, "--overwrite", says=f"--out {out}: is ")
    assert os.stat(out) == before


@pytest.mark.parametrize("command", [name for name in WRITERS if name != "designs compare"])
def test_no_file_is_written_into_a_log_by_whatever_path(place, command):
    (place / "link").symlink_to(place / "copy")
    before = all_bytes(place)
    for out in ("copy/new", LOG, f"link/{LOG.partition('/')[2]}", "copy/__consumer_offsets-9/new"):
        fails(*WRITERS[command], out, "--overwrite", status=2, says=(out, "which is read"))
    assert all_bytes(place) == before


@pytest.mark.parametrize(
    ("command", "out"),
    [
        (("lag", "copy", "--end-offsets", "ends"), "ends"),
        (("metrics", "copy", "--end-offsets", "ends"), "ends"),
        (("audit", "copy", "--live", "live.json"), "live.json"),
        (("audit", "copy", "--request-log", "request.log"), "request.log"),
        (("explain", "copy", "--server-log", "request.log"), "request.log"),
        (("explain", "copy", "--request-log", "request.log"), "request.log"),
        (("report", "copy", "--server-log", "request.log"), "request.log"),
        (("designs", "compare", "s.json", "--format", "html"), "s.json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_file_that_is_read_beside_the_log_is_not_replaced(place, command, out):
    before = (place / out).read_bytes()
    ran = coterie(*command, "-o", out, "--overwrite")
    assert (ran.returncode, (place / out).read_bytes()) == (2, before)
    assert "which is read" in ran.stderr


def replay(out, *options, log="copy"):
    return ("replay", log, "--engine", "local", "--format", "json", "--out", out, *options)


@pytest.mark.parametrize("out", ["copy", "copy/__consumer_offsets-0", "copy/tables", "."])
def test_a_replay_never_replaces_its_log_nor_writes_into_it(place, out):
    before = all_bytes(place)
    fails(*replay(out, "--overwrite"), status=2, says=(f"--out {out}", "which is read"))
    assert all_bytes(place) == before


def test_a_replay_does_not_replace_what_a_link_of_its_log_leads_to(place):
    partition = place / "copy" / "__consumer_offsets-0"
    (place / "disk").mkdir()
    partition.rename(place / "disk" / partition.name)
    partition.symlink_to(place / "disk" / partition.name)
    before = all_bytes(place / "disk")
    for out in ("disk", f"disk/{partition.name}"):
        fails(*replay(out, "--overwrite"), status=2, says="which is read")
    assert all_bytes(place / "disk") == before


def test_a_replay_replaces_only_a_folder_of_a_replay(place):
    coterie_ok(*replay("tables"))
    coterie_ok(*replay("tables", "--overwrite"))
    for name in ("notes.txt", ".git", "__consumer_offsets-3"):
        (place / "tables" / name).mkdir()
        fails(*replay("tables", "--overwrite"), says=("would delete", name))
        (place / "tables" / name).rmdir()
    assert folder_of("tables") == ["groups.json"]


def test_the_folders_of_parts_that_spark_writes_are_replaced_but_no_others(place):
    folder = place / "tables" / "groups.parquet"
    folder.mkdir(parents=True)
    (folder / "part-00000.parquet").touch()
    (folder / "mine.txt").touch()
    fails(*replay("tables", "--overwrite"), says=("would delete", "groups.parquet"))
    (folder / "mine.txt").unlink()
    coterie_ok(*replay("tables", "--overwrite"))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("trace", "run", TRACE, "--out"), "vote-tie.actual.jsonl"),
        (("designs", "run", "herd", "--out"), "herd.actual.json"),
    ],
    ids=["trace run", "designs run"],
)
def test_a_run_replaces_only_regular_files(place, command, name):
    (place / "out").mkdir()
    os.mkfifo(place / "out" / name)
    fails(*command, "out", "--overwrite", says=(name, "is not a regular file"))
    (place / "out" / name).unlink()
    coterie_ok(*command, "out")
    fails(*command, "out", says=(name, "is there already"))


def test_an_import_never_replaces_the_log_that_it_reads(place):
    shutil.copy("request.log", "one.trace.jsonl")
    command = ("trace", "import", "one.trace.jsonl", "--name", "one", "--out", ".", "--overwrite")
    fails(*command, status=2, says=("one.trace.jsonl", "which is read"))


def test_a_special_file_that_came_there_meanwhile_is_not_replaced(tmp_path):
    out = tmp_path / "out"

    def write():
        with atomic_write(out) as part:
            part.write_text("ours")
            os.mkfifo(out)

    with pytest.raises(OutputError, match="not a regular file"):
        write()
    assert folder_of(tmp_path) == ["out"]
    assert out.is_fifo()
