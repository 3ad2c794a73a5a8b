"""Names and texts of peers reach a terminal escaped: a control character could drive it."""

import json

import pytest

from coterie.cli.failures import status_of
from coterie.live.cluster_errors import ClusterError
from support.commandline import coterie
from support.insight.lives import commit, life, member, written
from support.terminal import at_terminal, plain

ODD = "\x1b]0;odd\x07\r\x9b31m\u202e\x7f\nFORGED"
START = 1_795_237_300_000
AT = ("--at", str(START + 150_000))
SILENT = ("verify", "replay")  # no name is in what they print
ALL = ("--describe", "--all-groups")


def odd(name):
    return f"{name}{ODD}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a log, and files to read beside it, all of odd names."""
    folder = tmp_path_factory.mktemp("odd")
    names = dict(group=odd("group").encode())
    topic = odd("topic")
    workers = [
        member(odd(f"member{at}"), clientId=odd("client"), clientHost=odd("/host"),
               groupInstanceId=odd(f"instance{at}"), topics=[topic], held={topic: [at]})
        for at in range(2)
    ]  # fmt: skip
    records = [life(START, 1, *workers, protocol=odd("protocol"), **names)]
    for step, offset in enumerate((100, 900, 40, 950)):
        at_ms = START + 60_000 * (step + 1)
        records.append(commit(at_ms, {0: offset, 1: offset}, topic=topic.encode(), **names))
    records += [life(START + 7_200_000, 2, *workers[:1], protocol=odd("protocol"), **names)]
    written(folder / "log", *records)
    other = life(START, 1, group=odd("gone").encode())
    written(folder / "other", *records[:3], other, *records[3:])
    (folder / "ends").write_text("orders:0:9000\n")
    for name, count in (("one", 3), ("other", 9)):
        response = {"at": 5, "id": 1, "event": "response", "members": [odd("member")] * count}
        (folder / f"{name}.jsonl").write_text(json.dumps(response) + "\n")
    return folder


SHOWN = [
    ("groups", "log", "--list"),
    ("groups", "log", "--list", "--state", "--type"),
    ("groups", "log", *ALL),
    ("groups", "log", *ALL, "--members", "--verbose"),
    ("groups", "log", *ALL, "--members", "--verbose", "--layout", "4.1"),
    ("groups", "log", *ALL, "--state"),
    ("groups", "log", "--describe", "--group", odd("nobody")),
    ("explain", "log"),
    ("undo", "log", "--all-groups", *AT, "--against-latest"),
    ("undo", "log", "--group", odd("nobody"), *AT),
    ("expire", "log", "--offsets"),
    ("expire", "log"),
    ("growth", "log", "--by", "group", "--by", "topic"),
    ("audit", "log"),
    ("lag", "log", "--end-offsets", "ends"),
    ("compare", "log", "other"),
    ("replay", "log", "--out", "out", "--engine", "local", "--overwrite"),
    ("verify", "log"),
    ("verify", odd("nowhere")),
    ("trace", "diff", "one.jsonl", "other.jsonl"),
    ("trace", "run", odd("nowhere"), "--out", "out"),
    ("serve", "--listen", odd("nowhere")),
    ("watch", odd("nowhere")),
    ("fetch", "--bootstrap-server", odd("nowhere") + ":0", "--out", "out"),
    ("designs", "compare", odd("nowhere")),
    ("report", "log", "--group", odd("nobody"), "-o", "page.html"),
    (odd("explode"),),
]
DATA = [
    ("undo", "log", "--all-groups", *AT),
    ("groups", "log", *ALL, "--format", "csv"),
    ("explain", "log", "--format", "csv"),
    ("expire", "log", "--offsets", "--format", "json"),
    ("compare", "log", "other", "--format", "csv"),
    ("records", "log"),
    ("metrics", "log"),
]


def driving(text):
    """Return the lines of a text with characters that drive a terminal."""
    return [line for line in text.split("\n") if not line.isprintable()]


def begun(text):
    """Return the lines of a text that a name began."""
    return [line for line in text.split("\n") if line.lstrip().startswith("FORGED")]


@pytest.mark.parametrize("args", SHOWN, ids=lambda args: ascii(" ".join(args)))
def test_what_people_read_has_every_name_escaped(place, args):
    """Into a pipe, too: it may end at a terminal."""
    piped = coterie(*args, cwd=place)
    shown = [plain(at_terminal(columns, *args, cwd=place).stdout) for columns in (80, 10_000)]
    texts = [piped.stdout, piped.stderr, *shown]
    assert any("]0;odd" in text for text in texts) or args[0] in SILENT
    assert [driving(text) for text in texts] == [[]] * 4
    assert [begun(text) for text in texts] == [[]] * 4


@pytest.mark.parametrize("args", DATA, ids=" ".join)
def test_data_is_as_it_is_in_a_pipe_and_escaped_at_a_terminal(place, args):
    assert driving(coterie(*args, cwd=place).stdout)
    assert driving(plain(at_terminal(200, *args, cwd=place).stdout)) == []


def test_a_line_on_standard_error_is_one_whatever_an_error_says(capsys):
    assert status_of(ClusterError(f"broker 7: {ODD}")) == 1
    assert capsys.readouterr().err == (
        r"coterie: broker 7: \x1b]0;odd\x07 \x9b31m\u202e\x7f FORGED" + "\n"
    )
