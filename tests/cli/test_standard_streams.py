"""Standard streams that are closed at the start, as by `coterie ... >&-`; SIGINT at the start."""

import json
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


def test_a_full_error_loses_messages_alone(tmp_path):
    """`undo` shows beside its file what the file would change: it was written, with status 1."""
    args = ["undo", SMALL, "--all-groups", "--at", "2026-11-22T00:00:00Z"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run([*COTERIE, *args], stdout=subprocess.PIPE, stderr=full, text=True)
    assert ended.returncode == 0
    assert ended.stdout == coterie_without([], *args).stdout


OPEN = """
import fcntl, io, itertools, json, os, sys
from coterie.cli.standard_streams import open_closed_streams

NAMES = "stdin", "stdout", "stderr"
report, other = os.dup(1), os.open(sys.argv[1], os.O_RDWR)

def place(descriptor):
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    return os.readlink(f"/proc/self/fd/{descriptor}"), flags & os.O_ACCMODE

def writing(stream):
    try:
        stream.write("x")
    except OSError as error:
        return str(error)

def after(closed, taken):
    for number in range(3):
        os.dup2(other, number)
    for number in closed:
        setattr(sys, NAMES[number], None)
        if number not in taken:
            os.close(number)
    open_closed_streams()
    return {
        "places": [place(number) for number in range(3)],
        "input": sys.stdin.read() if 0 in closed else "",
        "failures": [writing(sys.stdout) if 1 in closed else "", writing(sys.stderr)],
        "numbers": [sys.stdout.fileno(), sys.stdout.writable()],
    }

for count in range(4):
    for closed in itertools.combinations(range(3), count):
        for taken in {(), closed}:
            if not os.fork():
                line = json.dumps([closed, taken, after(closed, taken)])
                os.write(report, line.encode() + b"\\n")
                os._exit(0)
            os.wait()
"""


def test_each_closed_stream_has_the_null_device_at_its_own_descriptor(tmp_path):
    """And what was opened at the descriptor of one since stays there."""
    (other := tmp_path / "other").touch()
    ran = subprocess.run([sys.executable, "-c", OPEN, other], check=True, capture_output=True)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(lines) == 15
    modes = [os.O_RDONLY, os.O_RDONLY, os.O_WRONLY]
    for closed, taken, found in lines:
        assert found == {
            "places": [
                [os.devnull, modes[number]]
                if number in closed and number not in taken
                else [str(other), os.O_RDWR]
                for number in range(3)
            ],
            "input": "",
            "failures": [
                "[Errno 9] Bad file descriptor: 'standard output'" if 1 in closed else "",
                None,
            ],
            "numbers": [1, True],
        }, (closed, taken)


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
