"""Standard streams that are closed at the start, as by `coterie ... >&-`; SIGINT at the start."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from support.commandline import default_sigint
from support.golden_data import LOGS

SMALL = str(LOGS / "basic")
COTERIE = [sys.executable, "-m", "coterie"]


def closed(*descriptors):
    def close():
        for descriptor in descriptors:
            os.close(descriptor)

    return close


def coterie_without(descriptors, *args):
    """Run a command with some of its standard streams closed: status, output and error."""
    return subprocess.run(
        [*COTERIE, *args], capture_output=True, text=True, preexec_fn=closed(*descriptors)
    )


PRINTING = [["groups", SMALL, "--list"], ["records", SMALL], ["--version"], ["--help"]]


@pytest.mark.parametrize("args", PRINTING)
def test_writing_to_a_closed_output_is_one_line_and_exit_1(args):
    ended = coterie_without([1], *args)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "coterie: standard output: Bad file descriptor\n"


def test_a_command_that_writes_a_file_needs_no_output(tmp_path):
    out = tmp_path / "out"
    ended = coterie_without([0, 1, 2], "replay", SMALL, "--out", str(out), "--format", "json")
    assert ended.returncode == 0
    assert sorted(entry.name for entry in out.iterdir())


def test_a_closed_error_loses_messages_alone(tmp_path):
    damaged = tmp_path / "__consumer_offsets-0"
    damaged.mkdir()
    (damaged / "00000000000000000000.log").write_bytes(bytes(100))
    args = ["replay", str(damaged), "--out", str(tmp_path / "out"), "--format", "json"]
    assert "1 fault" in coterie_without([], *args).stderr
    ended = coterie_without([2], *args, "--overwrite")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    ended = coterie_without([2], "groups", str(tmp_path / "none"), "--list")
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")


@pytest.mark.parametrize("descriptors", [(0,), (0, 2)])
def test_a_server_without_standard_streams_ends_well(descriptors):
    with ExitStack() as stack:
        server = subprocess.Popen(
            [*COTERIE, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=closed(*descriptors),
        )  # fmt: skip
        stack.enter_context(server)
        stack.callback(server.kill)
        assert [server.stdout.readline().split()[0] for _ in range(2)] == ["listening", "ready"]
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 0


EARLY = """
import os, runpy, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["coterie", "--version"]
runpy.run_module("coterie", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_while_the_command_line_is_imported_is_no_traceback():
    ended = subprocess.run(
        [sys.executable, "-c", EARLY], capture_output=True, text=True, preexec_fn=default_sigint
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_an_ignored_interrupt_stays_ignored():
    def ignore():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    ended = subprocess.run(
        [sys.executable, "-c", EARLY], capture_output=True, text=True, preexec_fn=ignore
    )
    assert (ended.returncode, ended.stderr) == (0, "")
