"""Input files of the wrong kind: an endless file is one error line; a pipe is read as a file."""

import json
import os
import resource
import threading

import pytest

from coterie.base import user_files
from coterie.errors import ArgumentError, CoterieError
from coterie.server.net.tls import server_context
from coterie.server.services.users import read_users
from support import golden_data
from support.commandline import coterie, coterie_process, fails
from support.trace_data import header, join

LOG = golden_data.log("compression-zstd")
ENDLESS = "/dev/zero"
READERS = {  # what stands before the file
    "end offsets": ("lag", LOG, "--end-offsets"),
    "end offsets of metrics": ("metrics", LOG, "--end-offsets"),
    "live": ("audit", LOG, "--live"),
    "server log": ("explain", LOG, "--server-log"),
    "request log": ("explain", LOG, "--request-log"),
    "request log of audit": ("audit", LOG, "--request-log"),
    "server log of report": ("report", LOG, "--format", "markdown", "--server-log"),
    "trace": ("trace", "whatif"),
    "import": ("trace", "import", "--out", "out"),
    "scenario": ("designs", "compare"),
}


@pytest.fixture
def small_limits(monkeypatch):
    """Lower the limits, so that tests reach them at once."""
    monkeypatch.setattr(user_files, "LINE_LENGTH_MAX", 10_000)
    monkeypatch.setattr(user_files.read_bytes, "__defaults__", (10_000,))


@pytest.mark.parametrize("reader", READERS)
def test_an_endless_file_is_one_line_that_names_it(reader, small_limits, tmp_path):
    says = (ENDLESS, "is this the right file?")
    fails(*READERS[reader], ENDLESS, says=says, cwd=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["trace", "designs"])
def test_an_endless_file_fails_a_run_and_is_named(command, small_limits, tmp_path):
    ran = coterie(command, "run", ENDLESS, "--out", tmp_path / "out")
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"coterie: {ENDLESS}: ")
    assert "is this the right file?" in ran.stderr


def test_a_comparison_of_an_endless_output_fails(small_limits, tmp_path):
    (tmp_path / "one").write_text('{"at": 0}\n')
    ran = coterie("trace", "diff", ENDLESS, tmp_path / "one")
    assert ran.returncode == 1
    assert "is this the right file?" in ran.stderr


@pytest.mark.parametrize("what", ["--tls-cert", "--tls-key", "--tls-client-ca"])
def test_an_endless_certificate_is_refused(what, tmp_path):
    for name in ("--tls-cert", "--tls-key", "--tls-client-ca"):
        (tmp_path / name).touch()
    files = {name: tmp_path / name for name in ("--tls-cert", "--tls-key", "--tls-client-ca")}
    with pytest.raises(ArgumentError, match=r"larger than 16 MiB"):
        server_context(*(files | {what: ENDLESS}).values())


def test_a_users_file_of_many_megabytes_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "users.toml"
    path.touch(mode=0o600)
    os.truncate(path, (16 << 20) + 1)
    with pytest.raises(ArgumentError, match=r"larger than 16 MiB"):
        read_users(path)


@pytest.mark.parametrize("reader", ["end offsets", "server log", "trace"])
def test_an_endless_file_takes_no_more_than_its_limit(reader):
    """The process has a memory limit, as in a container."""

    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    fails(*READERS[reader], ENDLESS, run=coterie_process, preexec_fn=little_memory, says=ENDLESS)


@pytest.mark.parametrize("size", [0, 1, 9_999, 10_000])
def test_a_file_of_as_many_bytes_as_may_be_is_read_whole(size, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    assert user_files.read_bytes(path, 10_000) == path.read_bytes()
    path.write_bytes(b"x" * 10_001)
    with pytest.raises(CoterieError, match="larger than 10000 bytes"):
        user_files.read_bytes(path, 10_000)


def test_a_line_of_as_many_characters_as_may_be_is_whole(tmp_path, small_limits):
    path, longest = tmp_path / "file", "é" * 9_999 + "\n"
    path.write_text(longest * 2 + "end", encoding="utf-8")
    with user_files.open_lines(path) as lines:
        assert list(lines) == [longest, longest, "end"]
    path.write_text("x\n" + "x" + longest, encoding="utf-8")
    with (
        user_files.open_lines(path) as lines,
        pytest.raises(CoterieError, match="line 2 is longer"),
    ):
        list(lines)


@pytest.fixture
def piped(tmp_path):
    """Make a named pipe with a text, as ``<(command)`` does."""
    writers = []

    def pipe(text):
        path = tmp_path / f"pipe{len(writers)}"
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_text, args=(text,)))
        writers[-1].start()
        return path

    yield pipe
    for writer in writers:
        writer.join()


@pytest.mark.parametrize(
    ("command", "text"),
    [  # the first is more than a pipe holds at once
        (("lag", LOG, "--format", "csv", "--end-offsets"), "orders:0:10\n" * 20_000),
        (("audit", LOG, "--live"), '{"groups": []}'),
        (("explain", LOG, "--server-log"), "2026-01-01 00:00:00,0 INFO no line of a group\n"),
        (("trace", "whatif"), "\n".join(map(json.dumps, [header(), join(0, 1)]))),
    ],
    ids=["end offsets", "live", "server log", "trace"],
)
def test_a_pipe_is_read_as_a_file_is(command, text, piped, tmp_path):
    file = tmp_path / "file"
    file.write_text(text)
    expected, ran = coterie(*command, file), coterie(*command, piped(text))
    assert (ran.returncode, ran.stdout) == (expected.returncode, expected.stdout)
    assert ran.stdout
