"""The package as users get it: built once for all tests that want it, and put into environments.

The wheel of the tree comes from the folder of the tree's own objects (pyproject.toml names it), so
nothing is compiled again that ``make build`` compiled. The wheel of the sdist is compiled in whole,
but without optimisation, and of the C that Cython wrote for the tree: what Cython reads is the same
in both (``package/test_package.py``). What is held of it is what is in it, and that it runs.
"""

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
    """Build with what this environment has; its programs (cython) come first on the PATH."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    command = [sys.executable, "-m", "build", "--no-isolation", *map(str, arguments), str(ROOT)]
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def built_in(home, config):
    """Build the sdist and from it the wheel (``sdist``), and one from the tree (``tree``)."""
    if not (os.environ.get("CI") or config.getoption("--slow")):
        pytest.skip("builds the package twice: runs in CI or with --slow")
    for name in ("build", "scikit_build_core", "cython_cmake", "Cython"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    as_it_is = f"-Ccmake.define.COTERIE_GENERATED={generated() or ''}"
    build("--outdir", home / "sdist", "-Ccmake.build-type=Debug", as_it_is)
    build("--outdir", home / "tree", "--wheel")
    return home


def generated():
    """The folder with the C of the tree, unless a source is newer: then Cython runs once more."""
    places = [ROOT / "src", ROOT / "pycore/coterie/_core"]
    times = [path.stat().st_mtime for place in places for path in place.rglob("*.p[xy][xdi]")]
    for log in ROOT.glob(f"build/*-{sys.implementation.cache_tag}/.ninja_log"):
        if log.stat().st_mtime >= max(times):
            return log.parent
    return None


def wheel_in(folder):
    """Return the one wheel in a folder."""
    (found,) = folder.glob("*.whl")
    return found


def environment_with(wheel, home):
    """Make an environment with a wheel, which borrows the dependencies and not the packages."""
    venv.create(home, with_pip=False)
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "-q"]
    subprocess.run([*install, "--ignore-installed", "--no-index", wheel], check=True)
    return home / "bin"
