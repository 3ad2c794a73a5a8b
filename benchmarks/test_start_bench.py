"""The start of a command, beside Python's own and that of a command of click's that does nothing.

Each round is a process of its own; what counts is its CPU time, user and system, with all that it
loads. An editable install has a finder of its own at every start, and a wheel has none: the
version says which was measured.
"""

import platform
import resource
import subprocess
import sys
import sysconfig

import pytest

import coterie
from support.golden_data import LOGS

SIZES = {"smoke": [1], "short": [1], "full": [1]}
MAIN = "from coterie.cli import main; main()"
CLICK = "import click; click.command()(lambda: click.echo('Usage'))()"
PROCESSES = {  # name -> arguments of Python, and what stands in its output
    "python": (["-c", "pass"], ""),
    "click": (["-c", CLICK], "Usage"),
    "import coterie": (["-c", "import coterie"], ""),
    "coterie --help": (["-c", MAIN, "--help"], "Usage: coterie"),
    "coterie groups": (["-c", MAIN, "groups", str(LOGS / "basic"), "--list"], "grp-mix-range"),
}
INSTALLED = coterie.__file__.startswith(sysconfig.get_path("purelib"))


def children_s():
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("peer", PROCESSES)
@pytest.mark.benchmark(group="start of a process", timer=children_s)
def test_start(benchmark, note, sizes, peer, size):
    arguments, answer = PROCESSES[peer]

    def start():
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout

    status, output = benchmark.pedantic(
        start, rounds=1 if sizes == "smoke" else 25, iterations=1, warmup_rounds=1
    )
    assert status == 0
    assert answer in output
    if peer == "python":
        benchmark.extra_info["version"] = f"python {platform.python_version()}"
    elif "coterie" in peer:
        how = "" if INSTALLED else ", editable"
        benchmark.extra_info["version"] = f"coterie {coterie.__version__}{how}"
    note("start", peer, size, package=peer, unit="process")
