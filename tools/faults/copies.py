"""A copy of the sources with a build and an environment of its own; the checkout is not touched.

The clean copy is beside it. Files are restored from there with their times, so that removing a
fault needs no compilation.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from faults.change import Change
from faults.draw import differs

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build/faults"
HANG_S = 300  # of one test: far more than the longest takes on a busy machine
HANG_TOGETHER_S = 100  # with many faults at once several tests may hang
WALL_S, CPU_S = 2400, 1800  # of a run of tests, if pytest's own watchdog hangs too
MEMORY_BYTES = 8 << 30
BLOCKS = HOME / "blocks/libblocks.so"
# -O1 takes half the time of -O3. Each block of code reports itself to the library, also in the
# function that chooses among clones; that one runs before the library is linked, so no clones.
# addr2line 2.40 takes some files of DWARF 5 for others. A variable that a fault leaves unset holds
# a pattern, not a zero by chance.
FAST_BUILD = {
    "CFLAGS": "-O1 -DNDEBUG -g1 -gdwarf-4 -ftrivial-auto-var-init=pattern"
    " -fsanitize-coverage=trace-pc '-Dtarget_clones(...)='",
    "LDFLAGS": f"-L{BLOCKS.parent} -Wl,--no-as-needed -lblocks -Wl,-rpath,{BLOCKS.parent}",
    "CCACHE_BASEDIR": str(HOME),  # the second copy takes what was compiled for the first
    "CCACHE_NOHASHDIR": "1",
}
CCACHE = Path("/usr/lib/ccache")  # Debian's folder of compilers that cache, if it is there
SOURCES = ("pycore/coterie", "spark_udfs/coterie_spark")
PYTEST = [
    *("-q", "-rfE", "-p", "no:cacheprovider", "--no-header", "--hypothesis-seed=0"),
    *("-o", f"faulthandler_timeout={HANG_S}"),
]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?:@\w+)?(?: - .*)?$", re.M)


@dataclass(frozen=True)
class Ran:
    """How a run of tests ended: ``how`` is failed, hung, a signal or status; "" if all passed."""

    how: str = ""
    test: str = ""  # the test that it ended at, if known

    def __str__(self) -> str:
        return f"{self.how}  {self.test}".rstrip()


class Copy:
    """One of the copies, in which a worker plants its faults."""

    def __init__(self, number: int) -> None:
        self.home = HOME / str(number)
        self.clean = HOME / f"{number}-clean"
        self.tree, self.objects = self.home / "tree", self.home / "objects"
        self.python = self.home / "venv/bin/python"
        python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.site = self.home / "venv/lib" / python / "site-packages"
        self.passed: set[str] = set()
        self.process: subprocess.Popen[str] | None = None

    def make(self) -> None:
        """Bring copy, environment and build up to date; unchanged files are not written."""
        made_so = self.home / "flags"
        flags = "\n".join(FAST_BUILD.values())
        if self.home.is_dir() and not (made_so.is_file() and made_so.read_text() == flags):
            shutil.rmtree(self.home)
            shutil.rmtree(self.clean, ignore_errors=True)
        if self.clean.is_dir():
            mirror(self.clean, self.home)
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.check_output(listed, cwd=ROOT, text=True).split("\0")
        names = {name for name in names if (ROOT / name).is_file()}
        for name in names:
            source, target = ROOT / name, self.tree / name
            if not target.is_file() or not filecmp.cmp(source, target, shallow=False):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        for name in _files(self.tree):
            if name not in names:
                (self.tree / name).unlink()
        venv = self.python.parents[1]
        subprocess.run([ROOT / "tools/borrow", sys.executable, venv], check=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        how = ["--no-build-isolation", "--no-deps", f"-Cbuild-dir={self.objects}"]
        how.append("-Ccmake.build-type=Faults")  # none of CMake's own: only FAST_BUILD counts
        where = ["--python", self.python, "install", *how, "-e", self.tree]
        subprocess.run([*pip, *where], check=True, env=self._environment())
        made_so.write_text(flags)
        mirror(self.home, self.clean)

    def plant(self, changes: Sequence[Change]) -> str:
        """Plant faults, each file's from its end; return why they cannot be planted, or ""."""
        for change in sorted(changes, key=lambda change: -change.start):
            path = self.tree / change.file
            text = path.read_text(encoding="utf-8")
            if not differs(change, text):
                return "the same to Python, or nothing"
            path.write_text(change.apply(text), encoding="utf-8")
        if all(change.file.endswith(".py") for change in changes):
            return ""
        for step in (
            ["--build", self.objects],
            ["--install", self.objects, "--prefix", self.site],
        ):
            command = ["cmake", *step]
            result = subprocess.run(
                command, env=self._environment(), capture_output=True, text=True, errors="replace"
            )
            if result.returncode:
                return "it does not compile"
        before, after = self.clean / "objects", _files(self.objects)
        was = _files(before)
        changed = [name for name in after if name.endswith(".so") and after[name] != was.get(name)]
        if all(_same_code(self.objects / name, before / name) for name in changed):
            return "it compiles to the same"
        return ""

    def restore(self) -> None:
        """Undo the changes of a fault, its build and its tests."""
        mirror(self.clean, self.home)

    def run(self, tests: Sequence[str], without: str = "") -> Ran:
        """Run tests up to the first failure; ``without`` is a test to leave out.

        A fault may change the names of tests, if these come from what is tested: then the whole
        files run.
        """
        options = ["-x", "--deselect", without] if without else ["-x"]
        output, status = self._pytest(options, tests)
        if status == pytest.ExitCode.USAGE_ERROR:
            files = dict.fromkeys(test.partition("::")[0] for test in tests)
            output, status = self._pytest(options, list(files))
        return how_ended(output, status)

    def failing(self, tests: Sequence[str], workers: int) -> list[str]:
        """Run tests in several processes; return those that fail, hang or crash.

        Raises
        ------
        SystemExit
            pytest did not finish.
        """
        # A test that hangs fails and its process goes on: pytest-xdist 3.8 may wait forever for
        # one that has ended.
        hang = [f"--timeout={HANG_TOGETHER_S}", "-o", "timeout_method=signal"]
        output, status = self._pytest([*parallel(workers), *hang], tests)
        if status not in (0, 1):
            raise SystemExit(f"faults: the run of all suites did not end: {output[-2000:]}")
        return list(dict.fromkeys(FAILED.findall(output)))

    def sound(self, tests: Sequence[str], workers: int) -> list[str]:
        """Return the tests that exist and pass without a fault."""
        files = sorted({test.partition("::")[0] for test in tests})
        if not files:
            return []
        known = set(self._pytest(["--collect-only"], files)[0].splitlines())
        known.intersection_update(tests)
        failing = self.failing(sorted(known), workers) if known else []
        return [test for test in tests if test in known and test not in failing]

    def record(self, files: Sequence[str], folder: Path, workers: int) -> None:
        """Run test files, and leave in a folder which lines each test executes.

        Raises
        ------
        SystemExit
            pytest did not finish.
        """
        recording = {
            "PYTHONPATH": str(ROOT / "tools"),
            "FAULTS_RECORDING": str(folder),
            "FAULTS_BLOCKS": str(BLOCKS),
            "FAULTS_SOURCES": os.pathsep.join(str(self.tree / source) for source in SOURCES),
        }
        how = ["-p", "faults.recording", *(parallel(workers) if workers > 1 else ())]
        output, status = self._pytest(how, files, recording)
        if status not in (0, 1):
            raise SystemExit(f"faults: the recorded run did not end: {output[-2000:]}")

    def _pytest(
        self, options: Sequence[str], tests: Sequence[str], variables: dict[str, str] | None = None
    ) -> tuple[str, int]:
        """Run pytest; return what it printed, and its exit status."""
        listed = HOME / f"{self.home.name}-tests"  # thousands of names are too long for a command
        listed.write_text("\n".join(tests))
        self.process = process = subprocess.Popen(
            [self.python, "-m", "pytest", *PYTEST, *options, f"@{listed}"],
            cwd=self.tree,
            env=self._environment() | (variables or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=_limit,
        )
        try:
            output, _ = process.communicate(timeout=WALL_S)
        except subprocess.TimeoutExpired:
            output = "Timeout"
        finally:
            self.stop()
        return output, process.returncode

    def passes(self, test: str) -> bool:
        """Return whether there is such a test without a fault, and it passes."""
        if test not in self.passed and self._pytest([], [test])[1] == pytest.ExitCode.OK:
            self.passed.add(test)
        return test in self.passed

    def stop(self) -> None:
        """Kill the tests and their child processes."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _environment(self) -> dict[str, str]:
        compilers = [str(CCACHE)] if CCACHE.is_dir() else []
        tools = Path(sys.executable).parent  # cmake and ninja of this environment
        return {
            **os.environ,
            **FAST_BUILD,
            "PATH": os.pathsep.join([*compilers, str(tools), os.environ["PATH"]]),
            "COTERIE_SHARED": os.environ.get("COTERIE_SHARED") or str(ROOT.parent / "shared"),
            "COTERIE_NO_SHRINKING": "1",
            "PYTHONPYCACHEPREFIX": str(HOME / f"{self.home.name}-pycache"),
        }


def make_library() -> None:
    """Compile the library that the copies' modules report their blocks to."""
    source = Path(__file__).with_name("blocks.c")
    if not BLOCKS.is_file() or BLOCKS.stat().st_mtime < source.stat().st_mtime:
        BLOCKS.parent.mkdir(parents=True, exist_ok=True)
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", BLOCKS, source]
        subprocess.run(command, check=True)


def parallel(workers: int) -> list[str]:
    """Return pytest's options for several processes."""
    return ["-n", str(workers), "--dist", "loadgroup", "--no-loadscope-reorder"]


def _same_code(one: Path, other: Path) -> bool:
    """Whether two modules differ in nothing but the line numbers for debuggers."""
    texts = []
    for path in (one, other):
        stripped = HOME / f"{os.getpid()}-{threading.get_ident()}.stripped"
        subprocess.run(["strip", "-g", "-o", stripped, path], check=True)
        texts.append(stripped.read_bytes())
        stripped.unlink()
    return texts[0] == texts[1]


def mirror(source: Path, target: Path) -> None:
    """Make a folder the same as another, times included; only what differs is written."""
    there, here = _files(source), _files(target)
    for name in here.keys() - there.keys():
        (target / name).unlink()
    for name, known in there.items():
        if here.get(name) != known:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).unlink(missing_ok=True)
            shutil.copy2(source / name, target / name, follow_symlinks=False)


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and time of each file under a folder."""
    files = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            known = os.lstat(path)
            files[os.path.relpath(path, folder)] = (known.st_size, known.st_mtime_ns)
    return files


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 10))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def how_ended(output: str, status: int) -> Ran:
    """Read pytest's output up to the first test that failed or hung."""
    if status == 0:
        return Ran()
    named = FAILED.search(output)
    if named:
        return Ran("failed", named[1])
    at = re.search(r'File ".*?/(tests/[^"]+)", line \d+ in (test_\w+)', output)
    hung = re.search(r"^Timeout", output, re.M)
    how = "hung" if hung else f"signal {-status}" if status < 0 else f"status {status}"
    return Ran(how, f"{at[1]}::{at[2]}" if at else "")
