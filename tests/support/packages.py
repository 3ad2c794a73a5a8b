"""The package as users get it: each kind built once for all tests, and installed.

The wheel of the tree reuses the tree's build folder (see pyproject.toml), so nothing is compiled
again. The wheel of the sdist is compiled completely, but without optimisation and from the C that
Cython wrote for the tree: Cython's input is the same in both (``package/test_package.py``). The
tests check its contents and that it runs.
"""

import fcntl
import os
import subprocess
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(*arguments):
    """Build with this environment's packages; its programs (cmake, ninja) are first on the PATH."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    command = [sys.executable, "-m", "build", "--no-isolation", *map(str, arguments), str(ROOT)]
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def sdist_in(folder, config):
    """Build the sdist and, without optimisation, its wheel in a folder, and return the folder."""
    skip_unless_it_builds(config)
    generated_c = f"-Ccmake.define.COTERIE_GENERATED={generated() or ''}"
    build("--outdir", folder, "-Ccmake.build-type=None", generated_c)  # no flags of CMake's own
    return folder


def tree_wheel_in(folder, config):
    """Build the wheel of the tree in a folder that all processes of a run share, and return it."""
    skip_unless_it_builds(config)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the processes would build in one folder of objects
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            build("--outdir", unfinished, "--wheel")
            unfinished.rename(folder)
    return wheel_in(folder)


def skip_unless_it_builds(config):
    """Skip a test that builds the package unless this run does so (CI, --slow) and can."""
    if not (os.environ.get("CI") or config.getoption("--slow")):
        pytest.skip("builds the package: runs in CI or with --slow")
    for name in ("build", "scikit_build_core", "setuptools", "Cython"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def generated():
    """The folder with the C of the tree; None if a source is newer, so that Cython has to run."""
    places = [ROOT / "src", ROOT / "pycore/coterie/_core"]
    times = [path.stat().st_mtime for place in places for path in place.rglob("*.p[xy][xdi]")]
    for log in ROOT.glob(f"build/*-{sys.implementation.cache_tag}/.ninja_log"):
        if log.stat().st_mtime >= max(times):
            return log.parent
    return None


def wheel_in(folder):
    """Return the one wheel in a folder."""
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment_with(wheel, home):
    """Make an environment with a wheel and the dependencies, but not the packages, of this one."""
    venv.create(home, with_pip=False)
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "-q"]
    subprocess.run([*install, "--ignore-installed", "--no-index", wheel], check=True)
    return home / "bin"
