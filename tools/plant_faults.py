"""Plant one-line faults, one at a time, and see whether the tests catch each.

    python tools/plant_faults.py [--only ID ...] [--rooms ROOM ...] [--full] [--list]

The faults stand in ``tools/faults/ROOM.toml``: a file, a text that occurs in it once, what to put
in its place, what that breaks, and the tests that are to fail. The sources are copied to
``build/faults/tree``, which has a build and an environment of its own; the checkout is never
touched. The chosen tests run first without a fault, for a test that fails there shows nothing.
A fault that they let live has survived; with ``--full`` only if all tests let it live. A test that
crashes, or never ends, has caught its fault.

The exit status is 1 if a fault's text is stale, if one does not build, or if less than 95 % are
caught.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ROOT / "tools/faults"
HOME = ROOT / "build/faults"
TREE = HOME / "tree"
PYTHON = HOME / "venv/bin/python"
OBJECTS = HOME / "objects"
KINDS = ("compare", "bound", "order", "sign", "forgotten call", "wrong field")
COMPILED = {".pyx", ".pxd", ".h"}
PYTEST = ["-x", "-q", "-p", "no:cacheprovider", "--no-header"]
LIST_TEST = "tests/test_planted_faults.py"  # sees that a text is gone, not what that breaks
OTHERS = ("tests/clients", "tests/package")  # other programs and environments: minutes each
LEAST_CAUGHT = 0.95
CPU_S = {
    False: 300,
    True: 3600,
}  # of one process, by whether all tests run: more is an endless loop
WALL_S = {False: 1800, True: 7200}  # for what waits for ever; far beyond the slowest machine
MEMORY_BYTES = 8 << 30


@dataclass(frozen=True)
class Fault:
    """One fault: ``old`` occurs in ``file`` once, and ``new`` in its place ``breaks`` something."""

    room: str
    id: str
    file: str
    old: str
    new: str
    kind: str
    breaks: str
    tests: tuple[str, ...]

    def stale(self, root: Path = ROOT) -> str | None:
        """Say why the fault cannot be planted in the sources under ``root``, if so."""
        path = root / self.file
        if not path.is_file():
            return f"no file {self.file}"
        count = path.read_text(encoding="utf-8").count(self.old)
        return None if count == 1 else f"its text occurs {count} times in {self.file}"


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: ``caught``, ``survived``, ``unbuilt`` or ``stale``; and how."""

    fault: Fault
    verdict: str
    by: str = ""
    seconds: float = 0.0


def read_faults() -> list[Fault]:
    """Return the faults by room, in the order of their files."""
    return [
        Fault(path.stem, **{**entry, "tests": tuple(entry["tests"])})
        for path in sorted(FAULTS.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    ]


class Copy:
    """The copy of the sources that faults are planted in, with its build."""

    def __init__(self) -> None:
        self.stamp = 0
        self.built = False

    def make(self) -> None:
        """Bring copy, environment and build up to date; what did not change is left as it is."""
        listed = _output("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = {name for name in listed.split("\0") if (ROOT / name).is_file()}
        for name in names:
            source, target = ROOT / name, TREE / name
            if not target.is_file() or source.read_bytes() != target.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        for path in list(TREE.rglob("*")):
            if path.is_file() and path.relative_to(TREE).as_posix() not in names:
                path.unlink()
        subprocess.run([ROOT / "tools/borrow", sys.executable, PYTHON.parents[1]], check=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "--python", PYTHON]
        how = ["--no-build-isolation", "--no-deps", f"-Cbuild-dir={OBJECTS}"]
        subprocess.run([*pip, "install", *how, "-e", TREE], check=True, env=_environment())
        self.built = True

    def write(self, name: str, text: str) -> None:
        """Write a file, dated later than any before: what is cached of it goes by its second."""
        path = TREE / name
        path.write_text(text, encoding="utf-8")
        self.stamp = max(self.stamp, int(time.time())) + 1
        os.utime(path, (self.stamp, self.stamp))
        self.built &= path.suffix not in COMPILED

    def build(self) -> str:
        """Compile what changed; return what the compiler said where it failed, else nothing."""
        if not self.built:
            site = _output(PYTHON, "-c", "import sysconfig as s; print(s.get_path('platlib'))")
            steps = [["--build", OBJECTS], ["--install", OBJECTS, "--prefix", site.strip()]]
            for step in steps:
                told = subprocess.run(["cmake", *step], env=_environment(), **_CAPTURED)
                if told.returncode:
                    return told.stdout + told.stderr
            self.built = True
        return ""

    def run(self, tests: tuple[str, ...], many: bool = False) -> tuple[str, str]:
        """Run tests (none: all but ``OTHERS``); return what caught a fault, and the output."""
        whole = many or not tests
        chosen = tests or tuple(f"--ignore={one}" for one in (LIST_TEST, *OTHERS))
        try:
            told = subprocess.run(
                [PYTHON, "-m", "pytest", *PYTEST, *chosen],
                cwd=TREE,
                env=_environment(),
                timeout=WALL_S[whole],
                preexec_fn=lambda: _limit(CPU_S[whole]),
                **_CAPTURED,
            )
        except subprocess.TimeoutExpired:
            return "no end", ""
        finally:
            # Else an example that failed once would be tried first for ever.
            shutil.rmtree(TREE / ".hypothesis", ignore_errors=True)
        said = told.stdout + told.stderr
        named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", told.stdout, re.M)
        signal = f"signal {-told.returncode}" if told.returncode < 0 else "an error"
        return ("" if told.returncode == 0 else named[1] if named else signal), said


_CAPTURED = {"capture_output": True, "text": True, "errors": "replace"}


def _output(*command: str | Path) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _environment() -> dict[str, str]:
    tools = Path(sys.executable).parent  # cmake, ninja and cython of this environment
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    shared = os.environ.get("COTERIE_SHARED") or str(ROOT.parent / "shared")
    return {**os.environ, "PATH": path, "COTERIE_SHARED": shared}


def _limit(cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 10))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def plant(copy: Copy, fault: Fault, full: bool) -> Outcome:
    """Plant one fault, run the tests, take it out again."""
    began = time.monotonic()
    why = fault.stale(TREE)
    if why:
        return Outcome(fault, "stale", why)
    text = (TREE / fault.file).read_text(encoding="utf-8")
    copy.write(fault.file, text.replace(fault.old, fault.new))
    try:
        said = copy.build()
        if said:
            return Outcome(fault, "unbuilt", said.strip().splitlines()[-1])
        by, _ = copy.run(fault.tests)
        if not by and full:
            by, _ = copy.run(())
        verdict = "caught" if by else "survived"
        return Outcome(fault, verdict, by, time.monotonic() - began)
    finally:
        copy.write(fault.file, text)


def chosen_faults(options: argparse.Namespace) -> list[Fault]:
    """Return the faults that were asked for, those that need no compiler first."""
    every = read_faults()
    for asked, known in (
        (options.only, {f.id for f in every}),
        (options.rooms, {f.room for f in every}),
    ):
        if set(asked) - known:
            raise SystemExit(f"plant_faults: none is named {', '.join(set(asked) - known)}")
    found = [
        fault
        for fault in every
        if (not options.only or fault.id in options.only)
        and (not options.rooms or fault.room in options.rooms)
    ]
    return sorted(found, key=lambda fault: Path(fault.file).suffix in COMPILED)


def line(outcome: Outcome) -> str:
    """Return one line of the table."""
    fault = outcome.fault
    head = f"{outcome.verdict:8}  {fault.room:11}  {fault.id:34}  {fault.kind:14}"
    return f"{head}  {outcome.seconds:5.0f} s  {outcome.by}"


def main() -> int:
    """Plant the faults that were asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--rooms", nargs="+", default=[], metavar="ROOM")
    parser.add_argument("--full", action="store_true", help="all tests for those that live")
    parser.add_argument("--list", action="store_true", help="name the faults and end")
    options = parser.parse_args()
    faults = chosen_faults(options)
    if options.list:
        for fault in faults:
            print(f"{fault.room:11}  {fault.id:34}  {fault.kind:14}  {fault.breaks}")
        return 0
    copy = Copy()
    copy.make()
    tests = dict.fromkeys(test for fault in faults for test in fault.tests)
    by, said = copy.run(tuple(tests), many=True)
    if by:
        print(f"{said}\nplant_faults: these tests fail without a fault")
        return 1
    outcomes = []
    with HOME.joinpath("outcomes.jsonl").open("w", buffering=1, encoding="utf-8") as kept:
        for fault in faults:
            outcomes.append(plant(copy, fault, options.full))
            print(line(outcomes[-1]), flush=True)
            found = outcomes[-1]
            kept.write(
                json.dumps({"id": fault.id, "verdict": found.verdict, "by": found.by}) + "\n"
            )
    count = Counter(outcome.verdict for outcome in outcomes)
    print(f"{len(outcomes)} faults: " + ", ".join(f"{n} {verdict}" for verdict, n in count.items()))
    good = count["caught"] >= LEAST_CAUGHT * len(outcomes)
    return 0 if good and not count["stale"] and not count["unbuilt"] else 1


if __name__ == "__main__":
    sys.exit(main())
