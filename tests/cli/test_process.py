"""The command line as a process: outputs equal those of the call in this process."""

import re

import pytest

from coterie.cli import COMMANDS
from support import golden_data
from support.commandline import coterie, coterie_process
from support.trace_data import TRACES

ALL = ("--describe", "--all-groups")
SOME_TRACES = sorted((TRACES / "scenarios").glob("v*"))
RUNS = [
    ("replay", "basic", "--out", "out", "--engine", "local", "--format", "json", "--history"),
    ("groups", "basic", *ALL, "--members", "--verbose"),
    ("explain", "basic", "--group", "grp-del-again"),
    ("undo", "basic", *("--group", "grp-reset-cli", "--at", "1795237397237", "-o", "back.csv")),
    ("expire", "basic", "--now", "1795237397237"),
    ("growth", "basic", "--format", "csv"),
    ("audit", "basic", "--format", "json"),
    ("lag", "basic", "--end-offsets", "nothing"),
    ("compare", "compacted", "compression-snappy"),
    ("metrics", "basic"),
    ("watch", "--print", "alerts"),
    ("report", "basic", "-o", "page.html"),
    ("records", "basic", "--group", "grp-mix-all"),
    ("mcp", "nowhere"),
    ("verify", "corrupt/value-empty"),
    ("fetch", "--bootstrap-server", "nowhere", "--command-config", "nothing", "--out", "out"),
    ("serve", "--listen", "0.0.0.0:9092"),
    ("rehearse", "basic", "--group", "grp-java-sticky"),
    ("designs", "run", "nothing.json", "--out", "out"),
    ("trace", "run", "traces", "--out", "out"),
    ("--help",),
    ("explode",),
]


def test_every_command_is_among_them():
    assert {args[0] for args in RUNS if args[0] in COMMANDS} == set(COMMANDS)


def written(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("args", RUNS, ids=" ".join)
def test_a_process_says_and_writes_what_a_call_in_this_one_does(args, tmp_path):
    if args[0] == "report":
        pytest.importorskip("jinja2")
    results = []
    for run in (coterie, coterie_process):
        folder = tmp_path / run.__name__
        folder.mkdir()
        for name in ("basic", "corrupt", "compacted", "compression-snappy"):
            (folder / name).symlink_to(golden_data.LOGS / name)
        (folder / "traces").mkdir()
        for path in SOME_TRACES:
            (folder / "traces" / path.name).symlink_to(path)
        done = run(*args, cwd=folder)
        said = re.sub(r"; [0-9.]+ s, .*", "", done.stderr)  # replay says how long it took
        results.append((done.returncode, done.stdout, said, written(folder)))
    assert results[0] == results[1]
    assert results[0][1:] != ("", "", {})
