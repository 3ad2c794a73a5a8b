"""At a terminal, what a command prints fits its width, and no id is broken."""

import json
import shlex
import subprocess

import click
import pytest

from coterie.base.printable import shell_words
from coterie.base.terminal import columns_of, text_lines
from coterie.cli import COMMANDS
from coterie.cli import coterie as command_line
from support import golden_data
from support.commandline import ENVIRONMENT, coterie, coterie_ok
from support.insight.lives import commit, life, member, written
from support.terminal import at_terminal, plain, process_at_terminal
from support.trace_data import TRACES

GROUP = "payments-settlement-service.europe-west-1.consumer-group.blue"
TOPIC = "com.example.payments.settlement.instructions.v2.retry"
CLIENT = "settlement-worker-europe-west-1-7f9c6d5b8-x2x4q-consumer-1"
HOURS = 3_600_000
START = 1_795_237_300_000
ALL = ("--describe", "--all-groups")
AT = ("--at", "1795237380000")
RUNS = [
    ("groups", "basic", "--list"),
    ("groups", "basic", "--list", "--state", "--type"),
    ("groups", "basic", *ALL),
    ("groups", "basic", *ALL, "--members", "--verbose"),
    ("groups", "basic", *ALL, "--state"),
    ("groups", "kip848", *ALL, "--members", "--verbose"),
    ("groups", "kip848", *ALL, "--kind", "share", "--members", "--verbose"),
    ("groups", "kip848", *ALL, "--kind", "streams", "--members", "--verbose"),
    ("groups", "transactions", *ALL),
    ("groups", "basic", "--describe", "--group", "nobody"),
    ("explain", "basic"),
    ("explain", "kip848"),
    ("undo", "basic", "--all-groups", *AT),
    ("undo", "basic", "--all-groups", *AT, "--against-latest"),
    ("expire", "basic", "--now", "1795237397237", "--what-if", "1d", "--what-if", "30d"),
    ("expire", "basic", "--offsets"),
    ("growth", "basic"),
    ("growth", "basic", "--by", "group", "--by", "topic"),
    ("growth", "basic", "--over-time", "1m"),
    ("growth", "transactions"),
    ("audit", "basic"),
    ("lag", "basic", "--end-offsets", "ends"),
    ("compare", "basic", "compacted"),
    ("records", "corrupt/value-empty", "--group", "nobody"),
    ("verify", "corrupt/value-empty"),
    ("verify", "corrupt/bad-crc"),
    ("replay", "basic", "--out", "out", "--engine", "local", *AT),
    ("report", "compacted", "-o", "page.html"),
    ("trace", "run", "traces", "--out", "out"),
    ("trace", "diff", "traces", "out"),
    ("trace", "diff", "one.jsonl", "other.jsonl"),
    ("trace", "whatif", "traces/vote-tie.trace.jsonl"),
    ("designs", "list"),
    ("designs", "compare", "long-cut"),
    ("fetch", "--bootstrap-server", "nowhere", "--command-config", "nothing", "--out", "out"),
    ("serve", "--listen", "0.0.0.0:9092"),
    ("watch", "nothing", "--listen", "0.0.0.0:9092"),
    ("metrics", "nothing"),
    ("explode",),
]
ANY_PORT = ("--listen", "127.0.0.1:0")
WITHOUT_EFFECT = ("num.io.threads", "num.network.threads", "background.threads")
LASTING = [
    ("serve", *ANY_PORT, "--insecure", *(f"--set={name}=4" for name in WITHOUT_EFFECT)),
    ("watch", "corrupt/value-empty", *ANY_PORT),
]
WRITERS = ("replay", "report")
LONG = [
    ("groups", "long", "--list", "--state"),
    ("groups", "long", *ALL),
    ("groups", "long", *ALL, "--members", "--verbose"),
    ("groups", "long", *ALL, "--state"),
    ("explain", "long"),
    ("undo", "long", "--group", GROUP, "--at", str(START + HOURS)),
    ("expire", "long", "--offsets"),
    ("expire", "long"),
    ("growth", "long", "--by", "group", "--by", "topic"),
    ("audit", "long"),
    ("lag", "long", "--end-offsets", "ends"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with logs, traces, end offsets, and a log of long names."""
    folder = tmp_path_factory.mktemp("terminal")
    for name in ("basic", "kip848", "transactions", "corrupt", "compacted"):
        (folder / name).symlink_to(golden_data.log(name))
    (folder / "traces").mkdir()
    for path in sorted((TRACES / "scenarios").glob("v*")):
        (folder / "traces" / path.name).symlink_to(path)
    responses = [{"at": 5, "id": 1, "event": "response", "members": [CLIENT] * n} for n in (3, 9)]
    for name, response in zip(("one", "other"), responses, strict=True):
        (folder / f"{name}.jsonl").write_text(json.dumps(response) + "\n")
    (folder / "ends").write_text(f"orders:0:9000\n{TOPIC}:0:9000\n")
    long_log(folder / "long")
    return folder


def long_log(folder):
    """Write a log whose group joins, commits, goes back and has nobody left, with long names."""
    names = dict(group=GROUP.encode())
    workers = [
        member(f"{CLIENT}{at}-0a1b2c", clientId=f"{CLIENT}{at}", clientHost="/10.20.30.40",
               topics=[TOPIC], held={TOPIC: [at]})
        for at in range(3)
    ]  # fmt: skip
    records = [life(START, 1, *workers, **names)]
    for step, offset in enumerate((100, 900, 40, 950, *range(951, 960))):
        at_ms = START + 60_000 * (step + 1)
        records.append(commit(at_ms, {0: offset, 1: offset}, topic=TOPIC.encode(), **names))
    records += [life(START + HOURS * 2, 2, *workers[:1], **names)]
    records += [life(START + HOURS * 3, 3, **names)]
    written(folder, *records)


def too_wide(text, columns):
    """Return the lines that are wider than the terminal, unless they are one word."""
    return [
        line
        for line in plain(text).splitlines()
        if columns_of(line) > columns and " " in line.strip()
    ]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("args", RUNS, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(place, args, columns):
    if args[0] == "report":
        pytest.importorskip("jinja2")
    (place / "out").mkdir(exist_ok=True)
    overwrite = ("--overwrite",) if args[:2] == ("trace", "run") or args[0] in WRITERS else ()
    shown = at_terminal(columns, *args, *overwrite, cwd=place)
    assert shown.stdout.strip()
    assert too_wide(shown.stdout, columns) == []


@pytest.mark.parametrize("args", LASTING, ids=" ".join)
def test_the_start_of_a_server_fits(place, args):
    shown = process_at_terminal(60, *args, until="ready", cwd=place)
    assert shown.endswith("ready\n")
    assert too_wide(shown, 60) == []


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("args", LONG, ids=" ".join)
def test_long_names_stay_whole_on_lines_that_fit(place, args, columns):
    shown = plain(at_terminal(columns, *args, cwd=place).stdout)
    assert [line for line in shown.splitlines() if columns_of(line) > columns] == []
    piped = coterie(*args, cwd=place)
    for name in (GROUP, TOPIC, CLIENT):
        assert (name in shown) == (name in piped.stdout + piped.stderr)


@pytest.mark.parametrize("names", [[], [GROUP], ["a", GROUP]], ids=["none", "long", "short, long"])
@pytest.mark.parametrize("columns", [10, 80])
def test_a_list_of_groups_is_the_one_of_a_pipe(tmp_path, names, columns):
    """The first name was a heading; it was not shown if another was wider than the terminal."""
    records = [life(START, 1, member("m"), group=name.encode()) for name in names]
    written(tmp_path / "log", *records)
    shown = at_terminal(columns, "groups", tmp_path / "log", "--list")
    assert (shown.returncode, shown.stdout.splitlines()) == (0, names)
    with_states = at_terminal(columns, "groups", tmp_path / "log", "--list", "--state")
    assert with_states.returncode == 0
    assert all(name in with_states.stdout for name in names)


def test_a_finding_is_a_paragraph_in_the_colour_of_its_severity_with_a_command_that_runs(place):
    shown = at_terminal(80, "audit", "long", "--only", "rewind", cwd=place).stdout
    assert "\x1b[1;31mrewind\x1b[0m   group" in shown
    lines = plain(shown).split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("  coterie "))
    end = lines.index("", at)
    command = shlex.split("\n".join(lines[at:end]).replace("\\\n", " "))
    assert command[:5] == ["coterie", "explain", "long", "--group", GROUP]
    assert coterie_ok(*command[1:], cwd=place).stdout.startswith(f"group {GROUP}\n")


GROUPS_TO_QUOTE = (
    *("g" * size for size in (5, 30, 58, 61, 70, 90)),
    *("my group", "it's mine", "a --b c", "x" * 40 + " y" * 30, "'", '"$HOME" `id` \\', "größe 1"),
)
UNPRINTABLE = (
    "a\nb",
    "tab\t1",
    "\x1b[2J\x07",
    "no\xa0break",
    "left \u202e'right\\ --x",
    "\U000e0001 " * 20,
)


def test_a_command_on_several_lines_is_the_same_to_a_shell():
    shown, same = [], []
    for group in (*GROUPS_TO_QUOTE, *UNPRINTABLE):
        for width in (40, 80, 120):
            words = ["explain", "copy/a log", "--group", group, "--since", "2026-11-18T11:15:50Z"]
            shown += text_lines(f"  coterie {shell_words(words)}", width)
            same += ["begin", *words]
    assert all(line.isprintable() for line in shown)
    script = "\n".join(["coterie() { printf '%s\\0' begin \"$@\"; }", *shown])
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().split("\0") == [*same, ""]


@pytest.mark.parametrize("args", [run for run in LONG if run[0] != "groups"], ids=" ".join)
def test_into_a_pipe_a_row_is_one_line_whatever_the_width(place, args, monkeypatch):
    """``COLUMNS`` is of a terminal; the tests of each command check its words."""
    wide = coterie(*args, cwd=place)
    monkeypatch.setitem(ENVIRONMENT, "COLUMNS", "40")
    narrow = coterie(*args, cwd=place)
    assert (narrow.stdout, narrow.stderr) == (wide.stdout, wide.stderr)
    if args[0] == "explain":
        assert [line for line in wide.stdout.splitlines() if CLIENT in line and len(line) > 200]


@pytest.mark.parametrize("columns", [80, 120])
def test_help_pages_fit(columns):
    def pages(command, *path):
        yield path
        for name in getattr(command, "commands", {}):
            yield from pages(command.commands[name], *path, name)

    for name in COMMANDS:
        command = command_line.get_command(click.Context(command_line), name)
        for path in pages(command, name):
            shown = at_terminal(columns, *path, "--help")
            assert shown.returncode == 0
            assert [line for line in shown.stdout.splitlines() if len(line) > columns] == []
